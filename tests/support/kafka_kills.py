"""A cluster of which each store and gateway is a process that may be killed, and what goes on."""

from __future__ import annotations

import itertools
import os
import signal
import subprocess
import sys
import threading
import time
from collections import defaultdict
from contextlib import ExitStack, suppress

import confluent_kafka
import kafka
from kafka.net.inet import KafkaNetSocket

from dafka.cluster import Cluster
from dafka.errors import QueryError
from dafka.gateway.broker import KafkaPartition
from dafka.node.ledgers import read_all_ledgers
from dafka.node.tower import Tower
from dafka.query.client import StoreClient
from tests.support.gateway_processes import WAIT_S, GatewayProcesses

PAUSE_S = 0.004
"""Between two records of a producer."""

LINES_NEAR = 30
"""Offsets before and behind one whose lines are told."""


class KillableCluster:
    """A tower in this process; stores with their disks, and gateways, in processes of their own."""

    def __init__(self, directory, free_ports, reopened, until, stores=3, gateways=2):
        first = free_ports(2 + stores + gateways)
        self.tower = f"tcp://127.0.0.1:{first}"
        self.stores = [f"tcp://127.0.0.1:{first + 2 + number}" for number in range(stores)]
        self._ports = range(first + 2 + stores, first + 2 + stores + gateways)
        self.endpoints = [f"127.0.0.1:{port}" for port in self._ports]
        self._directory = directory
        self._until = until
        self._running = {}
        with ExitStack() as opened:
            opened.enter_context(reopened(lambda: Tower(Cluster(self.tower))))
            self._gateways = GatewayProcesses("c1", self.tower, self.stores, until)
            opened.callback(self._close_stores)
            opened.callback(self._gateways.close)
            for store in self.stores:
                self.start_store(store)
            for endpoint in self.endpoints:
                self.start_gateway(endpoint)
            self._stack = opened.pop_all()
        self.kill_gateway = self._gateways.kill

    def start_gateway(self, endpoint):
        self._gateways.start(self._ports[self.endpoints.index(endpoint)])

    def start_store(self, store):
        """Start one, on the disk that it had before."""
        data = self._directory / f"store-{self.stores.index(store)}"
        command = [sys.executable, "-m", "dafka", "store", "--tower", self.tower]
        command += ["--query", store, "--data", str(data)]
        variables = os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)}
        self._running[store] = subprocess.Popen(command, env=variables)
        self._until(lambda: answers(store), WAIT_S)

    def kill_store(self, store):
        killed = self._running.pop(store)
        killed.send_signal(signal.SIGKILL)
        killed.wait()

    def close(self):
        self._stack.close()

    def _close_stores(self):
        for store in self._running.values():
            store.terminate()
        for store in self._running.values():
            assert store.wait(120) == 0


def answers(store):
    with suppress(QueryError), StoreClient(store, timeout_ms=1_000) as client:
        return client.health() is not None
    return False


class NumberedProducer(threading.Thread):
    """An idempotent client that sends numbered records to each partition in turn, until stopped.

    Attributes:
        sent: How many records the client was given.
        placed: Of each that is acknowledged, by its value, the partition, and the offset if the
            client knows it.
        answered_s: When each acknowledgement of a partition came.
        failed: What the client gave up, and why.
    """

    def __init__(self, name, bootstrap, topic, partitions):
        super().__init__(name=name, daemon=True)
        self.sent = 0
        self.placed = {}
        self.answered_s = defaultdict(list)
        self.failed = []
        self._topic = topic
        self._partitions = partitions
        self._stopping = threading.Event()
        self._open(bootstrap)

    def run(self):
        while not self._stopping.wait(PAUSE_S):
            value = f"{self.name} {self.sent}".encode()
            self._send(value, self.sent % self._partitions)
            self.sent += 1
        self._finish()

    def stop(self):
        self._stopping.set()
        self.join(2 * WAIT_S)
        assert not self.is_alive()
        assert not self.failed
        assert len(self.placed) == self.sent

    def silent_s(self, since_s, until_s):
        """The longest time without an acknowledgement of a partition that began in between."""
        return max(
            later - earlier
            for times in self.answered_s.values()
            for earlier, later in itertools.pairwise(times)
            if since_s <= later and earlier < until_s
        )

    def _acknowledged(self, value, partition, offset):
        self.placed[value] = partition, offset
        self.answered_s[partition].append(time.monotonic())


