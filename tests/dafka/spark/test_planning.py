from __future__ import annotations

import json
from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dafka.cluster import Cluster
from dafka.errors import MisuseError, QueryError
from dafka.limits import READ_SPANS_MAX
from dafka.model import Partition
from dafka.process.clock import Clock
from dafka.records.batch import values_of
from dafka.spark.bounds import Bound, TopicSelection
from dafka.spark.planning import (
    PATIENCE_S,
    SMALL_RECORDS,
    DataLossError,
    Progress,
    Range,
    RangeReader,
    dealt,
    dealt_whole,
    limited,
    patiently,
    together,
)

ranges = st.dictionaries(
    st.builds(Partition, st.sampled_from(["a", "b"]), st.sampled_from("12345")),
    st.tuples(st.integers(0, 50), st.integers(0, 50)).map(sorted),
).map(lambda found: [Range(partition, *bounds) for partition, bounds in found.items()])


def records_of(ranges):
    return Counter((one.partition, at) for one in ranges for at in range(one.start, one.end))


@given(ranges, st.integers(1, 60), st.integers(1, 10))
def test_tasks_hold_every_record_once_and_are_of_one_size(ranges, records_max, tasks_min):
    tasks = dealt(ranges, records_max, tasks_min)
    assert records_of([one for task in tasks for one in task]) == records_of(ranges)
    sizes = [sum(one.records for one in task) for task in tasks]
    assert all(0 < size <= records_max for size in sizes)
    assert max(sizes, default=0) - min(sizes, default=0) <= 1
    assert len(tasks) >= min(tasks_min, sum(one.records for one in ranges))


@given(ranges, st.integers(1, 60), st.integers(1, 10))
def test_whole_ranges_are_never_cut(ranges, records_max, tasks_min):
    tasks = dealt_whole(ranges, records_max, tasks_min)
    given_out = [one for task in tasks for one in task]
    assert sorted(given_out) == sorted(one for one in ranges if one.records)
    assert all(tasks)
    assert dealt_whole(ranges[::-1], records_max, tasks_min) == tasks


def test_whole_ranges_are_spread_by_size():
    sizes = {"1": 60, "2": 30, "3": 20, "4": 10}
    ranges = [Range(Partition("a", address), 0, size) for address, size in sizes.items()]
    tasks = dealt_whole(ranges, 1_000, 2)
    assert [sum(one.records for one in task) for task in tasks] == [60, 60]


@given(ranges, st.none() | st.integers(1, 100))
def test_a_limit_is_reached_and_not_passed_and_nobody_waits(ranges, records_max):
    starts = {one.partition: one.start for one in ranges}
    ends = {one.partition: one.end for one in ranges}
    cut = limited(starts, ends, records_max)
    assert cut.keys() == ends.keys()
    assert all(starts[partition] <= cut[partition] <= ends[partition] for partition in ends)
    waiting = [one for one in ranges if one.records]
    assert all(cut[one.partition] > one.start for one in waiting)
    total = sum(one.records for one in ranges)
    taken = sum(cut[partition] - starts[partition] for partition in ends)
    allowed = total if records_max is None else max(records_max, len(waiting))
    assert taken == min(total, allowed)


def test_shares_are_in_proportion():
    big, small = Partition("a", "1"), Partition("a", "2")
    cut = limited({big: 0, small: 5}, {big: 900, small: 105}, 100)
    assert cut[big] in (89, 90, 91)
    assert cut[big] + cut[small] - 5 == 100


def test_small_partitions_are_not_starved_by_large_ones():
    large = [Partition("a", f"{number}") for number in range(4)]
    small = Partition("b", "0")
    ends = {**dict.fromkeys(large, 10**9), small: 3}
    assert limited(dict.fromkeys(ends, 0), ends, 5) == dict.fromkeys(ends, 1)
    assert limited(dict.fromkeys(ends, 0), ends, 3) == dict.fromkeys(ends, 1), "passes the limit"


A, B = Partition("orders", "A"), Partition("orders", "B")
EARLIEST, LATEST = Bound(), Bound(latest=True)


