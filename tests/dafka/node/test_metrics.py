from __future__ import annotations

import pytest
from prometheus_client import REGISTRY

from dafka.node import metrics

pytestmark = pytest.mark.net


def value(name, **labels):
    return REGISTRY.get_sample_value(name, labels) or 0.0


def counted(role, direction):
    labels = {"role": role, "direction": direction}
    names = ("dafka_batches_total", "dafka_records_total", "dafka_bytes_total")
    return [value(name, **labels) for name in names]


def test_a_batch_is_counted_with_its_records_and_bytes():
    before = counted("test", "in")
    metrics.count_batch("test", "in", 3, 100)
    metrics.count_batch("test", "in", 1, 50)
    metrics.count_batch("test", "out", 1, 1)
    after = counted("test", "in")
    assert [now - then for now, then in zip(after, before, strict=True)] == [2, 4, 150]


def test_producer_store_and_consumer_count_what_passes_through_them(stored, take, until):
    ends = [("producer", "out"), ("store", "in")]
    before = [counted(*end) for end in ends]
    producer = stored.producer(linger_ms=60_000)
    for _ in range(10):
        producer.send("orders", b"x" * 10)
    producer.flush(10)
    for end, then in zip(ends, before, strict=True):
        batches, records, size = (a - b for a, b in zip(counted(*end), then, strict=True))
        assert batches >= 1
        assert records >= 10 * batches
        assert size >= 100 * batches
    then = counted("consumer", "in")
    take(stored.consumer("orders"), 10)
    batches, records, _ = (a - b for a, b in zip(counted("consumer", "in"), then, strict=True))
    assert (batches, records) >= (1, 10)


def test_a_store_tells_its_partitions_and_records(cluster, until):
    address = cluster.store().address
    producer = cluster.producer()
    for number in range(10):
        producer.send(f"topic-{number % 2}", b"x")
    producer.flush(10)
    assert value("dafka_store_partitions", address=address) == 2
    assert value("dafka_store_head_records", address=address) == 10
    until(lambda: value("dafka_peers", role="store", address=address) >= 1)
    assert value("dafka_store_append_seconds_count") >= 1
