"""How the nodes of a cluster find each other, keep each other, and let each other go."""

from __future__ import annotations

import logging
import time
from contextlib import ExitStack

import pytest

from dafka.node import node
from dafka.node.consumer import Consumer
from dafka.node.producer import Producer
from dafka.node.store import Store
from dafka.node.tower import Tower
from dafka.protocol.presence import PresenceSettings
from dafka.storage.lmdb_log import Durability

pytestmark = pytest.mark.net

TIMEOUT_MS = 400


@pytest.fixture(autouse=True)
def hasty(monkeypatch):
    """Nodes in which what takes seconds takes tenths of them."""
    settings = PresenceSettings(
        beacon_interval_ms=50, peer_timeout_ms=TIMEOUT_MS, reunion_ms=10 * TIMEOUT_MS
    )
    monkeypatch.setattr(node, "PRESENCE", settings)


class Cluster:
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

    def store(self, towers=None, **settings):
        settings = {"query": self.query, "host": self.host, "durability": Durability.OS} | settings
        data = self._directory / "store"
        return self._stack.enter_context(
            self._reopened(lambda: Store(data, towers or self.towers, **settings))
        )

    def producer(self, towers=None, **settings):
        settings = {"host": self.host, "linger_ms": 0} | settings
        producer = self._reopened(lambda: Producer(towers or self.towers, **settings))
        self._stack.callback(producer._node.stop)  # a test may leave records that nobody stored
        return producer

    def consumer(self, towers=None, **settings):
        settings = {"host": self.host} | settings
        return self._stack.enter_context(Consumer(towers or self.towers, "orders", **settings))

    def close(self):
        self._stack.close()


@pytest.fixture
def cluster(tmp_path, free_ports, reopened):
    cluster = Cluster(tmp_path, free_ports, reopened)
    yield cluster
    cluster.close()


def peers(*nodes):
    return [one._node.peers(None) for one in nodes]


def send(producer, *numbers):
    for number in numbers:
        producer.send("orders", str(number).encode())
    producer.flush(10)


def values(consumer, count, seconds=10.0):
    """The numbers of the next records."""
    deadline = time.monotonic() + seconds
    found = []
    while len(found) < count:
        record = consumer.poll(max(0.0, deadline - time.monotonic()))
        assert record is not None, f"{len(found)} of {count} records within {seconds} s"
        found.append(int(record.value))
    return found


def said(caplog, text):
    return [one for one in caplog.records if one.getMessage().startswith(text)]


# A node without a tower.


def test_a_node_without_a_tower_says_so_once_and_when_it_is_found(cluster, caplog, until):
    caplog.set_level(logging.INFO)
    producer = cluster.producer(cluster.towers[:1])
    (warning,) = until(lambda: said(caplog, "tower is not heard"))
    assert warning.levelname == "WARNING"
    assert (warning.role, warning.tower) == ("producer", cluster.towers[0])
    assert "start it or correct the endpoint" in warning.getMessage()
    time.sleep(3 * TIMEOUT_MS / 1_000)  # long enough to say it again
    assert len(said(caplog, "tower is not heard")) == 1
    cluster.tower()
    (found,) = until(lambda: said(caplog, "tower is heard"))
    assert found.tower == cluster.towers[0]
    cluster.store(cluster.towers[:1])
    send(producer, 1)
    assert len(said(caplog, "tower is not heard")) == 1


# Several towers.


def test_nodes_at_different_towers_find_each_other_through_one_they_share(cluster, until):
    for number in (0, 1):
        cluster.tower(number)
    one, other = cluster.producer(cluster.towers[:1]), cluster.producer(cluster.towers[1:])
    both = cluster.producer()
    until(lambda: peers(one, other, both) == [1, 1, 2])


def test_with_two_towers_the_death_of_one_stops_nothing(cluster, caplog, until):
    first, _ = cluster.tower(0), cluster.tower(1)
    cluster.store()
    producer, consumer = cluster.producer(), cluster.consumer()
    send(producer, 1)
    assert values(consumer, 1) == [1]
    first.close()
    until(lambda: len(said(caplog, "tower is not heard")) == 3)  # each node says so
    assert all("through the others" in one.getMessage() for one in said(caplog, "tower is not"))
    send(producer, 2)
    late = cluster.producer()
    send(late, 3)
    assert values(consumer, 2) == [2, 3]
    assert peers(producer, consumer) == [3, 3]


def test_a_dead_tower_in_the_list_keeps_nobody_from_starting(cluster, until):
    cluster.tower(1)
    cluster.store()
    producer, consumer = cluster.producer(), cluster.consumer()
    send(producer, 1)
    assert values(consumer, 1) == [1]


# Where a node is reached.


def test_a_node_at_every_interface_is_reached_where_its_beacons_come_from(cluster, until):
    cluster.tower()
    store = cluster.store(cluster.towers[:1], host="*", insecure=True)
    producer = cluster.producer(cluster.towers[:1], host="0.0.0.0", insecure=True)
    send(producer, 1)
    until(lambda: peers(store, producer) == [1, 1])
    (mesh,) = store._node._meshes.values()
    (endpoint,) = mesh._connected
    assert endpoint.startswith("tcp://127.0.0.1:")
    assert mesh._presence._beacon.host == ""


def test_a_node_is_reached_where_it_says_others_reach_it(cluster, free_ports, until):
    # Bound at one port, forwarded to from another, as out of a container.
    cluster.tower()
    inside, outside = free_ports(1), free_ports(1)
    listener = cluster.consumer(cluster.towers[:1])
    cluster.producer(
        cluster.towers[:1], host=f"127.0.0.1:{inside}", advertise=f"localhost:{outside}"
    )
    (mesh,) = listener._node._meshes.values()
    until(lambda: list(mesh._connected) == [f"tcp://localhost:{outside}"])
