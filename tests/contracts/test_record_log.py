"""The contract of `dafka.storage.log`, held by every implementation."""

from __future__ import annotations

import tempfile

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dafka.errors import StorageError
from dafka.model import Partition
from dafka.records.batch import BatchBuilder, enclosed
from dafka.storage.log import Outline, TableEntry, extent_of
from dafka.wire.primitives import text
from tests.support.record_logs import ORDERS, OTHERS, KilledLmdb, Lmdb, Memory, batch


@pytest.fixture(params=[Memory, Lmdb, KilledLmdb])
def holder(request, tmp_path):
    holder = request.param(tmp_path)
    yield holder
    holder.log.close()


def test_a_new_log_is_empty_and_has_an_identity(holder):
    assert holder.log.heads() == {}
    assert len(holder.log.identity) == 32
    assert holder.log.read(ORDERS, 0, 10, 1_000) == []


def test_identity_never_changes(holder):
    identity = holder.log.identity
    holder.reopen()
    assert holder.log.identity == identity


def test_what_was_appended_is_read_back(holder):
    batches = [batch(ORDERS, 0, 3, b"abc"), batch(ORDERS, 3, 2, b"d"), batch(OTHERS, 0, 1, b"x")]
    holder.log.append(batches)
    holder.reopen()
    assert holder.log.heads() == {ORDERS: 4, OTHERS: 0}
    assert holder.log.read(ORDERS, 0, 100, 1_000) == batches[:2]
    assert holder.log.read(OTHERS, 0, 100, 1_000) == batches[2:]


def test_appending_nothing_changes_nothing(holder):
    holder.log.append([])
    assert holder.log.heads() == {}


@pytest.mark.parametrize("sequence", [0, 1, 2, 4, 5, 2**40])
def test_a_partition_grows_only_at_its_end(holder, sequence):
    holder.log.append([batch(ORDERS, 0, 3)])
    with pytest.raises(StorageError, match=f'"orders/A1": sequence {sequence} follows 2'):
        holder.log.append([batch(ORDERS, sequence, 1)])
    assert holder.log.heads() == {ORDERS: 2}


def test_a_new_partition_begins_at_0(holder):
    with pytest.raises(StorageError):
        holder.log.append([batch(ORDERS, 1, 1)])


def test_append_is_all_or_nothing(holder):
    holder.log.append([batch(ORDERS, 0, 1)])
    with pytest.raises(StorageError):
        holder.log.append([batch(ORDERS, 1, 1), batch(OTHERS, 0, 1), batch(ORDERS, 9, 1)])
    holder.reopen()
    assert holder.log.heads() == {ORDERS: 0}
    assert holder.log.read(ORDERS, 1, 10, 1_000) == []
    assert holder.log.read(OTHERS, 0, 10, 1_000) == []


def test_reading_begins_with_the_batch_that_holds_the_sequence(holder):
    held = [batch(ORDERS, 0, 10), batch(ORDERS, 10, 1), batch(ORDERS, 11, 5)]
    holder.log.append([*held, batch(OTHERS, 0, 50)])
    for sequence, first in ((0, 0), (9, 0), (10, 1), (11, 2), (15, 2)):
        assert holder.log.read(ORDERS, sequence, 1, 1_000) == [held[first]]
    assert holder.log.read(ORDERS, 16, 1, 1_000) == []
    assert holder.log.read(ORDERS, -1, 1, 1_000) == []


def test_reading_the_last_partition_of_all_from_inside_its_last_batch(holder):
    holder.log.append([batch(ORDERS, 0, 2), batch(ORDERS, 2, 8)])
    assert holder.log.read(ORDERS, 7, 100, 1_000) == [batch(ORDERS, 2, 8)]


def test_count_bounds_where_batches_begin(holder):
    held = [batch(ORDERS, sequence, 5) for sequence in (0, 5, 10)]
    holder.log.append(held)
    assert holder.log.read(ORDERS, 2, 3, 1_000) == held[:1]
    assert holder.log.read(ORDERS, 2, 4, 1_000) == held[:2]


def test_bytes_bound_all_but_the_first(holder):
    held = [batch(ORDERS, sequence, 1, bytes(100)) for sequence in range(5)]
    holder.log.append(held)
    assert holder.log.read(ORDERS, 0, 10, 300) == held[:3]
    assert holder.log.read(ORDERS, 0, 10, 299) == held[:2]
    assert holder.log.read(ORDERS, 0, 10, 0) == held[:1]


