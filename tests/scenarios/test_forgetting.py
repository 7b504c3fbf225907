"""Producers that come and go: stores forget their partitions, and take new ones for ever."""

from __future__ import annotations

import pytest

from dafka.model import Partition
from dafka.node.store import StoreRole
from dafka.process.clock import Clock
from dafka.protocol import receiver
from dafka.protocol.effects import Append, Forget, Publish, Recall
from dafka.protocol.events import Received, TurnEnded, Woke
from dafka.storage.lmdb_log import Durability, LmdbLog
from dafka.storage.retention import Retainer
from dafka.wire import messages
from tests.support.batches import make_batch

AFTER_MS = 1_000


class NoServer:
    """A query port that nobody asks."""

    socket = None

    def receive(self):
        return None

    def close(self):
        pass


class ShortLives:
    """A store on disk, and producers that send it one batch each and are never seen again."""

    def __init__(self, directory):
        self.now_ms = 0
        self.log = LmdbLog(directory, durability=Durability.OS)
        clock = Clock(now_ms=lambda: self.now_ms)
        self.role = StoreRole(
            self.log, NoServer(), Retainer(()), forget_after_ms=AFTER_MS, clock=clock
        )
        self.give(Woke())

    def give(self, event):
        """Let it happen, and be done; returns what goes out."""
        sent, events = [], [event]
        for one in events:
            for _, effect in self.role.handle(None, one, self.now_ms):
                if isinstance(effect, Append | Recall | Forget):
                    completed = self.role.perform(None, effect)
                    events += [] if completed is None else [completed]
                elif isinstance(effect, Publish):
                    sent.append(effect.message)
        return sent

    def send(self, partition, sequence=0):
        """A producer publishes; returns how far it is acknowledged then."""
        one = make_batch([b"value"] * 3, sequence, partition)
        self.give(Received(messages.Records(*partition, one.sequence, one.count, one.content)))
        acks = [one for one in self.give(TurnEnded()) if isinstance(one, messages.Ack)]
        return [(ack.address, ack.sequence) for ack in acks]

    def retain(self):
        """All is old by now, and then forgotten."""
        trims = {one: extent.head + 1 for one, extent in self.log.extents().items()}
        self.log.append((), trims=trims)
        while self.log.extents():
            self.now_ms += AFTER_MS
            self.give(TurnEnded())

    def close(self):
        self.role.close()


@pytest.fixture
def lives(tmp_path):
    lives = ShortLives(tmp_path / "log")
    yield lives
    lives.close()


def producer(number):
    return Partition("orders", f"{number:032X}")


@pytest.mark.slow
def test_more_partitions_come_and_go_than_there_may_be_at_a_time(lives, monkeypatch):
    monkeypatch.setattr(receiver, "PARTITIONS_MAX", 50)
    for generation in range(10):
        for number in range(50):
            partition = producer(50 * generation + number)
            assert lives.send(partition) == [(partition.address, 2)]
        assert lives.send(producer(9_999)) == [], "there are as many as may be"
        lives.retain()
        assert lives.role.machine.heads == {}
    assert lives.log.forgotten == 500
    oldest = producer(0)
    assert lives.send(oldest, 3) == [(oldest.address, 5)]
    assert lives.log.read(oldest, 3, 9, 999)[0].sequence == 3
