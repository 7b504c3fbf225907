from __future__ import annotations

from dafka.gateway.stored_ends import StoredEnds


def test_what_enough_stores_have_rises():
    ends = StoredEnds(2, 3)
    assert ends.end("A", "S0", 5) is None
    assert ends.end("A", "S1", 3) == 3
    assert ends.end("A", "S1", 2) is None, "said late"
    assert ends.end("A", "S2", 9) == 5
    assert ends.end("B", "S2", 9) is None
    assert [*ends.ends()] == [("A", 5)]


def test_what_a_store_has_said_counts_until_it_has_left():
    ends = StoredEnds(2, 2)
    assert ends.end("A", "S0", 5) is None
    assert ends.start("A", "S0", 2) is None
    ends.forget("S0")
    assert ends.end("A", "S0 ON A NEW DISK", 5) is None, "it is one disk"
    assert ends.start("A", "S0 ON A NEW DISK", 2) is None
    assert ends.end("A", "S1", 4) == 4
    assert ends.start("A", "S1", 1) == 1


def test_starts_are_counted_by_themselves():
    ends = StoredEnds(1, 3)
    assert ends.end("A", "S0", 5) == 5
    assert ends.start("A", "S0", 0) is None
    assert ends.start("A", "S0", 2) == 2
    assert [*ends.starts()] == [("A", 2)]


def test_of_more_stores_than_there_may_be_nothing_is_kept():
    ends = StoredEnds(1, 1)
    assert ends.end("A", "S0", 5) == 5
    assert ends.end("A", "S1", 9) is None
    assert ends.end("A", "S0", 6) == 6
