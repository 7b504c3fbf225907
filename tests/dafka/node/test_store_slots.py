"""What a running store does with slots that move."""

from __future__ import annotations

import pytest

from dafka.errors import StorageError
from dafka.model import ALL_SLOTS, Partition, address_in
from dafka.node.store_settings import StoreSettings
from dafka.node.store_slots import CLEAR_PAUSE_MS, CLEAR_REST_MS, StoreSlots
from dafka.protocol.events import PartitionsEnded, PartitionsForgotten, SlotsMoved
from dafka.storage.holds import Holds
from dafka.storage.kept_slots import KeptSlots
from dafka.storage.memory import MemoryLog
from tests.support.batches import make_batch
from tests.support.shares import HIGH, LOW

P_LOW, P_HIGH = (Partition("orders", address_in("AB" * 16, half, 2)) for half in (0, 1))


@pytest.fixture
def log():
    log = MemoryLog("S0")
    KeptSlots(log, ALL_SLOTS)
    log.append([make_batch([b"1"], 0, one) for one in (P_LOW, P_HIGH)])
    kept = KeptSlots(log, LOW)
    kept.stop(HIGH, 0)
    kept.drop(kept.token)
    return log


def slots_of(log):
    return StoreSlots(log, StoreSettings(slots=LOW), Holds(log), 0)


def test_what_was_given_up_goes_from_the_disk_step_by_step(log):
    slots = slots_of(log)
    now_ms = 0
    while slots.kept.dropped:
        assert slots.clear(now_ms) == []
        assert slots.due_ms == now_ms + CLEAR_PAUSE_MS
        now_ms = slots.due_ms
    slots.clear(now_ms)
    assert slots.due_ms == now_ms + CLEAR_REST_MS
    assert log.extents().keys() == {P_LOW}


def test_what_cannot_be_read_there_is_tried_rarely_and_said_once(log, monkeypatch, caplog):
    """All else goes on: it says nothing of what is taken in."""
    slots = slots_of(log)
    with monkeypatch.context() as patch:

        def outlines(*_):
            raise StorageError("cannot read: a row of the log is damaged")

        patch.setattr(log, "outlines", outlines)
        for _ in range(3):
            slots.clear(slots.due_ms)
        assert slots.due_ms == 3 * CLEAR_REST_MS
    assert [one.getMessage() for one in caplog.records] == [
        "slots that were given up stay on the disk until this is mended: "
        "cannot read: a row of the log is damaged"
    ]
    while slots.kept.dropped:
        slots.clear(slots.due_ms)
    assert log.extents().keys() == {P_LOW}


def test_the_machine_is_told_what_has_changed(log):
    slots = StoreSlots(log, StoreSettings(slots=LOW), Holds(log), 0)
    assert slots.moved() == []
    slots.kept.ask((("S1", HIGH),))
    slots.kept.end({P_HIGH: 7})
    assert slots.moved() == [SlotsMoved(slots.keeping), PartitionsEnded(((P_HIGH, 7),))]
    assert slots.moved() == []


def test_where_partitions_ended_is_remembered_as_of_those_that_are_forgotten(log):
    slots = slots_of(log)
    new, known = Partition("new", "A"), Partition("known", "A")
    log.append((), skips={known: 5})
    log.append((), forgets=[known])
    ends = ((new, 3), (known, 9), (P_LOW, 9))
    for _ in range(2):
        assert slots.remember(ends) == PartitionsForgotten((new, known, P_LOW))
        ended = {one: extent.start for one, extent in log.recall([new, known]).items()}
        assert ended == {new: 3, known: 9}
        assert log.extents()[P_LOW].head == 0
