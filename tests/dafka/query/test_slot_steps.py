from __future__ import annotations

import pytest

from dafka.errors import MisuseError
from dafka.model import ALL_SLOTS, Slots
from dafka.query.messages import decode_answer, encode
from dafka.query.service import answer
from dafka.query.slot_steps import (
    LOOK,
    MovingSlots,
    RegistersRequest,
    SlotRowsRequest,
    SlotsRequest,
    moving,
    part_of,
    slots_in,
    slots_of_part,
    step,
    told,
)
from dafka.storage.kept_slots import STOPPED_MS, TAKEN_MS, KeptSlots
from dafka.storage.memory import MemoryLog
from dafka.transport.access import EVERYTHING, Rights

LOW, HIGH = Slots.of([range(2_048)]), Slots.of([range(2_048, 4_096)])


def test_slots_travel_as_ranges():
    assert slots_in(told(LOW)) == LOW
    with pytest.raises(MisuseError, match="ends before it begins"):
        slots_in(((2, 1),))


def test_lists_of_nothing_are_not_taken_for_lists_of_all():
    assert part_of(ALL_SLOTS) == ()
    assert part_of(LOW) == ((0, 2_048),)
    assert part_of(Slots(0)) == ((0, 0),)
    assert all(slots_of_part(part_of(one)) == one for one in (ALL_SLOTS, LOW, Slots(0)))


def test_each_step_says_what_is_so_afterwards():
    log = MemoryLog("S0")
    KeptSlots(log, LOW)
    kept = KeptSlots(log, HIGH)
    said = step(LOOK, kept, 0)
    low, high = told(LOW), told(HIGH)
    assert (said.kept, said.wanted, said.joining, said.token) == (low, high, high, "")
    assert step(SlotsRequest("take", high, said.opening), kept, 0).joining == ()
    stopped = step(SlotsRequest("stop", low), kept, 0)
    assert (stopped.stopped, bool(stopped.token)) == (low, True)
    assert step(LOOK, kept, STOPPED_MS).stopped == ()
    again = step(SlotsRequest("stop", low), kept, STOPPED_MS + TAKEN_MS)
    dropped = step(SlotsRequest("drop", token=again.token), kept, STOPPED_MS + TAKEN_MS)
    assert (dropped.kept, dropped.dropped, dropped.stopped) == (high, low, ())


def test_who_looks_is_told_what_moves():
    log = MemoryLog("S0")
    assert str(moving(KeptSlots(log, LOW))) == ""
    kept = KeptSlots(log, HIGH)
    assert str(moving(kept)) == "joins slots 2048-4095, gives up slots 0-2047"
    step(SlotsRequest("take", told(HIGH), kept.opening), kept, 0)
    stopped = step(SlotsRequest("stop", told(LOW)), kept, 0)
    assert str(moving(kept)) == "gives up slots 0-2047, has stopped slots 0-2047"
    step(SlotsRequest("drop", token=stopped.token), kept, 0)
    assert str(moving(kept)) == "clears slots 0-2047"
    assert str(MovingSlots(((9, 3),))) == "joins slots 9-2", "whatever a store says"


@pytest.mark.parametrize(
    "question",
    [SlotsRequest("stop", ((0, 1),)), SlotRowsRequest("passed over", ()), RegistersRequest()],
)
def test_who_moves_slots_has_the_right_to_mirror_all_topics(question):
    def refused(rights):
        found = decode_answer(answer(encode(question), MemoryLog("S0"), rights))
        return getattr(found, "reason", "") == "not permitted"

    assert refused(Rights(EVERYTHING, EVERYTHING, ("__consumer_offsets", "a")))
    assert not refused(Rights(mirror=EVERYTHING))