class LibrdkafkaProducer(NumberedProducer):
    def _open(self, bootstrap):
        settings = {"bootstrap.servers": bootstrap, "enable.idempotence": True, "acks": "all"}
        self._producer = confluent_kafka.Producer(settings)

    def _send(self, value, partition):
        def told(error, message):
            if error:
                self.failed.append((value, error))
            else:
                self._acknowledged(value, message.partition(), message.offset())

        self._producer.produce(self._topic, value, partition=partition, on_delivery=told)
        self._producer.poll(0)

    def _finish(self):
        self._producer.flush(WAIT_S)


class _ClosedSocket(KafkaNetSocket):
    """No proxy; but kafka-python would leave each socket open whose connection was refused."""

    SCHEMES = ("direct",)

    async def sock_connect(self, net, sock, *place, **settings):
        try:
            return await super().sock_connect(net, sock, *place, **settings)
        except BaseException:
            sock.close()
            raise


class KafkaPythonProducer(NumberedProducer):
    def _open(self, bootstrap):
        self._producer = kafka.KafkaProducer(
            bootstrap_servers=bootstrap,
            enable_idempotence=True,
            acks="all",
            proxy_url="direct://nobody",
            metadata_max_age_ms=1_000,  # else the gateway that is killed may be all it knows
        )

    def _send(self, value, partition):
        def told(placed):
            self._acknowledged(value, placed.partition, placed.offset)

        sent = self._producer.send(self._topic, value, partition=partition)
        sent.add_callback(told)
        sent.add_errback(lambda error: self.failed.append((value, error)))

    def _finish(self):
        self._producer.flush(WAIT_S)
        self._producer.close()


class Watcher(threading.Thread):
    """A consumer that reads on, and notes what it was shown where, and what it was shown anew.

    Attributes:
        shown: Values, by partition and offset.
        changed: Places with what was shown there before, and then.
        lost: What it was told where its place was said not to be there.
    """

    def __init__(self, bootstrap, topic, partitions):
        super().__init__(name="watcher", daemon=True)
        self.shown = {}
        self.changed = []
        self.lost = []
        self._stopping = threading.Event()
        self._consumer = reader(bootstrap, topic, partitions)

    def run(self):
        while not self._stopping.is_set():
            message = self._consumer.poll(0.1)
            if message is None:
                continue
            if message.error():
                if message.error().code() == confluent_kafka.KafkaError._AUTO_OFFSET_RESET:
                    self.lost.append(message.error().str())
                continue
            place, value = (message.partition(), message.offset()), message.value()
            if self.shown.setdefault(place, value) != value:
                self.changed.append((place, self.shown[place], value))
        self._consumer.close()

    def stop(self):
        self._stopping.set()
        self.join(WAIT_S)
        assert not self.is_alive()


def reader(bootstrap, topic, partitions):
    """A consumer without a group, at the beginning of each partition."""
    settings = {
        "bootstrap.servers": bootstrap,
        "group.id": "none",
        "enable.auto.commit": False,
        "enable.partition.eof": True,
        "auto.offset.reset": "error",
    }
    consumer = confluent_kafka.Consumer(settings)
    begin = confluent_kafka.OFFSET_BEGINNING
    consumer.assign(
        [confluent_kafka.TopicPartition(topic, number, begin) for number in range(partitions)]
    )
    return consumer


def read_all(bootstrap, topic, partitions, records):
    """Values by partition and offset: all there are, and so many at least."""
    consumer = reader(bootstrap, topic, partitions)
    found, ended = {}, set()
    deadline_s = time.monotonic() + WAIT_S
    while len(found) < records or len(ended) < partitions:
        assert time.monotonic() < deadline_s, f"{len(found)} of {records} records"
        message = consumer.poll(0.5)
        if message is None:
            continue
        if message.error():
            assert message.error().code() == confluent_kafka.KafkaError._PARTITION_EOF
            ended.add(message.partition())
            continue
        place = message.partition(), message.offset()
        assert place not in found
        found[place] = message.value()
        ended.discard(message.partition())
    consumer.close()
    return found


def numbers_of(values):
    """The numbers that each producer has given to records, in their order."""
    found = defaultdict(list)
    for value in values:
        name, number = value.decode().split()
        found[name].append(int(number))
    return found


def by_partition(records):
    """Of places and values, the values of each partition, in the order of their offsets."""
    return {
        number: [value for _, value in group]
        for number, group in itertools.groupby(sorted(records.items()), lambda one: one[0][0])
    }


def lines_about(stores, topic, places):
    """What stores have of the ledgers of partitions around some offsets, for who looks for why."""
    found = []
    for store in stores:
        with StoreClient(store) as client:
            ledgers = read_all_ledgers(client, topic)
        for partition, offset in places:
            for chain in ledgers[KafkaPartition(topic, partition)].lines.values():
                near = (line for line in chain if abs(line.offset - offset) <= LINES_NEAR)
                found += [f"{store} {line}" for line in near]
    return "\n".join(found)
