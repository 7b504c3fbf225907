"""Gateways in processes of their own, and clients that they serve."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import threading
import time
from contextlib import suppress

import confluent_kafka
from confluent_kafka.admin import AdminClient, NewTopic

from tests.support.small_cluster import SmallCluster

WAIT_S = 120
"""For what takes a second or two: a machine on which CI runs may be busy with much else."""


class GatewayProcesses:
    """Gateways of one cluster, each in a process."""

    def __init__(self, name, tower, stores, until):
        stores = [option for one in stores for option in ("--store", one)]
        self._command = [sys.executable, "-m", "dafka", "gateway", "--cluster", name, *stores]
        self._command += ["--tower", tower]
        self._until = until
        self.running = {}

    def start(self, port, *options):
        """Start one; where it listens."""
        listen = f"127.0.0.1:{port}"
        self.running[listen] = subprocess.Popen(
            [*self._command, "--listen", listen, *options],
            env=os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)},
        )
        self._until(lambda: listens(port), WAIT_S)
        return listen

    def kill(self, listen):
        gateway = self.running.pop(listen)
        gateway.send_signal(signal.SIGKILL)
        gateway.wait()

    def pid(self, listen):
        return self.running[listen].pid

    def close(self):
        for gateway in self.running.values():
            gateway.terminate()
        for gateway in self.running.values():
            assert gateway.wait(120) == 0


class KafkaCluster(SmallCluster):
    """A tower and stores in this process, gateways in others."""

    def __init__(self, *args, until, **settings):
        super().__init__(*args, **settings)
        self._gateways = GatewayProcesses("c1", self.endpoint, self.queries, until)
        self.gateway = self._gateways.start
        self.kill = self._gateways.kill
        self.pid = self._gateways.pid

    def close(self):
        self._gateways.close()
        super().close()


def listens(port):
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


def create(endpoint, topic, partitions=1):
    admin = AdminClient({"bootstrap.servers": endpoint})
    made = admin.create_topics([NewTopic(topic, partitions, 1)], operation_timeout=WAIT_S)
    made[topic].result(WAIT_S)


def owner_of(endpoint, topic, number=0):
    """Where the gateway listens that owns a partition; empty while none does."""
    found = AdminClient({"bootstrap.servers": endpoint}).list_topics(topic, timeout=WAIT_S)
    owner = found.brokers.get(found.topics[topic].partitions[number].leader)
    return f"{owner.host}:{owner.port}" if owner else ""


class Producing(threading.Thread):
    """An idempotent client that goes on until it is told to stop, and when each answer came.

    Its records are numbers, from `first` on.
    """

    def __init__(self, bootstrap, topic, first=0):
        super().__init__(name="producing")
        self.topic = topic
        self.first = first
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
                value = b"%d" % (self.first + self.sent)
                self._producer.produce(self.topic, value, partition=0, on_delivery=self._delivered)
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


class GroupMember(threading.Thread):
    """A member of a Kafka group that commits after every few records, and notes what it is given.

    Attributes:
        read: Partition, offset and value of each record, in the order in which they came.
        again: Records that came though what lies behind them was committed, and acknowledged.
    """

    def __init__(self, bootstrap, topic, group="billing", records=20):
        super().__init__(name="member", daemon=True)
        self.read = []
        self.again = []
        self.committed = {}
        self.refused = 0
        self._records = records
        self._topic = topic
        self._stopping = threading.Event()
        self._consumer = confluent_kafka.Consumer(
            {
                "bootstrap.servers": bootstrap,
                "group.id": group,
                "enable.auto.commit": False,
                "auto.offset.reset": "earliest",
                "session.timeout.ms": 6_000,
            }
        )

    def run(self):
        self._consumer.subscribe([self._topic])
        since = 0
        while not self._stopping.is_set():
            message = self._consumer.poll(0.1)
            if message is not None and not message.error():
                place = message.partition(), message.offset()
                if place[1] < self.committed.get(place[0], 0):
                    self.again.append(place)
                self.read.append((*place, message.value()))
                since += 1
            if since >= self._records or (since and message is None):
                self._commit()
                since = 0
        self._consumer.close()

    def _commit(self):
        try:
            there = self._consumer.commit(asynchronous=False)
        except confluent_kafka.KafkaException:
            self.refused += 1  # the coordinator is gone, or others have the partitions by now
            return
        self.committed |= {one.partition: one.offset for one in there if not one.error}

    def values(self):
        return [value for _, _, value in self.read]

    def stop(self):
        self._stopping.set()
        self.join(WAIT_S)
        assert not self.is_alive()
