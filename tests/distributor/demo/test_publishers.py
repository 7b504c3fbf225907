from __future__ import annotations

import multiprocessing
import os
import signal
import time
from itertools import chain

import pytest

from dafka.cluster import Cluster
from dafka.node.producer import Producer
from dafka.query.cluster_client import ClusterClient
from dafka.records.batch import records_of
from distributor.demo import job
from distributor.demo.dataset import DatasetRow
from distributor.demo.publishers import (
    CODEC,
    STEADY_RATE,
    Order,
    Publishers,
    ready,
    send_rows,
)
from distributor.errors import ProcessError
from tests.distributor.demo.test_dataset import needs_data

pytestmark = pytest.mark.net

LIMIT = 1_500
CLUSTERS = ["c1", "c2"]


def children():
    return {child.name: child for child in multiprocessing.active_children()}


def test_as_many_rows_as_are_ordered_are_sent_in_order_with_their_numbers(pair):
    made = [DatasetRow(2 * number, "orders", b"k", b"v%d" % number) for number in range(5)]
    left = map(ready, made)
    told = []
    cluster = Cluster.declared(pair.topology.cluster("c1"))
    with pair.running(1), Producer(cluster, compression=CODEC) as producer:
        some = send_rows(producer, left, Order(rows=2, rate=1_000), told.append)
        others = send_rows(producer, left, Order(), told.append)
        with ClusterClient(cluster, 10_000) as stores:
            (partition,) = some.partitions
            records = [*chain.from_iterable(map(records_of, stores.store().read(partition, 0)))]
    assert (some.rows, some.size, others.rows, sum(told)) == (2, 6, 3, 5)
    assert others.partitions == some.partitions
    assert [record.value for record in records] == [b"v%d" % number for number in range(5)]
    assert [int(record.headers[0].value) for record in records] == [0, 2, 4, 6, 8]


def test_a_steady_pace_takes_its_time(pair):
    left = (ready(DatasetRow(number, "orders", b"k", b"v")) for number in range(20))
    began = time.monotonic()
    cluster = Cluster.declared(pair.topology.cluster("c1"))
    with pair.running(1), Producer(cluster) as producer:
        send_rows(producer, left, Order(rate=100), lambda _: None)
    assert time.monotonic() - began >= 0.2


@needs_data
@pytest.mark.slow
def test_all_rows_are_published_each_by_the_process_of_its_cluster(pair):
    told = []
    with pair.running(), Publishers(pair.file, CLUSTERS, LIMIT) as publishers:
        assert publishers.prepare() == 2 * LIMIT
        assert publishers.steady_rows == LIMIT
        steady = publishers.publish_steadily(told.append)
        assert steady.rows == sum(told) == LIMIT
        published = steady + publishers.publish(told.append)
        holdings = {holding.cluster: holding.records for holding in job.survey(pair.topology)}
    assert published.rows == sum(told) == 2 * LIMIT
    assert holdings == {"c1": LIMIT, "c2": LIMIT}
    assert sorted(published.homes.values()) == ["c1", "c1", "c2", "c2"]
    assert published.size > 0
    assert published.seconds >= LIMIT / 2 / STEADY_RATE
    assert children() == {}


@needs_data
@pytest.mark.slow
def test_a_publisher_that_has_ended_is_named(pair):
    with Publishers(pair.file, CLUSTERS, 1) as publishers:
        publishers.prepare()
        os.kill(children()["publisher-c2"].pid, signal.SIGKILL)
        with pytest.raises(ProcessError, match="the publisher at c2 has ended"):
            publishers.publish(lambda _: None)


@pytest.mark.slow
def test_what_a_publisher_cannot_do_is_said(tmp_path):
    with (
        Publishers(tmp_path / "gone.yaml", CLUSTERS, 1) as publishers,
        pytest.raises(ProcessError, match=r"the publisher at c[12] cannot go on: .*gone\.yaml"),
    ):
        publishers.prepare()
