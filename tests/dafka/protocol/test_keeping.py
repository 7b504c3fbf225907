from __future__ import annotations

import pytest

from dafka.model import ALL_SLOTS, Partition, Slots, slot_of
from dafka.protocol.keeping import KEEPS_ALL, NO_SLOTS, Keeping
from dafka.wire import messages
from dafka.wire.messages import MessageId

LOW, NEXT, HIGH = (
    Slots.of([one]) for one in (range(1_024), range(1_024, 2_048), range(2_048, 4_096))
)
MOVING = Keeping(LOW.joined(HIGH), NEXT, HIGH)


def place(slots, topic="flights"):
    addresses = (f"{number:032X}" for number in range(10_000))
    return Partition(topic, next(one for one in addresses if slots.has(slot_of(one))))


@pytest.mark.parametrize(
    ("slots", "does"),
    [
        (LOW, {"holds", "answers", "takes", "acknowledges"}),
        (NEXT, {"holds", "takes"}),
        (HIGH, {"holds", "answers"}),
    ],
    ids=["kept", "joining", "stopped"],
)
def test_what_it_does_with_a_partition(slots, does):
    can = ("holds", "answers", "takes", "acknowledges")
    assert {one for one in can if getattr(MOVING, one)(place(slots))} == does
    assert all(getattr(MOVING, one)(place(slots, "__consumer_offsets")) for one in can)
    assert all(getattr(KEEPS_ALL, one)(place(slots)) for one in can)


def test_it_heeds_what_it_takes_in_and_is_asked_for():
    for slots, taken, asked in ((LOW, True, True), (NEXT, True, False), (HIGH, False, True)):
        topic, address = place(slots)
        head = messages.Head(topic, address, 3)
        fetch = messages.Fetch(topic, address, 0, 1, "ME")
        assert (MOVING.heeds(head), MOVING.heeds(fetch)) == (taken, asked)
    assert MOVING.heeds(messages.GetHeads("", "ME"))


def test_it_listens_for_all_that_it_holds():
    assert MOVING.held == ALL_SLOTS
    assert MOVING.heard_live() == [(MessageId.RECORDS, "")]
    nothing_yet = Keeping(NO_SLOTS, LOW)
    assert nothing_yet.heard_live() == [(MessageId.RECORDS, "_"), (MessageId.SLOT_RECORDS, "00")]
