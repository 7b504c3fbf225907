from __future__ import annotations

import pytest

from dafka.errors import WireError
from dafka.groups.writers import HEARD_MS, Writers
from dafka.limits import WRITERS_MAX, WRITERS_OF_FLOW_MAX
from dafka.model import WHOLE, PartitionShare


@pytest.fixture
def writers():
    return Writers()


def test_who_writes_hears_of_a_later_one(writers):
    assert writers.heard("a", WHOLE, 5, 0) == 5
    assert writers.heard("b", WHOLE, 9, 0) == 9, "another flow"
    assert writers.heard("a", WHOLE, 6, 1) == 6
    assert writers.heard("a", WHOLE, 5, 2) == 6
    assert writers.heard("a", WHOLE, 6, 3) == 6


def test_who_is_not_heard_any_more_does_not_count(writers):
    writers.heard("a", WHOLE, 6, 0)
    assert writers.heard("a", WHOLE, 5, HEARD_MS - 1) == 6, "to hear of it does not prolong it"
    assert writers.heard("a", WHOLE, 5, HEARD_MS) == 5
    assert writers.heard("a", WHOLE, 4, 2 * HEARD_MS - 1) == 5


def test_shares_are_compared_by_what_they_have_in_common(writers):
    left, right = (PartitionShare(number, 2) for number in range(2))
    assert writers.heard("a", WHOLE, 5, 0) == 5
    assert writers.heard("a", left, 6, 1) == 6
    assert writers.heard("a", right, 4, 1) == 5
    assert writers.heard("a", WHOLE, 5, 2) == 6
    assert writers.heard("a", PartitionShare(2, 3), 3, 3) == 5, "the whole is there yet"
    assert writers.heard("a", PartitionShare(2, 3), 3, 2 + HEARD_MS) == 3
    assert writers.heard("a", right, 4, 3 + HEARD_MS) == 4
    assert writers.heard("a", left, 1, 3 + HEARD_MS) == 1


def test_they_are_bounded_and_who_counts_no_more_makes_room(writers):
    for number in range(WRITERS_MAX):
        writers.heard(str(number), WHOLE, 1, number // 2)
    now_ms = HEARD_MS - 1
    with pytest.raises(WireError, match="writers"):
        writers.heard("another", WHOLE, 1, now_ms)
    assert writers.heard("0", WHOLE, 1, now_ms) == 1
    assert writers.heard("another", WHOLE, 1, now_ms + 1) == 1
    assert writers.heard("0", WHOLE, 0, now_ms + 1) == 1, "it has been heard since"


def test_so_are_the_shares_of_one(writers):
    for number in range(WRITERS_OF_FLOW_MAX):
        writers.heard("a", PartitionShare(number, WRITERS_OF_FLOW_MAX), 1, 0)
    with pytest.raises(WireError, match="writers"):
        writers.heard("a", WHOLE, 1, HEARD_MS - 1)
    assert writers.heard("b", WHOLE, 1, HEARD_MS - 1) == 1
    assert writers.heard("a", WHOLE, 1, HEARD_MS) == 1