def text(progress):
    return json.dumps(progress.as_json())


def test_the_first_micro_batch_settles_where_the_stream_begins():
    there = {A: range(2, 10), B: range(5)}
    early = Progress().after(there, EARLIEST, None)
    assert Progress().ranges_to(early) == [Range(A, 2, 10), Range(B, 0, 5)]
    late = Progress().after(there, LATEST, None)
    assert Progress().ranges_to(late) == [Range(A, 10, 10), Range(B, 5, 5)]
    grown = {A: range(2, 12), B: range(5)}
    assert late.ranges_to(late.after(grown, LATEST, None)) == [Range(A, 10, 12), Range(B, 5, 5)]


def test_a_first_micro_batch_planned_again_is_the_same_one():
    there = {A: range(10)}
    end = Progress().after(there, LATEST, None)
    kept = Progress.of_json(json.loads(text(end)))
    assert Progress().ranges_to(kept) == [Range(A, 10, 10)]


def test_latest_is_settled_even_where_there_is_nothing_yet():
    begun = Progress().after({}, LATEST, None)
    assert text(begun) != text(Progress())
    assert begun.ranges_to(begun.after({A: range(3)}, LATEST, None)) == [Range(A, 0, 3)]


def test_nothing_new_is_the_very_same_offset():
    there = {A: range(10)}
    end = Progress().after(there, EARLIEST, None)
    assert end.after(there, EARLIEST, None) is end
    assert end.after({**there, B: range(0)}, EARLIEST, None) is end


def test_new_partitions_are_read_from_their_beginning():
    begun = Progress().after({A: range(10)}, LATEST, None)
    grown = begun.after({A: range(10), B: range(3, 7)}, LATEST, None)
    # Retention was faster than the stream: reading fails or passes over, planning hides nothing.
    assert begun.ranges_to(grown) == [Range(A, 10, 10), Range(B, 0, 7)]
    again = Progress.of_json(json.loads(text(grown)))
    assert begun.ranges_to(again) == begun.ranges_to(grown)


def test_a_cluster_that_lags_behind_the_checkpoint_is_waited_for():
    begun = Progress().after({A: range(10), B: range(3)}, EARLIEST, None)
    assert begun.after({A: range(4)}, EARLIEST, None) is begun
    moved = begun.after({A: range(12)}, EARLIEST, None)
    assert begun.ranges_to(moved) == [Range(A, 10, 12), Range(B, 3, 3)]


def test_offsets_are_ordered_text():
    one = Progress(True, {}, {A: 1, B: 2})
    other = Progress(True, {}, {B: 2, A: 1})
    assert text(one) == text(other)
    assert text(one) == (
        '{"begun": true, "deal": [1, 1], "forgotten": [], "from": {}, '
        '"next": {"orders": {"A": 1, "B": 2}}}'
    )


def test_what_stores_have_forgotten_goes_on_where_it_was_when_it_comes_back():
    read = Progress().after({A: range(10), B: range(3)}, EARLIEST, None)
    moved = read.after({B: range(4)}, EARLIEST, None).without([A], 9)
    assert moved.nexts == {B: 4}
    assert moved.forgotten == {A: 10}
    moved = Progress.of_json(json.loads(text(moved)))
    assert moved.after({B: range(4)}, EARLIEST, None) is moved
    back = moved.after({A: range(10, 12), B: range(4)}, EARLIEST, None)
    assert moved.ranges_to(back) == [Range(A, 10, 12), Range(B, 4, 4)]
    assert back.forgotten == {}
    still = moved.after({A: range(10), B: range(5)}, EARLIEST, None)
    assert moved.ranges_to(still) == [Range(A, 10, 10), Range(B, 4, 5)], "listed by a store again"


