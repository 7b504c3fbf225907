"""What retention took too early, and who waits while others go on."""

from __future__ import annotations

from dafka.model import ALL_SLOTS, Partition, Slots
from dafka.testing.checker import Name
from dafka.testing.history import Began, History, Polled, SlotsKept, Trimmed
from dafka.testing.timing import STARVED_MS, dropped_young, starved

SLOW, FAST = Partition("t", "SLOW"), Partition("t", "FAST")


def written(history, partition, sequence, at_ms):
    value = f"{partition.address}-{sequence}".encode()
    op = history.sent(partition.address, partition.topic, [value], at_ms)
    history.acknowledged(op, partition.address, sequence, at_ms)
    return value


def test_what_is_dropped_before_its_time_is_named():
    history = History()
    written(history, SLOW, 0, 1_000)
    written(history, SLOW, 1, 2_000)
    history.record(Trimmed(6_500, "S0", SLOW, 2))
    (found,) = dropped_young(history, {"t": 5_000}, {})
    assert found.name is Name.YOUNG
    assert "SLOW/1 after 4500 ms" in found.text
    assert dropped_young(history, {"t": 5_000}, {"SLOW": 500}) == [], "its clock was behind"
    assert dropped_young(history, {"t": 4_500}, {}) == []
    assert len(dropped_young(history, {}, {})) == 2, "that is to be kept for ever"


def test_what_lies_in_slots_that_were_given_up_may_be_young():
    history = History()
    written(history, SLOW, 0, 1_000)
    history.record(SlotsKept(0, "S0", ALL_SLOTS.bits))
    history.record(Trimmed(2_000, "S0", SLOW, 1))
    assert len(dropped_young(history, {"t": 5_000}, {})) == 1
    history.record(SlotsKept(3_000, "S0", Slots(0).bits))
    history.record(Trimmed(3_001, "S0", SLOW, 1))
    assert len(dropped_young(history, {"t": 5_000}, {})) == 1


def read(history, partition, sequence, at_ms, value):
    history.record(Polled(at_ms, "C", partition, sequence, (value,)))


def test_who_waits_while_others_are_served_is_named():
    history = History()
    history.record(Began(0, "C", ("t",), earliest=True))
    waits = written(history, SLOW, 0, 1_000)
    later = written(history, FAST, 0, 2_000)
    read(history, FAST, 0, 2_000 + STARVED_MS, later)
    (found,) = starved(history, 0)
    assert found.name is Name.STARVED
    assert starved(history, 5_000) == [], "what went wrong before hindered it"
    read(history, SLOW, 0, 3_000 + STARVED_MS, waits)
    assert [one.name for one in starved(history, 0)] == [Name.STARVED]


def test_nobody_waits_for_what_was_dropped_or_came_in_time():
    history = History()
    history.record(Began(0, "C", ("t",), earliest=True))
    written(history, SLOW, 0, 1_000)
    later = written(history, FAST, 0, 2_000)
    read(history, FAST, 0, 2_000 + STARVED_MS, later)
    history.record(Trimmed(3_000, "S0", SLOW, 1))
    assert starved(history, 0) == []
