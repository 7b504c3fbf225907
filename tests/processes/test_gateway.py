"""Gateways in processes of their own, before real stores, and Kafka's real clients."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import threading
import time
from contextlib import suppress
from functools import partial

import confluent_kafka
import kafka
import pytest
from confluent_kafka.admin import AdminClient, NewTopic

from tests.support.small_cluster import SmallCluster

pytestmark = [pytest.mark.net, pytest.mark.slow]

WAIT_S = 60
TAKEOVER_S = 5.0


class KafkaCluster(SmallCluster):
    """A tower and stores in this process, gateways in others."""

    def __init__(self, *args, until, **settings):
        super().__init__(*args, **settings)
        self.gateways = {}
        self._until = until

    def gateway(self, port):
        stores = [option for one in self.queries for option in ("--store", one)]
        listen = f"127.0.0.1:{port}"
        command = [sys.executable, "-m", "dafka", "gateway", "--cluster", "c1", *stores]
        self.gateways[listen] = subprocess.Popen(
            [*command, "--tower", self.endpoint, "--listen", listen],
            env=os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)},
        )
        self._until(lambda: listens(port), WAIT_S)
        return listen

    def kill(self, listen):
        gateway = self.gateways.pop(listen)
        gateway.send_signal(signal.SIGKILL)
        gateway.wait()

    def close(self):
        for gateway in self.gateways.values():
            gateway.terminate()
        for gateway in self.gateways.values():
            assert gateway.wait(20) == 0
        super().close()


def listens(port):
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


@pytest.fixture
def make_cluster(tmp_path, free_ports, reopened, until):
    made = []

    def make(stores=1):
        cluster = KafkaCluster(tmp_path, free_ports, reopened, until=until, stores=stores)
        made.append(cluster)
        cluster.start_tower()
        for number in range(stores):
            cluster.store(number)
        return cluster

    yield make
    for cluster in made:
        cluster.close()


def create(endpoint, topic, partitions=1):
    admin = AdminClient({"bootstrap.servers": endpoint})
    made = admin.create_topics([NewTopic(topic, partitions, 1)], operation_timeout=WAIT_S)
    made[topic].result(WAIT_S)


def owner_of(endpoint, topic, number=0):
    """Where the gateway listens that owns a partition; empty while none does."""
    found = AdminClient({"bootstrap.servers": endpoint}).list_topics(topic, timeout=WAIT_S)
    owner = found.brokers.get(found.topics[topic].partitions[number].leader)
    return f"{owner.host}:{owner.port}" if owner else ""


def consume(endpoint, topic, records, number=0):
    """Offsets and values from the beginning on, until there are so many."""
    consumer = confluent_kafka.Consumer(
        {"bootstrap.servers": endpoint, "group.id": "none", "enable.auto.commit": False}
    )
    place = confluent_kafka.TopicPartition(topic, number, confluent_kafka.OFFSET_BEGINNING)
    consumer.assign([place])
    found, deadline = [], time.monotonic() + WAIT_S
    while len(found) < records:
        assert time.monotonic() < deadline, f"{len(found)} of {records} records"
        message = consumer.poll(0.5)
        if message is not None and not message.error():
            found.append((message.offset(), message.value()))
    consumer.close()
    return found


def test_kafka_clients_and_dafka_nodes_read_each_other(make_cluster, free_ports):
    cluster = make_cluster()
    endpoint = cluster.gateway(free_ports(1))
    create(endpoint, "orders")
    native = cluster.consumer("orders")
    client = kafka.KafkaProducer(bootstrap_servers=endpoint)
    assert client.send("orders", b"from kafka").get(WAIT_S).offset == 0
    client.close()
    assert native.poll(WAIT_S).value == b"from kafka"
    producer = cluster.producer()
    producer.send("orders", b"from dafka")
    producer.flush(WAIT_S)
    assert consume(endpoint, "orders", 2) == [(0, b"from kafka"), (1, b"from dafka")]


class Producing(threading.Thread):
    """An idempotent client that goes on until it is told to stop, and when each answer came."""

    def __init__(self, bootstrap, topic):
        super().__init__(name="producing")
        self.topic = topic
        self.sent = 0
        self.placed = {}
        self.answered_s = []
        self.failed = []
        self._stopping = threading.Event()
        self._producer = confluent_kafka.Producer(
            {"bootstrap.servers": bootstrap, "enable.idempotence": True, "linger.ms": 1}
        )

    def run(self):
        while not self._stopping.wait(0.002):
            with suppress(BufferError):  # nothing is answered for so long
                self._producer.produce(
                    self.topic, b"%d" % self.sent, partition=0, on_delivery=self._delivered
                )
                self.sent += 1
            self._producer.poll(0)
        assert self._producer.flush(WAIT_S) == 0

    def _delivered(self, error, message):
        if error:
            self.failed.append(error)
        else:
            self.placed[int(message.value())] = message.offset()
            self.answered_s.append(time.monotonic())

    def stop(self):
        self._stopping.set()
        self.join()
        assert not self.failed
        assert len(self.placed) == self.sent

    def silent_s(self):
        """The longest time without an answer."""
        return max(b - a for a, b in zip(self.answered_s, self.answered_s[1:], strict=False))


@pytest.mark.parametrize("stores", [1, 3])
def test_another_gateway_goes_on_where_the_owner_was_killed(
    make_cluster, free_ports, until, stores
):
    cluster = make_cluster(stores)
    first = free_ports(2)
    endpoints = [cluster.gateway(first), cluster.gateway(first + 1)]
    bootstrap = ",".join(endpoints)
    create(bootstrap, "orders")
    producing = Producing(bootstrap, "orders")
    producing.start()
    until(lambda: len(producing.placed) > 500, WAIT_S)
    owner = until(partial(owner_of, bootstrap, "orders"), WAIT_S)
    cluster.kill(owner)
    killed = len(producing.placed)
    until(lambda: len(producing.placed) > killed + 500, WAIT_S)
    producing.stop()
    (other,) = set(endpoints) - {owner}
    there = consume(other, "orders", producing.sent)
    assert [int(value) for _, value in there] == list(range(producing.sent))
    assert {int(value): offset for offset, value in there} == producing.placed
    assert producing.silent_s() < 6 * TAKEOVER_S, "on a machine with much else to do"
