from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dafka.cluster import Cluster
from dafka.errors import QueryError
from dafka.limits import READ_BYTES_MAX, READ_SPANS_MAX
from dafka.model import Partition
from dafka.process.clock import Clock
from dafka.query.client import StoreClient
from dafka.records.batch import values_of
from dafka.spark.bounds import Bound, TopicSelection
from dafka.spark.planning import (
    PATIENCE_S,
    TOGETHER_RECORDS,
    DataLossError,
    Range,
    RangeReader,
    dealt,
    dealt_whole,
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


ORDERS = Partition("orders", "AB" * 16)
EVERYTHING = TopicSelection(pattern=".*")


def sequences(pages):
    return [batch.sequence for page in pages for batch in page]


def test_ranges_are_taken_together_as_they_follow_each_other():
    def of(*sizes):
        ranges = [Range(Partition("t", str(at)), 5, 5 + size) for at, size in enumerate(sizes)]
        assert [one for group in together(ranges) for one in group] == ranges
        return [[one.records for one in group] for group in together(ranges)]

    most = TOGETHER_RECORDS
    assert of() == []
    assert of(1) == [[1]]
    assert of(1, most - 1, 1, most, most + 1, 2) == [[1, most - 1], [1], [most], [most + 1], [2]]
    assert [len(group) for group in of(*[1] * (READ_SPANS_MAX + 1))] == [READ_SPANS_MAX, 1]


def test_where_an_answer_holds_less_the_others_are_asked_for_together_again(serve, make_batch):
    """Not one by one: of a thousand with a few kilobytes each one answer has some hundreds."""
    size = READ_BYTES_MAX // 40
    partitions = [Partition("orders", f"{number:032X}") for number in range(20)]
    port = serve(
        *(make_batch([bytes(size)] * 2, first, one) for one in partitions for first in (0, 2))
    )
    respond, asked = port.respond, []
    port.respond = lambda question: asked.append(question) or respond(question)
    ranges = [Range(one, 0, 4) for one in partitions]
    with RangeReader(Cluster(stores=port.endpoint)) as stores:
        found = [
            (wanted.partition, batch.sequence)
            for some in stores.pieces(ranges)
            for wanted, batches in some
            for batch in batches
        ]
    assert sorted(found) == [(one, first) for one in partitions for first in (0, 2)]
    assert len(asked) <= 4


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


def test_what_is_there_is_listed_once_and_then_only_what_has_changed(
    serve, make_batch, monkeypatch
):
    other = Partition("orders", "CD" * 16)
    ports = [serve(make_batch([b"1"]), make_batch([b"a"], partition=other)) for _ in range(2)]
    listed, ranges = [], StoreClient.ranges
    monkeypatch.setattr(
        StoreClient, "ranges", lambda *given: listed.append(given[1:]) or ranges(*given)
    )
    with RangeReader(Cluster(stores=[port.endpoint for port in ports])) as stores:
        for topics in (TopicSelection(("orders",)), EVERYTHING):
            assert stores.there(topics) == {ORDERS: range(1), other: range(1)}
        ports[1].log.append([make_batch([b"2"], 1)])
        ports[0].log.append([], trims={other: 1})
        ports[0].log.append([], forgets=[other])
        for topics in (TopicSelection(("orders",)), EVERYTHING):
            assert stores.there(topics) == {ORDERS: range(2), other: range(1)}
        ports[1].log.append([], trims={other: 1})
        ports[1].log.append([], forgets=[other])
        assert stores.there(TopicSelection(("orders",))) == {ORDERS: range(2)}
        assert stores.there(TopicSelection(partitions=frozenset([other]), names=("orders",))) == {}
    assert listed == [("orders",)] * 2 + [(None,)] * 2 + [("orders",)] * 2


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


def test_a_task_is_told_who_is_silent_and_does_not_find_it_out_itself(serve, make_batch, silent):
    port = serve(make_batch([b"1"]))
    with RangeReader(Cluster(stores=[silent, port.endpoint])) as stores:
        stores.prefer(0, (silent,))
        assert stores.silent == (silent,)
    with RangeReader(Cluster(stores=[silent, port.endpoint])) as stores:
        stores.prefer(0, (silent, port.endpoint))
        assert stores.silent == (), "of all of them it says nothing"


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
