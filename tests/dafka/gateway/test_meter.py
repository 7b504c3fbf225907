"""What a gateway tells of the partitions that it serves."""

from __future__ import annotations

import pytest
from prometheus_client import REGISTRY

from dafka.gateway.broker import KafkaPartition, Offsets
from dafka.gateway.meter import PartitionMeter
from tests.support.kafka_messages import client_batch

CLUSTER = "metered"


def told(name, topic="orders", partition="0", **more):
    labels = {"cluster": CLUSTER, "topic": topic, "partition": partition, **more}
    return REGISTRY.get_sample_value(f"dafka_gateway_partition_{name}", labels)


def place(number):
    return KafkaPartition("orders", number)


@pytest.fixture
def meter():
    there = PartitionMeter(CLUSTER, metered_max=2)
    yield there
    there.close()
    assert told("high_watermark") is None
    assert told("records_total", "", "", direction="in") is None


def test_what_there_is_and_what_clients_do(meter):
    meter.look({place(0): Offsets(2, 9)})
    assert (told("log_start"), told("high_watermark")) == (2, 9)
    batch = client_batch([b"a", b"b"])
    meter.produced(place(0), batch)
    meter.fetched(place(0), [batch, batch])
    meter.fetched(place(0), [])
    meter.look({place(0): Offsets(2, 9)})
    for direction, batches in (("in", 1), ("out", 2)):
        assert told("records_total", direction=direction) == 2 * batches
        assert told("batches_total", direction=direction) == batches
        assert told("bytes_total", direction=direction) == len(batch) * batches
    meter.look({place(0): Offsets(3, 11)})
    assert (told("log_start"), told("high_watermark")) == (3, 11)
    meter.look({})
    assert told("high_watermark") is None
    assert told("records_total", direction="in") is None


def test_others_than_the_first_are_counted_together(meter):
    shown = {place(number): Offsets(0, 1) for number in range(4)}
    meter.look(shown)
    batch = client_batch([b"a"])
    for number in range(4):
        meter.produced(place(number), batch)
    meter.look(shown)
    assert told("high_watermark", partition="1") == 1
    assert told("high_watermark", partition="2") is None
    assert told("records_total", partition="1", direction="in") == 1
    assert told("records_total", partition="2", direction="in") is None
    assert told("records_total", "", "", direction="in") == 2
    del shown[place(0)]
    meter.look(shown)  # one more has room now
    assert told("high_watermark", partition="2") == 1