def test_appends_and_trims_are_changes_and_what_is_refused_is_none(holder):
    before = holder.log.changes.now
    assert holder.log.changes.since(before) == []
    holder.log.append([batch(ORDERS, 0, 1), batch(OTHERS, 0, 1), batch(ORDERS, 1, 1)])
    holder.log.append([], trims={ORDERS: 1})
    between = holder.log.changes.now
    with pytest.raises(StorageError):
        holder.log.append([batch(OTHERS, 9, 1)])
    changed = holder.log.changes.since(before)
    assert [partition for partition, _ in changed] == [OTHERS, ORDERS]
    assert holder.log.changes.since(changed[0][1]) == changed[1:]
    assert holder.log.changes.since(between) == []


def test_a_mark_means_nothing_in_another_opening(tmp_path):
    one = Lmdb(tmp_path)
    one.log.append([batch(ORDERS, 0, 1)])
    mark = one.log.changes.now
    one.reopen()
    assert one.log.changes.since(mark) is None
    assert one.log.changes.since(one.log.changes.now) == []
    one.log.close()


def test_the_largest_names_and_a_large_batch(holder):
    largest = Partition("t" * 249, text(b"\xff" * 255))
    holder.log.append([batch(largest, 0, 1, bytes(8 << 20))])
    holder.reopen()
    assert holder.log.heads() == {largest: 0}
    assert holder.log.read(largest, 0, 1, 1) == [batch(largest, 0, 1, bytes(8 << 20))]


def test_an_address_may_contain_nul(holder):
    odd = Partition("t", "\0a\0")
    holder.log.append([batch(odd, 0, 1)])
    holder.reopen()
    assert holder.log.heads() == {odd: 0}


def timed(partition, sequence, *times):
    builder = BatchBuilder(1 << 16)
    for time in times:
        builder.append(time, None, b"", ())
    return batch(partition, sequence, len(times), enclosed(builder.build(), sequence))


def test_trimming_drops_whole_batches(holder):
    held = [batch(ORDERS, 0, 10, b"0"), batch(ORDERS, 10, 1, b"22"), batch(ORDERS, 11, 5, b"333")]
    holder.log.append([*held, batch(OTHERS, 0, 50)])
    holder.log.append([], trims={ORDERS: 9})
    assert holder.log.extents()[ORDERS].start == 0
    holder.log.append([], trims={ORDERS: 12})
    holder.reopen()
    extent = holder.log.extents()[ORDERS]
    assert (extent.start, extent.head, extent.size) == (11, 15, 3)
    for sequence in (0, 9, 10):
        assert holder.log.read(ORDERS, sequence, 100, 1_000) == []
    assert holder.log.read(ORDERS, 11, 100, 1_000) == held[2:]
    assert holder.log.read(OTHERS, 0, 100, 1_000) == [batch(OTHERS, 0, 50)]


def test_a_partition_remembers_where_it_ended(holder):
    holder.log.append([batch(ORDERS, 0, 10)])
    holder.log.append([], trims={ORDERS: 10})
    holder.reopen()
    assert holder.log.heads() == {ORDERS: 9}
    assert holder.log.extents()[ORDERS][:3] == (10, 9, 0)
    assert holder.log.read(ORDERS, 9, 1, 1) == []
    assert holder.log.outlines(ORDERS, 9, 1) == []
    assert holder.log.find(ORDERS, 0) is None
    holder.log.append([batch(ORDERS, 10, 1)])
    assert holder.log.read(ORDERS, 10, 1, 1) == [batch(ORDERS, 10, 1)]


def test_skipping_ahead_keeps_what_is_there(holder):
    before, behind = batch(ORDERS, 0, 10, b"ab"), batch(ORDERS, 100, 5, b"abc")
    holder.log.append([before])
    holder.log.append([behind], skips={ORDERS: 100})
    holder.reopen()
    assert holder.log.extents()[ORDERS][:3] == (0, 104, 5)
    assert holder.log.read(ORDERS, 9, 100, 1_000) == [before]
    for inside in (10, 50, 99):
        assert holder.log.read(ORDERS, inside, 1, 1_000) == [behind]
    shown = [(one.sequence, one.end, one.size) for one in holder.log.outlines(ORDERS, 0, 9)]
    assert shown == [(0, 10, 2), (10, 100, 0), (100, 105, 3)]
    assert holder.log.outlines(ORDERS, 50, 1)[0].sequence == 10


