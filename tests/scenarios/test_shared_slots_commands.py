"""What commands tell of a cluster whose stores share the slots."""

from __future__ import annotations

import json
import subprocess
import sys
from contextlib import closing

import pytest

from dafka.cluster import Cluster
from dafka.model import Slots, slot_of
from dafka.node.consumer import Consumer
from dafka.node.producer import Producer
from tests.support.small_cluster import SmallCluster

pytestmark = [pytest.mark.net, pytest.mark.slow]

LOW, HIGH = Slots.of([range(2_048)]), Slots.of([range(2_048, 4_096)])
PRODUCERS = 8
CONTENTS = "batches", "classic", "raw"
"""How producers publish, in turn."""

EACH = 3


@pytest.fixture(scope="module")
def shared(tmp_path_factory, free_ports, reopened):
    """Two stores with a half each; as many partitions in two topics, and where a group is."""
    cluster = SmallCluster(tmp_path_factory.mktemp("shared"), free_ports, reopened, stores=2)
    with closing(cluster):
        cluster.start_tower()
        for number, slots in enumerate((LOW, HIGH)):
            cluster.store(number, slots=slots, deletable=True)
        place = Cluster(cluster.endpoint, cluster.queries)
        cluster.addresses = []
        for number in range(PRODUCERS):
            with Producer(place, content=CONTENTS[number % len(CONTENTS)]) as producer:
                cluster.addresses.append(producer.address)
                for topic in ("orders", "gone"):
                    producer.send_many(topic, [b"%d" % one for one in range(EACH)])
        with Consumer(place, ["orders"], group="billing") as consumer:
            for _ in range(PRODUCERS * EACH):
                assert consumer.poll(120)
            consumer.commit()
        yield cluster


@pytest.fixture
def told(shared):
    """What a command prints as JSON that is told all stores, or some."""

    def told(*words, stores=None):
        endpoints = [word for one in stores or shared.queries for word in ("--store", one)]
        done = subprocess.run(
            [sys.executable, "-m", "dafka", *words, *endpoints, "--json"],
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        return [json.loads(line) for line in done.stdout.splitlines()]

    return told


def test_topics_are_those_of_all_stores_whichever_is_named_first(shared, told):
    for stores in (shared.queries, shared.queries[::-1]):
        rows = {row["topic"]: row for row in told("topics", stores=stores)}
        assert (rows["orders"]["partitions"], rows["orders"]["records"]) == (8, 24)
        assert rows["orders"]["bytes"] == sum(
            row["bytes"] for row in told("topics", "describe", "orders", stores=stores)
        )


def test_so_are_records_and_positions(shared, told):
    assert len(told("peek", "orders")) == PRODUCERS * EACH
    last = told("consume", "orders", "--last", "24", "--tower", shared.endpoint)
    assert len({(row["address"], row["sequence"]) for row in last}) == PRODUCERS * EACH
    rows = told("groups", "billing")
    assert {row["address"] for row in rows} == set(shared.addresses)
    assert {(row["position"], row["end"], row["lag"]) for row in rows} == {(EACH, EACH, 0)}
    back = told("groups", "reset", "billing", "--to-earliest", "--tower", shared.endpoint)
    assert {row["position"] for row in back[0]["positions"]} == {0}


def test_of_one_store_alone_a_list_is_refused_that_would_lack_others(shared):
    done = subprocess.run(
        [sys.executable, "-m", "dafka", "topics", "--store", shared.query],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 1
    assert "does not keep slots 2048-4095" in done.stderr
    assert "name stores that keep all slots together" in done.stderr


def test_a_topic_is_dropped_from_each_store_that_keeps_some_of_it(shared, told):
    low = sum(LOW.has(slot_of(one)) for one in shared.addresses)
    rows = [
        {"store": endpoint, "partitions": count, "records": count * EACH}
        for endpoint, count in zip(shared.queries, (low, PRODUCERS - low), strict=True)
    ]
    (shown,) = told("topics", "delete", "gone")
    assert shown["stores"] == rows
    (dropped,) = told("topics", "delete", "gone", "--yes")
    assert (dropped["dropped"], dropped["stores"]) == (True, rows)
    assert "gone" not in {row["topic"] for row in told("topics")}
