"""The shell without a node: what it writes, when it wants to be woken, what it tells its owner."""

from __future__ import annotations

import pytest

from dafka.errors import StorageError
from dafka.model import Batch, Partition
from dafka.node.batching import GAP_S_MIN
from dafka.node.producer_role import ProducerRole
from dafka.process.clock import CLOCK, Clock, Pace
from dafka.protocol.effects import Append, Disputed, Stored
from dafka.protocol.events import Appended, AppendFailed, Submitted, Woke
from dafka.protocol.producer import ProducerMachine, ProducerSettings
from dafka.storage.spool import MemorySpool

P = Partition("orders", "AA")


class Owner:
    def __init__(self):
        self.told = []
        self.opened_ms = None

    def seal_older(self, opened_ms):
        self.told.append(("seal", opened_ms))

    def oldest_open_ms(self):
        return self.opened_ms

    def spooled(self, batches):
        self.told.append(("spooled", batches))

    def stored(self, effect):
        self.told.append(("stored", effect))

    def disputed(self, effect):
        self.told.append(("disputed", effect))

    def abandon(self):
        self.told.append("abandon")


def test_another_producer_under_its_address_is_said_once_and_loudly(owner, caplog):
    rival = Disputed(Partition("orders", "AA"), 7)
    role_of(owner, None).perform(None, rival)
    assert owner.told == [("disputed", rival)]
    (record,) = caplog.records
    assert record.levelname == "ERROR"
    assert (record.topic, record.address, record.sequence) == ("orders", "AA", 7)
    assert "disputed" in record.getMessage()


class FullSpool(MemorySpool):
    def append(self, batches):
        raise StorageError("disk full")

    def close(self):
        raise StorageError("disk full")


def role_of(owner, spool, linger_ms=5, clock=CLOCK):
    machine = ProducerMachine("AA", ProducerSettings(spooled=spool is not None))
    return ProducerRole(owner, machine, linger_ms, spool, clock)


@pytest.fixture
def owner():
    return Owner()


@pytest.mark.parametrize("waited_ms", [0, 3])
def test_an_open_batch_lingers_as_long_as_told(owner, monkeypatch, waited_ms):
    # On a loaded machine the shortest wait takes milliseconds, and counts.
    monkeypatch.setattr(Pace, "wait", lambda _pace, _gap_s: waited_ms)
    role = role_of(owner, None)
    role.handle(None, Woke(), 100)
    assert owner.told == [("seal", 95 + waited_ms)]
    assert role.wakeup_ms() is None
    owner.opened_ms = 200
    assert role.wakeup_ms() == 205


def test_what_is_in_the_spool_is_told_and_kept_until_it_is_stored(owner):
    spool = MemorySpool("AA")
    role = role_of(owner, spool)
    batch = Batch(P, 0, 2, b"x")
    assert role.perform(None, Append(7, (batch,))) == Appended(7)
    assert owner.told == [("spooled", (batch,))]
    assert spool.batches() == [batch]
    role.perform(None, Stored(P, 2, 1))
    assert owner.told[-1] == ("stored", Stored(P, 2, 1))
    assert spool.batches() == []


def test_a_full_disk_is_told_to_the_machine_and_logged(owner, caplog):
    role = role_of(owner, FullSpool("AA"))
    assert role.perform(None, Append(7, (Batch(P, 0, 1, b"x"),))) == AppendFailed(7)
    assert owner.told == []
    assert "cannot spool" in caplog.text


def test_closing_tells_the_owner_also_when_the_disk_refuses(owner, caplog):
    role_of(owner, FullSpool("AA")).close()
    assert owner.told == ["abandon"]
    assert "cannot tidy spool" in caplog.text


def test_nothing_is_sealed_while_an_ack_is_timed(owner):
    """Unless it takes longer than any gap."""
    time_ms, slept_s = [100.0], []
    clock = Clock(lambda: int(time_ms[0]), int, lambda: time_ms[0] / 1_000, slept_s.append)
    role = role_of(owner, None, linger_ms=0, clock=clock)
    owner.opened_ms = 100
    role.handle(None, Submitted("orders", 1, (bytes(61),)), 100)
    assert role.wakeup_ms() in (102, 103)
    role.handle(None, Woke(), 100)
    assert (owner.told, slept_s) == ([], [])
    role.perform(None, Stored(P, 1, 61))
    assert role.wakeup_ms() == 100
    role.handle(None, Woke(), 100)
    assert owner.told == [("stored", Stored(P, 1, 61)), ("seal", 100)]
    assert slept_s == [pytest.approx(GAP_S_MIN)]


def test_an_ack_that_takes_longer_than_any_gap_is_not_waited_for(owner):
    time_ms = [100.0]
    clock = Clock(lambda: int(time_ms[0]), int, lambda: time_ms[0] / 1_000, lambda _: None)
    role = role_of(owner, None, linger_ms=0, clock=clock)
    owner.opened_ms = 100
    role.handle(None, Submitted("orders", 1, (bytes(61),)), 100)
    time_ms[0] = 102.5
    role.handle(None, Woke(), 102)
    assert owner.told == [("seal", 102)]