def test_a_gap_goes_with_what_lies_before_it(holder):
    holder.log.append([batch(ORDERS, 0, 10), batch(ORDERS, 10, 10)])
    holder.log.append([batch(ORDERS, 2**62, 5, b"abc")], skips={ORDERS: 2**62})
    holder.log.append([], trims={ORDERS: 10})
    assert holder.log.extents()[ORDERS].start == 10
    holder.log.append([], trims={ORDERS: 20})
    holder.reopen()
    assert holder.log.extents()[ORDERS][:3] == (2**62, 2**62 + 4, 3)
    assert holder.log.read(ORDERS, 20, 1, 1_000) == []


def test_a_partition_may_end_with_a_gap(holder):
    holder.log.append([batch(ORDERS, 0, 10)])
    holder.log.append([], skips={ORDERS: 100})
    holder.log.append([], skips={ORDERS: 200})
    holder.reopen()
    assert holder.log.heads() == {ORDERS: 199}
    assert holder.log.read(ORDERS, 150, 1, 1_000) == []
    assert [one.sequence for one in holder.log.outlines(ORDERS, 0, 9)] == [0, 10, 100]
    holder.log.append([], trims={ORDERS: 10})
    assert holder.log.extents()[ORDERS][:3] == (200, 199, 0)


def test_a_skip_to_what_is_there_changes_nothing(holder):
    holder.log.append([batch(ORDERS, 0, 10)])
    holder.log.append([batch(ORDERS, 10, 1)], skips={ORDERS: 10})
    holder.log.append([], skips={ORDERS: 3})
    assert holder.log.extents()[ORDERS][:2] == (0, 10)
    assert len(holder.log.outlines(ORDERS, 0, 9)) == 2


def test_a_trim_beyond_the_head_drops_what_is_there_and_no_more(holder):
    holder.log.append([batch(ORDERS, 0, 10)])
    holder.log.append([], trims={ORDERS: 100})
    assert holder.log.extents()[ORDERS][:2] == (10, 9)


def test_a_partition_may_begin_at_a_log_start(holder):
    holder.log.append([batch(ORDERS, 100, 5)], skips={ORDERS: 100, OTHERS: 7})
    holder.reopen()
    assert holder.log.heads() == {ORDERS: 104, OTHERS: 6}
    assert holder.log.outlines(ORDERS, 100, 9)[0][:3] == (100, 105, 7)


def test_a_log_start_never_goes_back(holder):
    holder.log.append([batch(ORDERS, 0, 10), batch(ORDERS, 10, 10)])
    holder.log.append([], trims={ORDERS: 10})
    holder.log.append([], trims={ORDERS: 5})
    assert holder.log.extents()[ORDERS][:2] == (10, 19)


def test_a_refused_append_trims_nothing(holder):
    holder.log.append([batch(ORDERS, 0, 10)])
    with pytest.raises(StorageError):
        holder.log.append(
            [batch(OTHERS, 1, 1)], trims={ORDERS: 10}, entries=[TableEntry("t", b"k", b"")]
        )
    assert holder.log.extents()[ORDERS].start == 0
    assert holder.log.get("t", b"k") is None


def emptied(holder, partition, end):
    holder.log.append([batch(partition, 0, end)])
    holder.log.append([], trims={partition: end})


def test_of_a_forgotten_partition_only_its_end_is_left(holder):
    emptied(holder, ORDERS, 10)
    holder.log.append([batch(OTHERS, 0, 1)])
    holder.log.append([], forgets=[ORDERS])
    for _ in range(2):
        assert holder.log.heads() == {OTHERS: 0}
        assert set(holder.log.extents()) == {OTHERS}
        assert (holder.log.records, holder.log.forgotten) == (1, 1)
        assert holder.log.read(ORDERS, 9, 1, 1) == holder.log.outlines(ORDERS, 9, 1) == []
        assert holder.log.find(ORDERS, 0) is None
        recalled = holder.log.recall([ORDERS, OTHERS, Partition("orders", "C3")])
        assert {one: extent[:3] for one, extent in recalled.items()} == {ORDERS: (10, 9, 0)}
        assert extent_of(holder.log, ORDERS) == recalled[ORDERS]
        assert extent_of(holder.log, OTHERS) == holder.log.extents()[OTHERS]
        holder.reopen()


