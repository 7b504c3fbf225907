from __future__ import annotations

import pytest
from prometheus_client import REGISTRY

from dafka.process import metrics

pytestmark = pytest.mark.net


def value(name, **labels):
    return REGISTRY.get_sample_value(name, labels) or 0.0


def counted(role, direction):
    labels = {"role": role, "direction": direction}
    names = ("dafka_batches_total", "dafka_records_total", "dafka_bytes_total")
    return [value(name, **labels) for name in names]


def test_a_batch_is_counted_with_its_records_and_bytes():
    before = counted("test", "in")
    taken_in, sent_out = metrics.traffic("test", "in"), metrics.traffic("test", "out")
    taken_in.add(3, 100)
    taken_in.add(1, 50)
    sent_out.add(1, 1)
    assert counted("test", "in") == before
    for _ in range(2):  # nothing is told twice
        taken_in.tell()
        sent_out.tell()
        after = counted("test", "in")
        assert [now - then for now, then in zip(after, before, strict=True)] == [2, 4, 150]


def test_producer_store_and_consumer_count_what_passes_through_them(stored, take, until):
    ends = [("producer", "out"), ("store", "in")]
    before = [counted(*end) for end in ends]
    producer = stored.producer(linger_ms=60_000)
    for _ in range(10):
        producer.send("orders", b"x" * 10)
    producer.flush(10)
    # A batch is in the metrics when the turn in which it passed through has ended.
    for end, (batches, records, size) in zip(ends, before, strict=True):
        until(lambda end=end, then=records: counted(*end)[1] >= then + 10)
        assert counted(*end)[0] > batches
        assert counted(*end)[2] >= size + 100
    batches, records, _ = counted("consumer", "in")
    take(stored.consumer("orders"), 10)
    until(lambda: counted("consumer", "in")[1] >= records + 10)
    assert counted("consumer", "in")[0] > batches


def test_who_is_closed_leaves_no_series_behind(cluster, until):
    store, producer = cluster.store(), cluster.producer()
    producer.send("orders", b"x")
    producer.flush(10)
    series = (
        ("dafka_peers", {"role": "producer", "address": producer.address}),
        ("dafka_peers", {"role": "store", "address": store.address}),
        ("dafka_store_partitions", {"address": store.address}),
        ("dafka_store_head_records", {"address": store.address}),
        ("dafka_store_bytes", {"address": store.address}),
    )
    for name, labels in series:
        until(lambda name=name, labels=labels: value(name, **labels) >= 1)
    producer.close()
    store.close()
    assert [REGISTRY.get_sample_value(*one) for one in series] == [None] * len(series)


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
