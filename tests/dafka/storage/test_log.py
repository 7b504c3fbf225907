"""What logs do with it is in tests/contracts/test_record_log.py."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dafka.errors import StorageError
from dafka.limits import CHANGES_MAX
from dafka.model import Batch, Partition
from dafka.records.batch import BatchBuilder, enclosed
from dafka.storage.log import ChangeOrder, Extent, Mark, TableEntry, checked, extended, heads_after

A, B, C = (Partition("orders", letter) for letter in "ABC")


def names(changed):
    return [partition for partition, _ in changed]


def test_those_that_changed_longest_ago_come_first_and_each_once():
    changes = ChangeOrder("one")
    beginning = changes.now
    changes.note([A, B, A, C])
    assert names(changes.since(beginning)) == [B, A, C]
    changes.note([B])
    assert names(changes.since(beginning)) == [A, C, B]
    assert changes.since(changes.now) == []


def test_marks_of_another_opening_or_of_the_future_mean_nothing():
    changes = ChangeOrder("one")
    changes.note([A])
    assert changes.since(Mark("two", 0)) is None
    assert changes.since(Mark("one", 2)) is None
    assert changes.since(Mark("one", 1)) == []


def test_of_too_many_none_is_told():
    changes = ChangeOrder("one")
    beginning = changes.now
    many = [Partition("orders", str(number)) for number in range(CHANGES_MAX)]
    changes.note(many)
    assert names(changes.since(beginning)) == many
    changes.note([C])
    assert changes.since(beginning) is None
    assert names(changes.since(Mark("one", 1))) == [*many[1:], C]


@given(st.lists(st.lists(st.sampled_from([A, B, C]), max_size=4)), st.data())
def test_going_on_from_any_change_misses_none(notes, data):
    changes = ChangeOrder("one")
    beginning = changes.now
    for note in notes:
        changes.note(note)
    everything = changes.since(beginning)
    assert set(names(everything)) == {one for note in notes for one in note}
    cut = data.draw(st.integers(0, len(everything)))
    mark = everything[cut - 1][1] if cut else beginning
    assert changes.since(mark) == everything[cut:]


ORDERS = Partition("orders", "A1")
KNOWN = {ORDERS: Extent(2, 4, 10, 100, 200)}


def timed(sequence, *times):
    builder = BatchBuilder(1 << 16)
    for time in times:
        builder.append(time, None, b"", ())
    return Batch(ORDERS, sequence, len(times), enclosed(builder.build(), sequence))


def test_only_what_grows_is_returned():
    batches = [Batch(ORDERS, 5, 2, b""), Batch(ORDERS, 7, 3, b"")]
    assert heads_after({ORDERS: 4, Partition("orders", "B2"): 1}, batches) == {ORDERS: 9}


def test_batches_follow_the_head_and_one_another():
    checked(KNOWN, [Batch(ORDERS, 5, 2, b""), Batch(ORDERS, 7, 3, b"")], {}, [])


@pytest.mark.parametrize("sequence", [3, 4, 6])
def test_a_gap_and_an_overlap_are_refused(sequence):
    with pytest.raises(StorageError, match=f"sequence {sequence} follows 4"):
        checked(KNOWN, [Batch(ORDERS, sequence, 1, b"")], {}, [])


def test_a_skip_makes_room():
    checked(KNOWN, [Batch(ORDERS, 50, 1, b"")], {ORDERS: 50}, [])
    checked(KNOWN, [Batch(ORDERS, 5, 1, b"")], {ORDERS: 3}, [])
    with pytest.raises(StorageError, match="sequence 5 follows 49"):
        checked(KNOWN, [Batch(ORDERS, 5, 1, b"")], {ORDERS: 50}, [])


@pytest.mark.parametrize(("table", "key"), [("t" * 33, b""), ("t", b"k" * 471)])
def test_an_entry_that_does_not_fit_is_refused(table, key):
    with pytest.raises(StorageError, match="at most 32 bytes, keys 470"):
        checked({}, [], {}, [TableEntry(table, key, b"")])


def test_time_never_goes_back():
    first = extended(None, timed(0, 300, 500, 400), 9)
    assert first == Extent(0, 2, first.size, 500, 500)
    second = extended(first, timed(3, 100), 9)
    assert second == Extent(0, 3, second.size, 500, 500)
    third = extended(second, timed(4, 600), 9)
    assert (third.oldest_ms, third.newest_ms) == (500, 600)
    assert third.size == len(timed(0, 300, 500, 400).content) + 2 * len(timed(3, 100).content)


def test_a_batch_without_a_time_arrives_now():
    assert extended(None, Batch(ORDERS, 0, 1, b"raw"), 77) == Extent(0, 0, 3, 77, 77)


def test_an_empty_partition_is_as_old_as_its_next_batch():
    empty = Extent(5, 4, 0, 100, 100)
    grown = extended(empty, timed(5, 300), 9)
    assert (grown.start, grown.head, grown.oldest_ms) == (5, 5, 300)
