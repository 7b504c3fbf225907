"""A small cluster on one host, for tests of how nodes find, keep and leave each other."""

from __future__ import annotations

import time
from contextlib import ExitStack

from dafka.cluster import Cluster
from dafka.node.consumer import Consumer
from dafka.node.producer import Producer
from dafka.node.store import Store
from dafka.node.tower import Tower
from dafka.storage.lmdb_log import Durability

TIMEOUT_MS = 1_000
REUNION_MS = 1_500


OF_CLUSTERS = {"stores", "host", "advertise", "insecure", "wire"}


class SmallCluster:
    """Towers and nodes on one host, opened and closed as a test wants it."""

    def __init__(self, directory, free_ports, reopened, host="127.0.0.1", towers=2):
        self._directory = directory
        self._reopened = reopened
        self._stack = ExitStack()
        self.host = host
        first = free_ports(2 * towers + 1)
        self.towers = [f"tcp://{host}:{first + 2 * number}" for number in range(towers)]
        self.query = f"tcp://{host}:{first + 2 * towers}"

    def tower(self, number=0):
        return self._stack.enter_context(self._reopened(lambda: Tower(self.towers[number])))

    def place(self, towers, settings):
        """The cluster as a node with these settings enters it, and what else is set."""
        way = {"host": self.host} | {name: settings[name] for name in OF_CLUSTERS & settings.keys()}
        others = {name: value for name, value in settings.items() if name not in OF_CLUSTERS}
        return Cluster(towers or self.towers, **way), others

    def store(self, towers=None, **settings):
        place, others = self.place(towers, settings)
        others = {"query": self.query, "durability": Durability.OS} | others
        data = self._directory / "store"
        return self._stack.enter_context(self._reopened(lambda: Store(data, place, **others)))

    def producer(self, towers=None, **settings):
        place, others = self.place(towers, {"linger_ms": 0} | settings)
        producer = self._reopened(lambda: Producer(place, **others))
        self._stack.callback(producer._node.stop)  # a test may leave records that nobody stored
        return producer

    def consumer(self, towers=None, **settings):
        place, others = self.place(towers, settings)
        return self._stack.enter_context(Consumer(place, "orders", **others))

    def close(self):
        self._stack.close()


def peers(*nodes):
    return [one._node.peers(None) for one in nodes]


def send(producer, *numbers):
    for number in numbers:
        producer.send("orders", str(number).encode())
    producer.flush(10)


def values(consumer, count, seconds=30.0):
    """The numbers of the next records."""
    deadline = time.monotonic() + seconds
    found = []
    while len(found) < count:
        record = consumer.poll(max(0.0, deadline - time.monotonic()))
        assert record is not None, f"{len(found)} of {count} records within {seconds} s"
        found.append(int(record.value))
    return found


def endpoints(node):
    """What a node is connected to."""
    (mesh,) = node._node._meshes.values()
    return sorted(mesh._connected)


def said(caplog, text):
    return [one for one in caplog.records if one.getMessage().startswith(text)]
