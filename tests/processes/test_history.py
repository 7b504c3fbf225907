"""The checker over a real cluster: two stores, a producer that is replaced, a consumer."""

from __future__ import annotations

import time
from contextlib import closing

import pytest

from dafka.model import Partition
from dafka.node.producer import Producer
from dafka.query.client import StoreClient
from dafka.records.batch import values_of
from dafka.testing.checker import check, vacuous
from dafka.testing.history import Began, History, Polled, ReadBack, Settled
from tests.support.small_cluster import SmallCluster

pytestmark = [pytest.mark.net, pytest.mark.slow]


def now_ms():
    return time.monotonic_ns() // 1_000_000


def send(history, producer, name, number):
    """Send and wait: one record, one batch."""
    value = f"{name}-{number}".encode()
    op = history.sent(name, "orders", [value], now_ms())
    delivery = producer.send("orders", value).result(120)
    history.acknowledged(op, delivery.address, delivery.sequence, now_ms(), min_acks=2)


def read_stores(history, queries):
    history.record(Settled(now_ms(), tuple(queries)))
    for query in queries:
        with StoreClient(query) as client:
            for partition, head in client.heads().items():
                for batch in client.scan(partition, 0, head + 1):
                    values = tuple(values_of(batch))
                    history.record(ReadBack(now_ms(), query, partition, batch.sequence, values))


def test_a_real_cluster_passes_the_checker_and_a_forged_history_does_not(
    tmp_path, free_ports, reopened
):
    cluster = SmallCluster(tmp_path, free_ports, reopened, stores=2)
    tower, queries = cluster.endpoint, cluster.queries
    history = History()
    with closing(cluster):
        cluster.start_tower()
        for number in range(2):
            cluster.store(number)
        for _ in range(2):
            with Producer(tower, linger_ms=0, min_acks=2, spool=tmp_path / "spool") as producer:
                for number in range(10):
                    send(history, producer, "p", len(history) + number)
        consumer = cluster.consumer("orders")
        history.record(Began(now_ms(), "c", ("orders",), True))
        for _ in range(20):
            record = consumer.poll(120)
            partition = Partition(record.topic, record.address)
            history.record(Polled(now_ms(), "c", partition, record.sequence, (record.value,)))
        read_stores(history, queries)
    assert check(history) == []
    assert vacuous(history, acknowledged_min=20, read_min=60) == []
    history.save(tmp_path / "history.jsonl")
    kept = list(History.load(tmp_path / "history.jsonl"))
    assert check(History(kept)) == []
    last = max(index for index, event in enumerate(kept) if isinstance(event, Polled))
    del kept[last]
    assert [anomaly.name.value for anomaly in check(History(kept))] == ["I4 unseen"]
