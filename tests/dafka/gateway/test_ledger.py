from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dafka.gateway.ledger import ENTRY_RECORDS_MAX, HOLE, Ledger, LedgerEntry


@pytest.fixture
def ledger():
    """Of two producers, with a hole: offsets 10 to 21."""
    ledger = Ledger(10)
    for address, first, count in (("A", 0, 3), ("B", 7, 2), (HOLE, 0, 4), ("A", 3, 2)):
        ledger.append(address, first, count)
    return ledger


def test_entries_follow_each_other(ledger):
    assert list(ledger) == [
        LedgerEntry(10, "A", 0, 3),
        LedgerEntry(13, "B", 7, 2),
        LedgerEntry(15, HOLE, 0, 4),
        LedgerEntry(19, "A", 3, 2),
    ]
    assert (ledger.start, ledger.end) == (10, 21)
    assert [ledger.listed(address) for address in ("A", "B", "C")] == [5, 9, 0]


def test_what_continues_an_entry_joins_it(ledger):
    assert ledger.append("A", 5, 1) == LedgerEntry(21, "A", 5, 1)
    assert list(ledger)[-1] == LedgerEntry(19, "A", 3, 3)
    assert len(ledger) == 4
    ledger.append(HOLE, 0, 1)
    ledger.append(HOLE, 0, 2)
    assert len(ledger) == 5
    ledger.append("A", 8, 1)  # retention has taken what was in between
    assert len(ledger) == 6


@pytest.mark.parametrize(
    ("offset", "found"),
    [
        (0, LedgerEntry(10, "A", 0, 3)),
        (12, LedgerEntry(12, "A", 2, 1)),
        (13, LedgerEntry(13, "B", 7, 2)),
        (16, LedgerEntry(19, "A", 3, 2)),
        (20, LedgerEntry(20, "A", 4, 1)),
        (21, None),
    ],
)
def test_an_offset_names_a_record_or_the_next_one_that_is_there(ledger, offset, found):
    assert ledger.at(offset) == found


def test_the_front_goes_with_its_records(ledger):
    assert not ledger.trim({"B": 9})
    assert ledger.trim({"A": 2})
    assert ledger.start == 12
    assert next(iter(ledger)) == LedgerEntry(12, "A", 2, 1)
    assert ledger.trim({"A": 4, "B": 9})
    assert list(ledger) == [LedgerEntry(20, "A", 4, 1)]
    assert ledger.trim({"A": 9})
    assert (ledger.start, ledger.end, list(ledger)) == (21, 21, [])
    assert ledger.append("A", 5, 1).offset == 21


def test_what_is_skipped_gets_no_offset():
    ledger = Ledger()
    ledger.skip("A", 5)
    ledger.skip("A", 3)
    assert ledger.listed("A") == 5
    with pytest.raises(AssertionError):
        ledger.append("A", 4, 1)


@given(
    st.lists(st.tuples(st.sampled_from("ABC"), st.integers(1, 5)), max_size=30),
    st.integers(0, 60),
)
def test_cutting_leaves_every_offset_behind_as_it_was(runs, start):
    ledger, whole = Ledger(), Ledger()
    for address, count in runs:
        ledger.append(address, ledger.listed(address), count)
        whole.append(address, whole.listed(address), count)
    start = min(start, ledger.end)
    ledger.cut(start)
    assert (ledger.start, ledger.end) == (start, whole.end)
    for offset in range(start, whole.end):
        ours, theirs = ledger.at(offset), whole.at(offset)
        assert (ours.address, ours.first) == (theirs.address, theirs.first)
    assert ledger.at(whole.end) is None


