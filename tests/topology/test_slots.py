from __future__ import annotations

import pytest

from dafka import model
from topology.slots import (
    SLOTS,
    kept_too_seldom,
    ranges_of,
    read_slots,
    shown_slots,
    slots_in,
)


def test_the_ring_is_that_of_partitions():
    assert SLOTS == model.SLOTS


@pytest.mark.parametrize(
    ("text", "ranges"),
    [
        ("0-2047", (range(2_048),)),
        ("7-7", (range(7, 8),)),
        (" 2731-4095 , 0-1364", (range(1_365), range(2_731, 4_096))),
    ],
)
def test_ranges_are_written_with_their_last_slot(text, ranges):
    assert read_slots(text) == ranges
    assert read_slots(shown_slots(ranges)) == ranges


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("", "'' is no range of slots: write FIRST-LAST within 0-4095"),
        ("0-2047,", "'' is no range"),
        ("5", "'5' is no range"),
        ("9-3", "'9-3' is no range"),
        ("0-4096", "'0-4096' is no range"),
        ("0-9,9-10", "slot 9 is in two ranges of '0-9,9-10'"),
    ],
)
def test_what_is_no_range_is_refused(text, complaint):
    with pytest.raises(ValueError, match=complaint):
        read_slots(text)


def test_the_whole_ring_is_called_all():
    assert shown_slots([range(SLOTS)]) == "all"


def test_what_too_few_keep_is_found():
    first, second = read_slots("0-2047"), read_slots("1000-4000")
    assert kept_too_seldom([first, second], 1) == [(range(4_001, 4_096), 0)]
    assert kept_too_seldom([first, second], 2) == [
        (range(1_000), 1),
        (range(2_048, 4_001), 1),
        (range(4_001, 4_096), 0),
    ]
    assert kept_too_seldom([first, second, read_slots("0-4095")], 1) == []


def test_slots_one_by_one_become_the_fewest_ranges():
    ranges = (range(3), range(7, 8), range(4_000, SLOTS))
    assert ranges_of(slots_in(ranges)) == ranges
    assert ranges_of(()) == ()
