"""A small cluster in this process over real loopback sockets, and a look at its nodes."""

from __future__ import annotations

import time
from contextlib import ExitStack

from dafka.cluster import Cluster
from dafka.groups.membership import SESSION_MS_MAX
from dafka.node.consumer import Consumer
from dafka.node.producer import Producer
from dafka.node.store import Store
from dafka.node.tower import Tower
from dafka.protocol.presence import PRESENCE, PresenceSettings
from dafka.storage.lmdb_log import Durability

TIMEOUT_MS = 1_000
REUNION_MS = 1_500
FAST_PRESENCE = PresenceSettings(
    beacon_interval_ms=50, peer_timeout_ms=TIMEOUT_MS, reunion_ms=REUNION_MS
)
"""Of nodes that notice within a second what takes several otherwise."""


WAY = {"stores", "host", "advertise", "credentials", "insecure", "wire", "presence"}
"""Settings that are those of the cluster as a node enters it."""


class SmallCluster:
    """Towers and nodes as a test asks for them; whatever is still open is closed after it."""

    def __init__(
        self,
        directory,
        free_ports,
        reopened,
        *,
        host="127.0.0.1",
        towers=1,
        stores=1,
        presence=PRESENCE,
    ):
        self._directory = directory
        self._reopened = reopened
        self._stack = ExitStack()
        self._way = {"host": host, "presence": presence}
        first = free_ports(2 * towers + stores)
        self.towers = [f"tcp://{host}:{first + 2 * number}" for number in range(towers)]
        self.queries = [f"tcp://{host}:{first + 2 * towers + one}" for one in range(stores)]
        self.endpoint, self.query = self.towers[0], self.queries[0]
        self.tower = None
        self._begun = set()

    def start_tower(self, number=0, **settings):
        """Start one of its towers; the last one that was started is `tower`."""
        opened = self._reopened(lambda: Tower(Cluster(self.towers[number], **settings)))
        self.tower = self._stack.enter_context(opened)
        return self.tower

    def data(self, number=0):
        return self._directory / f"store-{number}"

    def place(self, towers, settings):
        """The cluster as a node with these settings enters it, and what else is set."""
        way = self._way | {name: settings[name] for name in WAY & settings.keys()}
        others = {name: value for name, value in settings.items() if name not in WAY}
        return Cluster(towers or self.towers, **way), others

    def store(self, number=0, *, towers=None, **settings):
        """One of its stores; started again, it goes on with the data of the one before.

        At its first start it is as if it had run for long: on a new disk a store takes no
        membership before a session is over (ADR 30), since it may have lost one.
        """
        place, others = self.place(towers, settings)
        others = {"query": self.queries[number], "durability": Durability.OS} | others
        data = self.data(number)
        opened = self._stack.enter_context(self._reopened(lambda: Store(data, place, **others)))
        if number not in self._begun:
            self._begun.add(number)
            opened._role._registers._opened_ms -= SESSION_MS_MAX
        return opened

    def producer(self, *, towers=None, **settings):
        place, others = self.place(towers, settings)
        producer = self._reopened(lambda: Producer(place, **others))
        # What a test has left unsent is lost: it was not what the test is about.
        self._stack.callback(producer._node.stop)
        return producer

    def consumer(self, *topics, towers=None, **settings):
        place, others = self.place(towers, settings)
        return self._stack.enter_context(Consumer(place, topics, **others))

    def close(self):
        self._stack.close()


def send(producer, *numbers):
    for number in numbers:
        producer.send("orders", str(number).encode())
    producer.flush(10)


def take(consumer, count, seconds=120.0):
    """The next records of a consumer; fails where they do not come."""
    deadline = time.monotonic() + seconds
    found = []
    while len(found) < count:
        record = consumer.poll(max(0.0, deadline - time.monotonic()))
        assert record is not None, f"{len(found)} of {count} records within {seconds} s"
        found.append(record)
    return found


def values(consumer, count, seconds=120.0):
    """The numbers of the next records."""
    return [int(record.value) for record in take(consumer, count, seconds)]


def peers(*nodes):
    return [one._node.peers(None) for one in nodes]


def endpoints(node):
    """What a node is connected to."""
    (mesh,) = node._node._meshes.values()
    return sorted(mesh._subscribers._connected)


def said(caplog, text):
    return [one for one in caplog.records if one.getMessage().startswith(text)]
