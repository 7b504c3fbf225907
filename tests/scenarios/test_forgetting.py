"""Producers that come and go: stores forget their partitions, and take new ones for ever."""

from __future__ import annotations

import pytest

from dafka.errors import StorageError
from dafka.groups.commit import KEPT_MS, RESTATED_MS, Commit, CommitKey, decode, encode
from dafka.groups.commit import TOPIC as COMMITS
from dafka.groups.commit_table import commits_of, fold
from dafka.limits import PARTITIONS_MAX, PeerBounds
from dafka.model import Batch, Partition
from dafka.node.store import RETENTION_INTERVAL_MS, StoreRole
from dafka.node.store_settings import COMMITS_KEPT, StoreSettings
from dafka.process.clock import Clock
from dafka.protocol.effects import Append, Forget, Publish, Recall
from dafka.protocol.events import Received, TurnEnded, Woke
from dafka.protocol.store import StoreMachine
from dafka.records.batch import BatchBuilder, enclosed
from dafka.storage.lmdb_log import Durability, LmdbLog
from dafka.storage.retention import Retainer
from dafka.testing.nodes import kept
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

    def __init__(self, directory, partitions_max=PARTITIONS_MAX):
        self.now_ms = 0
        self.closed = False
        self.log = LmdbLog(directory, durability=Durability.OS)
        clock = Clock(now_ms=lambda: self.now_ms, wall_ms=lambda: self.now_ms)
        rules = Retainer((COMMITS_KEPT,))
        settings = StoreSettings(forget_after_ms=AFTER_MS)
        self.role = StoreRole(self.log, NoServer(), rules, settings=settings, clock=clock)
        bounds = PeerBounds(partitions=partitions_max)
        remembers = self.log.forgotten > 0
        self.role.machine = StoreMachine(
            self.log.identity, self.log.heads(), bounds, remembers=remembers
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
        return self.publish(make_batch([b"value"] * 3, sequence, partition))

    def commit(self, member, sequence, positions, epoch=1):
        """A member of a group commits positions; returns the same."""
        builder = BatchBuilder(1 << 20)
        for partition, position in positions.items():
            key, value = encode(
                CommitKey("billing", partition), Commit(position, epoch, self.now_ms)
            )
            builder.append(self.now_ms, key, value, ())
        content = enclosed(builder.build(), sequence)
        place = Partition(COMMITS, f"{member:032X}")
        return self.publish(Batch(place, sequence, builder.count, content))

    def publish(self, one):
        records = messages.Records(*one.partition, one.sequence, one.count, one.content)
        said = self.give(Received(records)) + self.give(TurnEnded())
        acks = [one for one in said if isinstance(one, messages.Ack)]
        return [(ack.address, ack.sequence) for ack in acks]

    def positions(self):
        """Where the group is, by the store's table."""
        records = [decode(*record) for record in commits_of(self.log, "billing", 99)]
        return {key.partition: commit.position for key, commit in records}

    def wait(self, ms):
        """Let time pass, and let the store see what need not be kept, until nothing more goes."""
        self.now_ms += ms
        for _ in range(20):
            self.now_ms += RETENTION_INTERVAL_MS
            self.give(TurnEnded())

    def retain(self):
        """All is old by now, and then forgotten."""
        trims = {one: extent.head + 1 for one, extent in self.log.extents().items()}
        self.log.append((), trims=trims)
        while self.log.extents():
            self.now_ms += AFTER_MS
            self.give(TurnEnded())

    def close(self):
        """May be called again."""
        if not self.closed:
            self.role.close()
        self.closed = True


@pytest.fixture
def lives(tmp_path):
    lives = ShortLives(tmp_path / "log")
    yield lives
    lives.close()


def producer(number):
    return Partition("orders", f"{number:032X}")


@pytest.mark.slow
def test_more_partitions_come_and_go_than_there_may_be_at_a_time(tmp_path):
    lives = ShortLives(tmp_path / "log", partitions_max=50)
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
    lives.close()


def refuse(*_, **__):
    raise StorageError("the disk refuses")


def test_while_the_disk_cannot_say_whether_a_partition_is_forgotten_nothing_is_taken(
    lives, monkeypatch
):
    lives.send(producer(1))
    lives.retain()
    with monkeypatch.context() as broken:
        broken.setattr(lives.log, "recall", refuse)
        assert lives.send(producer(1), 3) == []
        assert lives.send(producer(2)) == []
    assert lives.role.machine.heads == {}
    assert lives.send(producer(1), 3) == [(producer(1).address, 5)]
    assert lives.send(producer(2)) == [(producer(2).address, 2)]


def test_what_the_disk_does_not_forget_stays_and_is_forgotten_later(lives, monkeypatch):
    lives.send(producer(1))
    lives.log.append((), trims={producer(1): 3})
    with monkeypatch.context() as broken:
        broken.setattr(lives.log, "append", refuse)
        for _ in range(3):
            lives.now_ms += AFTER_MS
            lives.give(TurnEnded())
    assert lives.role.machine.heads == {producer(1): 2}
    lives.retain()
    assert lives.role.machine.heads == {}


def test_a_store_that_was_started_again_goes_on_where_partitions_ended(lives, tmp_path):
    lives.send(producer(1))
    lives.retain()
    lives.close()
    again = ShortLives(tmp_path / "log")
    assert again.log.extents() == {}
    assert again.send(producer(1)) == [(producer(1).address, 2)], "a repetition"
    assert again.send(producer(1), 3) == [(producer(1).address, 5)]
    again.close()


DAY_MS = 86_400_000


def test_what_members_that_are_gone_have_committed_is_forgotten_and_holds(lives):
    for member in range(5):
        lives.commit(member, 0, {producer(member): 10 + member})
    lives.wait(KEPT_MS - DAY_MS)
    assert len(lives.log.extents()) == 5
    lives.wait(DAY_MS)
    assert lives.log.extents() == {}
    assert lives.log.forgotten == 5
    assert lives.positions() == {producer(member): 10 + member for member in range(5)}


def test_a_member_that_is_back_after_a_month_commits_behind_what_it_had_committed(lives):
    lives.commit(1, 0, {producer(1): 10})
    lives.wait(30 * DAY_MS)
    assert lives.commit(1, 1, {producer(1): 20}) == [(f"{1:032X}", 1)]
    assert lives.positions() == {producer(1): 20}


def test_a_store_with_a_new_disk_learns_what_a_living_group_holds(lives, tmp_path):
    lives.commit(1, 0, {producer(1): 10})
    for half in range(1, 9):
        lives.wait(RESTATED_MS)
        lives.commit(2, half - 1, {producer(1): 10})  # as its members do
    records = [one for at in lives.log.extents() for one in kept(lives.log, at)]
    assert {one.partition.address for one in records} == {f"{2:032X}"}
    again = ShortLives(tmp_path / "new")
    again.log.append((), skips={records[0].partition: records[0].sequence})
    for one in records:
        again.log.append([one], entries=fold(again.log, [one]).entries)
    assert again.positions() == {producer(1): 10}
    again.close()