def test_of_many_forgotten_ones_the_longest_forgotten_go():
    there = {Partition("orders", name): range(1) for name in "ABCDE"}
    progress = Progress().after(there, EARLIEST, None)
    progress = progress.without([Partition("orders", name) for name in "CA"], 2)
    progress = progress.without([Partition("orders", "D")], 2)
    assert [one.address for one in progress.forgotten] == ["A", "D"]
    assert [one.address for one in progress.nexts] == ["B", "E"]


def test_offsets_of_before_go_on():
    kept = '{"begun": true, "deal": [1, 1], "from": {}, "next": {"orders": {"A": 1}}}'
    assert Progress.of_json(json.loads(kept)) == Progress(True, {}, {A: 1})


EVENTS = st.tuples(st.sampled_from(["grow", "forget"]), st.sampled_from("ABCD"))


@given(st.lists(EVENTS, max_size=30), st.none() | st.integers(1, 3))
def test_nothing_is_skipped_or_repeated_whatever_is_forgotten_and_comes_back(events, records_max):
    ends, listed, progress, read = {}, set(), Progress(), {}
    for what, address in events:
        partition = Partition("orders", address)
        if what == "grow":
            ends[partition] = ends.get(partition, 0) + 2
            listed.add(partition)
        elif progress.nexts.get(partition) == ends.get(partition):
            listed.discard(partition)
        there = {one: range(ends[one] - 2, ends[one]) for one in listed}
        following = progress.after(there, EARLIEST, records_max)
        if following is not progress:
            following = following.without([one for one in progress.nexts if one not in listed], 9)
        following = Progress.of_json(json.loads(text(following)))
        for one, start, end in progress.ranges_to(following):
            assert start == read.get(one, 0)
            read[one] = end
        progress = following
    for one in listed:
        assert progress.nexts[one] == read[one] <= ends[one]


@given(
    st.lists(st.dictionaries(st.sampled_from("ABCD"), st.integers(0, 20)), min_size=1, max_size=8),
    st.none() | st.integers(1, 10),
)
def test_micro_batches_tile_every_partition(growth, records_max):
    """Whatever comes to be known when: no gap, no overlap, and in the end everything."""
    there, progress, read = {}, Progress(), {}
    for step in [*growth, *[{}] * 100]:
        for address, grown in step.items():
            partition = Partition("t", address)
            there[partition] = range(there.get(partition, range(0)).stop + grown)
        following = progress.after(there, EARLIEST, records_max)
        following = Progress.of_json(json.loads(text(following)))
        ranges = progress.ranges_to(following)
        allowed = max(records_max or 0, len(there))  # one of each partition, whatever the limit
        assert records_max is None or sum(one.records for one in ranges) <= allowed
        for partition, start, end in ranges:
            assert start == read.get(partition, 0)
            read[partition] = end
        progress = following
    assert {p: end for p, end in read.items() if end} == {p: s.stop for p, s in there.items() if s}


@pytest.mark.parametrize(
    "offset", [{}, {"begun": True, "from": {}}, {"begun": 1, "deal": [1, 2], "from": 2}]
)
def test_other_offsets_are_refused(offset):
    with pytest.raises(MisuseError, match="no offset of this source"):
        Progress.of_json(offset)


def test_ends_without_a_beginning_are_refused():
    with pytest.raises(MisuseError, match="does not say where"):
        Progress().ranges_to(Progress(True, {}, {A: 3}))


ORDERS = Partition("orders", "AB" * 16)
EVERYTHING = TopicSelection(pattern=".*")


def sequences(pages):
    return [batch.sequence for page in pages for batch in page]


def test_small_ranges_are_taken_together_as_they_follow_each_other():
    def of(*sizes):
        ranges = [Range(Partition("t", str(at)), 5, 5 + size) for at, size in enumerate(sizes)]
        assert [one for group in together(ranges) for one in group] == ranges
        return [[one.records for one in group] for group in together(ranges)]

    assert of() == []
    assert of(1) == [[1]]
    assert of(1, SMALL_RECORDS, SMALL_RECORDS + 1, 2) == [
        *([1, SMALL_RECORDS], [SMALL_RECORDS + 1], [2])
    ]
    assert of(*[SMALL_RECORDS] * 11) == [[SMALL_RECORDS] * 10, [SMALL_RECORDS]]
    assert [len(group) for group in of(*[1] * (READ_SPANS_MAX + 1))] == [READ_SPANS_MAX, 1]


