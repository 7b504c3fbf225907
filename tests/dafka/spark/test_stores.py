from __future__ import annotations

import pytest

from dafka.errors import QueryError
from dafka.model import Partition
from dafka.spark.options import Bound, TopicSelection
from dafka.spark.planning import Range
from dafka.spark.stores import DataLossError, Stores, patiently

ORDERS = Partition("orders", "AB" * 16)
EVERYTHING = TopicSelection(pattern=".*")


@pytest.fixture(autouse=True)
def impatient(monkeypatch):
    monkeypatch.setattr("dafka.spark.stores.ANSWER_TIMEOUT_MS", 300)


def sequences(pages):
    return [batch.sequence for page in pages for batch in page]


def test_what_is_there_is_what_the_best_store_has(serve, make_batch):
    other = Partition("other", "CD" * 16)
    first = serve(make_batch([b"1"]), make_batch([b"x"], partition=other))
    second = serve(make_batch([b"1", b"2"]))
    with Stores([first.endpoint, second.endpoint]) as stores:
        assert stores.there(EVERYTHING) == {ORDERS: range(2), other: range(1)}
        assert stores.there(TopicSelection(("other",))) == {other: range(1)}


def test_a_store_that_does_not_answer_is_done_without(serve, make_batch, silent):
    port = serve(make_batch([b"1", b"2"]), make_batch([b"3"], 2))
    with Stores([silent, port.endpoint]) as stores:
        assert stores.there(EVERYTHING) == {ORDERS: range(3)}
        assert sequences(stores.pages(Range(ORDERS, 1, 3))) == [0, 2]


def test_no_store_at_all_is_an_error(silent):
    with Stores([silent]) as stores:
        with pytest.raises(QueryError, match=silent):
            stores.there(EVERYTHING)
        with pytest.raises(QueryError, match=silent):
            list(stores.pages(Range(ORDERS, 0, 1)))


def test_a_range_is_read_on_where_another_store_has_it(serve, make_batch):
    behind = serve(make_batch([b"1"]))
    ahead = serve(make_batch([b"1", b"2", b"3"]))
    with Stores([behind.endpoint, ahead.endpoint]) as stores:
        pages = list(stores.pages(Range(ORDERS, 0, 3)))
    assert [[batch.count for batch in page] for page in pages] == [[1], [3]]


def test_what_retention_took_is_an_error_or_passed_over(serve, make_batch):
    batches = [make_batch([b"1", b"2"]), make_batch([b"3"], 2), make_batch([b"4"], 3)]
    first, second = serve(*batches), serve(*batches)
    first.log.append([], trims={ORDERS: 3})
    with Stores([first.endpoint, second.endpoint]) as stores:
        assert stores.there(EVERYTHING) == {ORDERS: range(4)}
        assert sequences(stores.pages(Range(ORDERS, 0, 4))) == [0, 2, 3]
        second.log.append([], trims={ORDERS: 2})
        assert stores.there(EVERYTHING) == {ORDERS: range(2, 4)}
        with pytest.raises(DataLossError, match=r"sequences 0 to 3 .* what was before 2\)"):
            list(stores.pages(Range(ORDERS, 0, 4)))
        assert sequences(stores.pages(Range(ORDERS, 0, 4), fail_on_data_loss=False)) == [2, 3]


def test_that_a_topic_was_deleted_is_said(serve, make_batch):
    port = serve(make_batch([b"1", b"2"]), make_batch([b"3"], 2))
    with Stores([port.endpoint]) as stores:
        pages = stores.pages(Range(ORDERS, 0, 3))
        port.log.append([], trims={ORDERS: 3})
        with pytest.raises(DataLossError, match="the topic was deleted, or retention has") as lost:
            list(pages)
        assert not lost.value.retriable
        assert list(stores.pages(Range(ORDERS, 0, 3), fail_on_data_loss=False)) == []


def test_the_driver_waits_for_a_store_to_come_back(serve, make_batch, silent, monkeypatch):
    monkeypatch.setattr("dafka.spark.stores.ANSWER_TIMEOUT_MS", 100)
    port = serve(make_batch([b"1"]))
    asked = []

    def ask(stores):
        asked.append(stores)
        with Stores([silent if len(asked) < 2 else port.endpoint]) as others:
            return others.there(EVERYTHING)

    assert patiently([port.endpoint], ask) == {ORDERS: range(1)}
    assert len(asked) == 2
    monkeypatch.setattr("dafka.spark.stores.PATIENCE_S", 0.0)
    with pytest.raises(QueryError, match=silent):
        patiently([silent], lambda stores: stores.there(EVERYTHING))


def test_a_time_is_settled_by_asking(serve, make_batch):
    port = serve(make_batch([b"1"], timestamp_ms=10), make_batch([b"2"], 1, timestamp_ms=20))
    with Stores([port.endpoint]) as stores:
        there = stores.there(EVERYTHING)
        for time_ms, sequence in ((0, 0), (10, 0), (11, 1), (21, 2)):
            settled = stores.settled(Bound(timestamp_ms=time_ms), there)
            assert settled.of(ORDERS, there[ORDERS]) == sequence
        assert stores.settled(Bound(latest=True), there) == Bound(latest=True)


@pytest.mark.parametrize("fail_on_data_loss", [True, False])
def test_what_no_store_has_yet_is_never_passed_over(serve, make_batch, fail_on_data_loss):
    port = serve(make_batch([b"1"]))
    with Stores([port.endpoint]) as stores:
        pages = stores.pages(Range(ORDERS, 0, 5), fail_on_data_loss=fail_on_data_loss)
        assert sequences([next(pages)]) == [0]
        with pytest.raises(QueryError, match="not there yet: the cluster ends at 1") as caught:
            next(pages)
    assert caught.value.retriable
    assert not isinstance(caught.value, DataLossError)


def test_a_time_is_not_settled_where_a_store_that_may_know_it_fails(serve, make_batch, silent):
    port = serve(make_batch([b"1"], timestamp_ms=10))
    with Stores([silent, port.endpoint]) as stores:
        there = {ORDERS: range(5)}
        assert stores.settled(Bound(timestamp_ms=10), there).sequences == {ORDERS: 0}
        with pytest.raises(QueryError, match=silent):
            stores.settled(Bound(timestamp_ms=11), there)