def test_a_forgotten_partition_goes_on_where_it_ended(holder):
    emptied(holder, ORDERS, 10)
    holder.log.append([], forgets=[ORDERS])
    for sequence in (0, 9, 11):
        with pytest.raises(StorageError, match="follows 9"):
            holder.log.append([batch(ORDERS, sequence, 1)])
    assert holder.log.forgotten == 1
    holder.log.append([batch(ORDERS, 10, 2, b"more")])
    holder.reopen()
    assert holder.log.forgotten == 0
    assert holder.log.heads() == {ORDERS: 11}
    assert holder.log.extents()[ORDERS][:3] == (10, 11, 4)
    assert holder.log.read(ORDERS, 10, 1, 1) == [batch(ORDERS, 10, 2, b"more")]


def test_a_skip_brings_a_forgotten_partition_back_and_it_may_be_forgotten_again(holder):
    emptied(holder, ORDERS, 10)
    holder.log.append([], forgets=[ORDERS])
    holder.log.append([], skips={ORDERS: 100})
    assert holder.log.extents()[ORDERS][:2] == (100, 99)
    holder.log.append([], forgets=[ORDERS])
    holder.reopen()
    assert holder.log.recall([ORDERS])[ORDERS].start == 100


def test_forgotten_partitions_are_listed_in_order(holder):
    places = [Partition("orders", f"{number}") for number in range(5)]
    holder.log.append([batch(place, 0, 2) for place in places])
    holder.log.append((), trims=dict.fromkeys(places, 2))
    for place in reversed(places):
        holder.log.append((), forgets=[place])
    holder.reopen()
    rows = holder.log.forgotten_behind(-1, 3)
    rows += holder.log.forgotten_behind(rows[-1][0], 3)
    assert [place for _, place, _ in rows] == places[::-1]
    assert {ended.start for *_, ended in rows} == {2}
    holder.log.append((), trims={places[2]: 0})  # recalled as it is
    assert places[2] in holder.log.extents()
    assert [place for _, place, _ in holder.log.forgotten_behind(-1, 9)] == [
        places[number] for number in (4, 3, 1, 0)
    ]
    holder.log.append((), erases=[places[2]])
    assert holder.log.recall([places[2]]) == {}
    assert holder.log.forgotten_behind(2**63 - 1, 9) == []


def test_what_is_kept_is_not_forgotten(holder):
    holder.log.append([batch(ORDERS, 0, 10), batch(ORDERS, 10, 1)])
    holder.log.append([], trims={ORDERS: 10})
    for partition in (ORDERS, OTHERS):
        with pytest.raises(StorageError, match="cannot forget"):
            holder.log.append([batch(OTHERS, 0, 1)], forgets=[partition])
    assert holder.log.heads() == {ORDERS: 10}


def test_of_an_erased_partition_not_even_its_end_is_left(holder):
    emptied(holder, ORDERS, 10)
    before = holder.log.changes.now
    holder.log.append([], erases=[ORDERS])
    assert [one for one, _ in holder.log.changes.since(before)] == [ORDERS]
    for _ in range(2):
        assert (holder.log.heads(), holder.log.records, holder.log.forgotten) == ({}, 0, 0)
        assert holder.log.recall([ORDERS]) == {}
        holder.reopen()
    holder.log.append([batch(ORDERS, 0, 1)])
    with pytest.raises(StorageError, match="cannot forget"):
        holder.log.append([], erases=[ORDERS])


def test_forgetting_is_a_change(holder):
    emptied(holder, ORDERS, 10)
    before = holder.log.changes.now
    holder.log.append([], forgets=[ORDERS])
    assert [one for one, _ in holder.log.changes.since(before)] == [ORDERS]


def test_partitions_do_not_get_records_of_those_that_are_forgotten(holder):
    emptied(holder, ORDERS, 3)
    holder.log.append([], forgets=[ORDERS])
    holder.log.append([batch(OTHERS, 0, 2, b"others")])
    holder.reopen()
    holder.log.append([batch(ORDERS, 3, 1, b"orders")])
    holder.reopen()
    assert holder.log.read(OTHERS, 0, 9, 99) == [batch(OTHERS, 0, 2, b"others")]
    assert holder.log.read(ORDERS, 3, 9, 99) == [batch(ORDERS, 3, 1, b"orders")]