def test_a_cut_moves_no_more_than_has_been_cut():
    ledger = Ledger()
    for number in range(1_000):
        ledger.append("AB"[number % 2], number // 2, 1)
    moved, room = 0, len(ledger._offsets)
    for offset in range(1, 1_001):
        ledger.cut(offset)
        assert len(ledger) == 1_000 - offset
        if len(ledger._offsets) != room:
            room = len(ledger._offsets)
            moved += room
        assert room <= 2 * len(ledger) + 1
    assert 0 < moved <= 1_000


@given(
    st.lists(st.tuples(st.sampled_from("ABC"), st.integers(1, 5)), max_size=30),
    st.lists(st.integers(0, 60), max_size=8).map(sorted),
)
def test_cutting_often_is_cutting_once(runs, starts):
    often, once = Ledger(), Ledger()
    for ledger in (often, once):
        for address, count in runs:
            ledger.append(address, ledger.listed(address), count)
    for start in starts:
        often.cut(min(start, often.end))
    once.cut(often.start)
    for ledger in (often, once):
        ledger.append("D", 0, 2)
    assert list(often) == list(once)
    assert often.positions(0, often.end) == once.positions(0, once.end)
    assert often.reached({"A": 3, "B": 3}) == once.reached({"A": 3, "B": 3})


@pytest.mark.parametrize(
    ("start", "end", "moved"),
    [
        (10, 10, {}),
        (10, 12, {"A": 2}),
        (12, 14, {"A": 3, "B": 8}),
        (13, 17, {"B": 9}),
        (17, 21, {"A": 5}),
        (0, 99, {"A": 5, "B": 9}),
        (21, 20, {"A": 4}),
        (21, 14, {"A": 3, "B": 8}),
        (16, 11, {"A": 1, "B": 7}),
    ],
)
def test_a_commit_says_how_far_the_addresses_are_that_moved(ledger, start, end, moved):
    assert ledger.positions(start, end) == moved


@pytest.mark.parametrize(
    ("positions", "offset"),
    [
        ({}, 10),
        ({"A": 2}, 12),
        ({"A": 5}, 13),
        ({"A": 5, "B": 8}, 14),
        ({"A": 3, "B": 9}, 19),
        ({"A": 5, "B": 9, "C": 3}, 21),
        ({"B": 9}, 10),
    ],
)
def test_positions_are_the_offset_below_which_nothing_is_left_to_do(ledger, positions, offset):
    assert ledger.reached(positions) == offset


@given(
    st.lists(st.tuples(st.sampled_from(("A", "B", "C", HOLE)), st.integers(1, 4)), max_size=12),
    st.lists(st.integers(0, 40), min_size=1, max_size=4),
)
def test_an_offset_committed_is_found_again_or_one_behind_holes(runs, commits):
    ledger = Ledger()
    for address, count in runs:
        ledger.append(address, ledger.listed(address) if address else 0, count)
    commits = [min(one, ledger.end) for one in commits]
    positions, committed = {}, 0
    for commit in commits:
        positions |= ledger.positions(committed, commit)
        committed = commit
    reached = ledger.reached(positions)
    assert reached >= committed
    assert ledger.reached(positions, committed) == reached
    between = (one for one in ledger if max(one.offset, committed) < min(one.end, reached))
    assert {one.address for one in between} <= {HOLE}


def test_addresses_go_with_their_entries():
    ledger = Ledger()
    for number in range(1_000):
        ledger.append(f"A{number}", 0, 1)
        ledger.append("B", number, 1)
        ledger.cut(max(0, ledger.end - 10))
        ledger.check()
    assert [entry.address for entry in ledger][-2:] == ["A999", "B"]
    ledger.append("A998", 1, 1)
    assert [*ledger][-1] == LedgerEntry(2_000, "A998", 1, 1)
    assert len(ledger._addresses) < 30


def test_a_run_is_no_longer_than_its_count_may_be():
    ledger = Ledger()
    for number in range(3):
        ledger.append("A", number * ENTRY_RECORDS_MAX, ENTRY_RECORDS_MAX)
    assert len(ledger) == 3
    assert ledger.at(2 * ENTRY_RECORDS_MAX + 7).first == 2 * ENTRY_RECORDS_MAX + 7
