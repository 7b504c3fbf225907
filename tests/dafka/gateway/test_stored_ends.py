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


def test_an_address_goes_when_no_store_lists_it_any_more():
    ends = StoredEnds(1, 3)
    for store in ("S0", "S1"):
        ends.end("A", store, 5)
        ends.start("A", store, 5)
    assert not ends.unlisted("A", "S0")
    assert not ends.unlisted("A", "S0"), "it said so before"
    assert ends.unlisted("A", "S1")
    assert not ends.unlisted("A", "S1")
    assert not ends.unlisted("B", "S1")
    assert [*ends.ends()] == [*ends.starts()] == []
    assert ends.end("A", "S1", 7) == 7, "it is back"


def test_an_address_goes_with_the_last_store_that_lists_it():
    ends = StoredEnds(1, 3)
    ends.end("A", "S0", 5)
    ends.end("B", "S0", 5)
    ends.end("B", "S1", 5)
    assert ends.forget("S0") == ["A"]
    assert ends.forget("S0") == []
    assert [*ends.ends()] == [("B", 5)]


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
