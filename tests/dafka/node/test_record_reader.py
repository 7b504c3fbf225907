"""Reading records from real stores, one of which may be away."""

from __future__ import annotations

from contextlib import closing, suppress

import pytest

from dafka.cluster import Cluster
from dafka.errors import QueryError
from dafka.gateway.broker import ErrorCode, Found
from dafka.gateway.ledger import LedgerEntry
from dafka.node.mirror import Mirror
from dafka.node.record_reader import RecordReader
from dafka.process.clock import now_ms
from dafka.query.client import StoreClient
from dafka.records.header import header_of
from tests.support.batches import make_batch, unreadable_from
from tests.support.small_cluster import SmallCluster

pytestmark = [pytest.mark.net, pytest.mark.slow]


LATER_MS = 2**62


@pytest.fixture
def cluster(tmp_path, free_ports, reopened):
    cluster = SmallCluster(tmp_path, free_ports, reopened, stores=2)
    cluster.start_tower()
    yield cluster
    cluster.close()


@pytest.fixture
def reader(cluster):
    reader = RecordReader(Cluster(stores=cluster.queries))
    yield reader
    reader.close()


def stored(cluster, *values):
    """Where a producer's records are."""
    producer = cluster.producer(linger_ms=0)
    for value in values:
        producer.send("orders", value)
        producer.flush(30)
    return producer.address


def test_batches_are_read_where_the_ledger_says(cluster, reader):
    cluster.store(1)
    address = stored(cluster, b"a", b"b", b"c")
    entries = [LedgerEntry(10, address, 1, 2)]
    batches = reader.fetch("orders", entries, 11, 1_000)
    assert [header_of(one).base_offset for one in batches] == [11]
    assert [header_of(one).base_offset for one in reader.fetch("orders", entries, 0, 1)] == [10]
    assert [*reader.values("orders", entries[0])] == [(1, b"b"), (2, b"c")]


def test_what_no_store_has_is_passed_over(cluster, reader):
    cluster.store(0)
    cluster.store(1)
    address = stored(cluster, b"a")
    entries = [LedgerEntry(0, "GONE", 0, 9), LedgerEntry(9, address, 0, 1)]
    batches = reader.fetch("orders", entries, 0, 1_000)
    assert [header_of(one).base_offset for one in batches] == [9]
    assert [*reader.values("orders", entries[0])] == []


def test_a_store_that_is_away_may_have_had_it(cluster, reader):
    cluster.store(1)
    stored(cluster, b"a")
    with pytest.raises(QueryError):
        reader.fetch("orders", [LedgerEntry(0, "GONE", 0, 9)], 0, 1_000)


def test_commits_of_a_new_disk_do_not_count_while_another_store_is_away(
    tmp_path, free_ports, reopened, until
):
    cluster = SmallCluster(tmp_path, free_ports, reopened, stores=3)
    with closing(cluster), closing(RecordReader(Cluster(stores=cluster.queries))) as reader:
        cluster.start_tower()
        cluster.store(0)
        cluster.store(1)
        with pytest.raises(QueryError, match="new disk"):
            reader.commits("audit")
        with StoreClient(cluster.queries[0]) as client:
            client.catch_up()
        with pytest.raises(QueryError, match="new disk"):
            reader.commits("audit")
        cluster.store(2)

        def told():
            with suppress(QueryError):  # on a busy machine it does not answer at once
                return reader.commits("audit")

        assert until(told) == ({}, True), "all there are"


def test_the_first_offset_of_a_time_is_found(cluster, reader):
    cluster.store(1)
    producer = cluster.producer()
    for time_ms in (1_000, 2_000, 3_000):
        producer.send("orders", b"x", timestamp_ms=time_ms)
    producer.flush(30)
    entries = [LedgerEntry(10, producer.address, 0, 1), LedgerEntry(20, producer.address, 1, 2)]
    assert reader.find("orders", entries, LATER_MS, 1_500) == Found(ErrorCode.NONE, 20, 2_000)
    assert reader.find("orders", entries, LATER_MS, 3_000) == Found(ErrorCode.NONE, 21, 3_000)
    assert reader.find("orders", entries[:1], LATER_MS, 500) == Found(ErrorCode.NONE, 10, 1_000)


def test_a_look_up_that_takes_too_long_ends(cluster, reader):
    cluster.store(1)
    entries = [LedgerEntry(0, stored(cluster, b"a"), 0, 1)]
    with pytest.raises(TimeoutError):
        reader.find("orders", entries, now_ms(), 0)
    with pytest.raises(TimeoutError):
        reader.newest("orders", entries, now_ms())


def test_the_record_with_the_largest_time_is_found(cluster, reader):
    cluster.store(0)
    cluster.store(1)
    one, other = cluster.producer(linger_ms=0), cluster.producer(linger_ms=0)
    for producer, time_ms in (
        (one, 2_000),
        (one, 4_000),
        (one, 1_000),
        (one, 4_000),
        (other, 4_000),
    ):
        producer.send("orders", b"x", timestamp_ms=time_ms)
        producer.flush(30)
    last = LedgerEntry(10, other.address, 0, 1)
    assert reader.newest("orders", [], LATER_MS) == Found(ErrorCode.NONE)
    assert reader.newest("orders", [LedgerEntry(20, "GONE", 0, 9), last], LATER_MS).offset == 10
    whole = [LedgerEntry(0, one.address, 0, 4), last]
    assert reader.newest("orders", whole, LATER_MS) == Found(ErrorCode.NONE, 1, 4_000)
    beyond = [LedgerEntry(0, one.address, 0, 1), last]
    assert reader.newest("orders", beyond, LATER_MS) == Found(ErrorCode.NONE, 10, 4_000)
    behind = [LedgerEntry(2, one.address, 2, 1)]
    assert reader.newest("orders", behind, LATER_MS) == Found(ErrorCode.NONE, 2, 1_000)


def test_values_that_nobody_can_read_are_passed_over(cluster, reader):
    cluster.store(0)
    cluster.store(1)
    batch = unreadable_from(make_batch([b"a", b"b", b"c"]), 1)
    mirror = Mirror(cluster.place(None, {})[0])
    mirror.publish(batch, 30)
    mirror.publish(make_batch([b"d", b"e"], 3), 30)
    mirror.flush(30)
    mirror.close()
    entry = LedgerEntry(0, batch.partition.address, 0, 4)
    assert [*reader.values("orders", entry)] == [(0, b"a"), (3, b"d")], "each has its place"
