"""Kafka clients at gateways that a topology declares: what one cluster is given the others have."""

from __future__ import annotations

import pytest
import yaml
from confluent_kafka import OFFSET_BEGINNING, Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

pytestmark = [pytest.mark.net, pytest.mark.slow]

WAIT_S = 120
PARTITIONS = 3


@pytest.fixture
def listeners(topology_file):
    """Where the gateways listen, one on each of two clusters under one branch."""
    declared = yaml.safe_load(topology_file.read_text())
    del declared["clusters"][2:]
    declared["tree"] = {"level": 1, "children": ["c1", "c2"]}
    listeners = []
    for cluster in declared["clusters"]:
        tower = int(cluster["towers"][0].rpartition(":")[2])
        listeners.append(f"127.0.0.1:{tower + 4}")
        cluster["gateways"] = [{"listen": listeners[-1]}]
    topology_file.write_text(yaml.safe_dump(declared))
    return listeners


def partitions_at(listener, topic):
    found = AdminClient({"bootstrap.servers": listener}).list_topics(timeout=WAIT_S)
    return len(found.topics[topic].partitions) if topic in found.topics else 0


def read(listener, topic, count):
    """Values by partition, in the order of their offsets, until there are so many."""
    consumer = Consumer(
        {"bootstrap.servers": listener, "group.id": "none", "enable.auto.commit": False}
    )
    consumer.assign([TopicPartition(topic, n, OFFSET_BEGINNING) for n in range(PARTITIONS)])
    found = {number: [] for number in range(PARTITIONS)}
    while sum(map(len, found.values())) < count:
        message = consumer.poll(WAIT_S)
        assert message is not None, f"{found} of {count} records"
        if not message.error():
            found[message.partition()].append(message.value())
    consumer.close()
    return found


def test_a_topic_and_its_records_are_on_every_cluster_in_the_same_partitions(
    listeners, up, wait_until
):
    here, there = listeners
    admin = AdminClient({"bootstrap.servers": here})
    made = admin.create_topics([NewTopic("orders", PARTITIONS, 1)], operation_timeout=WAIT_S)
    made["orders"].result(WAIT_S)
    producer = Producer({"bootstrap.servers": here, "enable.idempotence": True})
    for number in range(300):
        producer.produce("orders", b"%d" % number, partition=number % PARTITIONS)
    assert producer.flush(WAIT_S) == 0
    wait_until(lambda: partitions_at(there, "orders") == PARTITIONS, "the topic is there, too")
    expected = {
        part: [b"%d" % number for number in range(part, 300, PARTITIONS)]
        for part in range(PARTITIONS)
    }
    assert read(there, "orders", 300) == expected
    assert read(here, "orders", 300) == expected