def test_what_one_question_does_not_bring_is_asked_for_alone(serve, make_batch, silent):
    partitions = [Partition("orders", f"{number:032X}") for number in range(5)]
    batches = [make_batch([b"1", b"2"], partition=one) for one in partitions]
    more = make_batch([b"3"], 2, partitions[1])
    little, much = serve(batches[0], batches[1], batches[3]), serve(*batches, more)
    ranges = [Range(one, 0, 2) for one in partitions]
    ranges[1] = Range(partitions[1], 1, 3)
    for first in (little.endpoint, silent):
        with RangeReader(Cluster(stores=[first, much.endpoint])) as stores:
            pieces = [piece for some in stores.pieces(ranges) for piece in some]
        found = sorted((batch.partition, batch.sequence) for _, some in pieces for batch in some)
        assert found == sorted([*((one, 0) for one in partitions), (partitions[1], 2)])
    with RangeReader(Cluster(stores=little.endpoint)) as stores, pytest.raises(QueryError):
        list(stores.pieces(ranges))


def test_what_is_there_is_what_the_best_store_has(serve, make_batch):
    other = Partition("other", "CD" * 16)
    first = serve(make_batch([b"1"]), make_batch([b"x"], partition=other))
    second = serve(make_batch([b"1", b"2"]))
    with RangeReader(Cluster(stores=[first.endpoint, second.endpoint])) as stores:
        assert stores.there(EVERYTHING) == {ORDERS: range(2), other: range(1)}
        assert stores.there(TopicSelection(("other",))) == {other: range(1)}


def test_a_store_that_does_not_answer_is_done_without(serve, make_batch, silent):
    port = serve(make_batch([b"1", b"2"]), make_batch([b"3"], 2))
    with RangeReader(Cluster(stores=[silent, port.endpoint])) as stores:
        assert stores.there(EVERYTHING) == {ORDERS: range(3)}
        assert sequences(stores.pages(Range(ORDERS, 1, 3))) == [0, 2]
        with pytest.raises(QueryError, match=silent):
            stores.there(EVERYTHING, every=True)


def test_no_store_at_all_is_an_error(silent):
    with RangeReader(Cluster(stores=silent)) as stores:
        with pytest.raises(QueryError, match=silent):
            stores.there(EVERYTHING)
        with pytest.raises(QueryError, match=silent):
            list(stores.pages(Range(ORDERS, 0, 1)))


def test_a_range_is_read_on_where_another_store_has_it(serve, make_batch):
    behind = serve(make_batch([b"1"]))
    ahead = serve(make_batch([b"1", b"2", b"3"]))
    with RangeReader(Cluster(stores=[behind.endpoint, ahead.endpoint])) as stores:
        pages = list(stores.pages(Range(ORDERS, 0, 3)))
    assert [[batch.count for batch in page] for page in pages] == [[1], [3]]


def test_what_retention_took_is_an_error_or_passed_over(serve, make_batch):
    batches = [make_batch([b"1", b"2"]), make_batch([b"3"], 2), make_batch([b"4"], 3)]
    first, second = serve(*batches), serve(*batches)
    first.log.append([], trims={ORDERS: 3})
    with RangeReader(Cluster(stores=[first.endpoint, second.endpoint])) as stores:
        assert stores.there(EVERYTHING) == {ORDERS: range(4)}
        assert sequences(stores.pages(Range(ORDERS, 0, 4))) == [0, 2, 3]
        second.log.append([], trims={ORDERS: 2})
        assert stores.there(EVERYTHING) == {ORDERS: range(2, 4)}
        with pytest.raises(DataLossError, match=r"sequences 0 to 3 .* what was before 2\)"):
            list(stores.pages(Range(ORDERS, 0, 4)))
        assert sequences(stores.pages(Range(ORDERS, 0, 4), fail_on_data_loss=False)) == [2, 3]