@pytest.mark.parametrize("kind", [Memory, Lmdb, KilledLmdb])
def test_the_longest_forgotten_leave_no_trace(kind, tmp_path):
    holder = kind(tmp_path, forgotten_max=2)
    gone = [Partition("orders", f"D{number}") for number in range(4)]
    for partition in gone:
        emptied(holder, partition, 1)
        holder.log.append([], forgets=[partition])
    holder.reopen()
    assert holder.log.recall(gone).keys() == {*gone[2:]}
    holder.log.append([batch(gone[2], 1, 1)])
    holder.log.append([], trims={gone[2]: 2})
    holder.log.append([], forgets=[gone[2]])
    emptied(holder, gone[0], 5)
    holder.log.append([], forgets=[gone[0]])
    assert {one: extent.start for one, extent in holder.log.recall(gone).items()} == {
        gone[2]: 2,
        gone[0]: 5,
    }
    holder.log.close()


def test_outlines_are_batches_without_content(holder):
    holder.log.append([timed(ORDERS, 0, 50, 70), timed(ORDERS, 2, 60), timed(ORDERS, 3, 80)])
    size = len(timed(ORDERS, 2, 60).content)
    first, second, third = holder.log.outlines(ORDERS, 1, 10)
    assert (first.sequence, first.end, first.newest_ms) == (0, 2, 70)
    assert second == Outline(2, 3, size, 70)
    assert third == Outline(3, 4, size, 80)
    assert holder.log.outlines(ORDERS, 2, 1) == [second]
    assert holder.log.outlines(ORDERS, 4, 1) == []
    extent = holder.log.extents()[ORDERS]
    assert (extent.oldest_ms, extent.newest_ms) == (70, 80)


def test_tables_change_with_the_batches(holder):
    entries = [
        TableEntry("a", b"k", b"1"),
        TableEntry("a", b"", b"2"),
        TableEntry("ab", b"k", b"3"),
    ]
    holder.log.append([batch(ORDERS, 0, 1)], entries=entries)
    holder.reopen()
    assert holder.log.get("a", b"k") == b"1"
    assert holder.log.get("a", b"") == b"2"
    assert holder.log.get("ab", b"k") == b"3"
    assert holder.log.get("b", b"k") is None
    holder.log.append([], entries=[TableEntry("a", b"k", None), TableEntry("a", b"", b"")])
    assert holder.log.get("a", b"k") is None
    assert holder.log.get("a", b"") == b""


def test_tables_are_scanned_in_order_and_in_pages(holder):
    keys = [b"", b"\0", b"a", b"a\0", b"a\0b", b"ab", b"b", b"\xff" * 470]
    holder.log.append([], entries=[TableEntry("t", key, key[:3]) for key in reversed(keys)])
    holder.log.append([], entries=[TableEntry("s", b"a", b"x"), TableEntry("u", b"a", b"x")])
    assert holder.log.scan("t", b"", 100) == [(key, key[:3]) for key in keys]
    assert [key for key, _ in holder.log.scan("t", b"a", 100)] == keys[2:6]
    assert [key for key, _ in holder.log.scan("t", b"a", 2)] == keys[2:4]
    assert [key for key, _ in holder.log.scan("t", b"a", 100, after=b"a\0")] == keys[4:6]
    assert [key for key, _ in holder.log.scan("t", b"a", 100, after=b"")] == keys[2:6]
    assert holder.log.scan("none", b"", 100) == []


@given(
    times=st.lists(st.lists(st.integers(0, 50), min_size=1, max_size=3), max_size=12),
    gaps=st.sets(st.integers(0, 12)),
    asked=st.integers(0, 51),
    trim=st.integers(0, 10),
)
@pytest.mark.parametrize("kind", [Memory, Lmdb, KilledLmdb])
@settings(max_examples=30, deadline=None)
def test_find_agrees_with_looking_at_every_record(kind, times, gaps, asked, trim):
    with tempfile.TemporaryDirectory() as directory:
        log = kind(directory).log
        sequence, expected, newest = 0, None, 0
        for number, group in enumerate(times):
            sequence += 3 * (number in gaps)
            log.append([timed(ORDERS, sequence, *group)], skips={ORDERS: sequence})
            newest = max(newest, *group)
            kept = sequence + len(group) > trim
            if expected is None and kept and newest >= asked:
                expected = sequence
            sequence += len(group)
        if times:
            log.append([], trims={ORDERS: trim})
        assert log.find(ORDERS, asked) == expected
        log.close()