def test_that_a_topic_was_deleted_is_said(serve, make_batch):
    port = serve(make_batch([b"1", b"2"]), make_batch([b"3"], 2))
    with RangeReader(Cluster(stores=port.endpoint)) as stores:
        pages = stores.pages(Range(ORDERS, 0, 3))
        port.log.append([], trims={ORDERS: 3})
        with pytest.raises(DataLossError, match="the topic was deleted, or retention has") as lost:
            list(pages)
        assert not lost.value.retriable
        assert list(stores.pages(Range(ORDERS, 0, 3), fail_on_data_loss=False)) == []


def test_tasks_read_from_stores_that_answer_first(serve, make_batch, silent):
    first, second = serve(make_batch([b"1"])), serve(make_batch([b"2"]))
    with RangeReader(Cluster(stores=[silent, first.endpoint, second.endpoint])) as stores:
        assert stores.silent == ()
        stores.there(EVERYTHING)
        assert stores.silent == (silent,)
        for number, value in enumerate([b"1", b"2", b"1"]):
            stores.prefer(number, stores.silent)
            (page,) = stores.pages(Range(ORDERS, 0, 1))
            assert values_of(page[0]) == [value]
        stores.prefer(0, (silent, first.endpoint, second.endpoint))


def test_the_driver_waits_for_a_store_to_come_back(serve, make_batch, silent):
    port = serve(make_batch([b"1"]))
    asked = []

    def ask(stores):
        asked.append(stores)
        with RangeReader(Cluster(stores=silent if len(asked) < 2 else port.endpoint)) as others:
            return others.there(EVERYTHING)

    slept = []
    clock = Clock(seconds=lambda: sum(slept), sleep=slept.append)
    with RangeReader(Cluster(stores=port.endpoint)) as stores:
        assert patiently(stores, ask, clock) == {ORDERS: range(1)}
    assert (len(asked), len(slept)) == (2, 1)
    with RangeReader(Cluster(stores=silent)) as stores, pytest.raises(QueryError, match=silent):
        patiently(stores, lambda stores: stores.there(EVERYTHING), clock)
    assert PATIENCE_S < sum(slept) < 2 * PATIENCE_S


def test_a_time_is_settled_by_asking(serve, make_batch):
    port = serve(make_batch([b"1"], timestamp_ms=10), make_batch([b"2"], 1, timestamp_ms=20))
    with RangeReader(Cluster(stores=port.endpoint)) as stores:
        there = stores.there(EVERYTHING)
        for time_ms, sequence in ((0, 0), (10, 0), (11, 1), (21, 2)):
            settled = stores.settled(Bound(timestamp_ms=time_ms), there)
            assert settled.of(ORDERS, there[ORDERS]) == sequence
        assert stores.settled(Bound(latest=True), there) == Bound(latest=True)


@pytest.mark.parametrize("fail_on_data_loss", [True, False])
def test_what_no_store_has_yet_is_never_passed_over(serve, make_batch, fail_on_data_loss):
    port = serve(make_batch([b"1"]))
    with RangeReader(Cluster(stores=port.endpoint)) as stores:
        pages = stores.pages(Range(ORDERS, 0, 5), fail_on_data_loss=fail_on_data_loss)
        assert sequences([next(pages)]) == [0]
        with pytest.raises(QueryError, match="not there yet: the cluster ends at 1") as caught:
            next(pages)
    assert caught.value.retriable
    assert not isinstance(caught.value, DataLossError)


def test_a_time_is_not_settled_where_a_store_that_may_know_it_fails(serve, make_batch, silent):
    port = serve(make_batch([b"1"], timestamp_ms=10))
    with RangeReader(Cluster(stores=[silent, port.endpoint])) as stores:
        there = {ORDERS: range(5)}
        assert stores.settled(Bound(timestamp_ms=10), there).sequences == {ORDERS: 0}
        with pytest.raises(QueryError, match=silent):
            stores.settled(Bound(timestamp_ms=11), there)
