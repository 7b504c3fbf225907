"""How the nodes of a cluster find each other, keep each other, and let each other go."""

from __future__ import annotations

import logging
import threading
import time
from contextlib import ExitStack
from pathlib import Path

import pytest

from dafka.errors import MisuseError
from dafka.model import TowerEndpoints
from dafka.node import metrics, node
from dafka.node.consumer import Consumer
from dafka.node.producer import Producer
from dafka.node.store import Store
from dafka.node.tower import Tower
from dafka.protocol import presence
from dafka.protocol.presence import PresenceSettings
from dafka.storage.lmdb_log import Durability
from dafka.transport import sockets
from dafka.wire.beacon import TowerBeacon, encode_tower_beacon

pytestmark = pytest.mark.net

TIMEOUT_MS = 1_000
REUNION_MS = 1_500


@pytest.fixture(autouse=True)
def hasty(monkeypatch):
    """Nodes in which what takes seconds takes tenths of them."""
    settings = PresenceSettings(
        beacon_interval_ms=50, peer_timeout_ms=TIMEOUT_MS, reunion_ms=REUNION_MS
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


def endpoints(node):
    """What a node is connected to."""
    (mesh,) = node._node._meshes.values()
    return sorted(mesh._connected)


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
    time.sleep(1.5 * TIMEOUT_MS / 1_000)  # long enough to say it again
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
    assert [one[:16] for one in endpoints(store)] == ["tcp://127.0.0.1:"]


def test_a_node_is_reached_where_it_says_others_reach_it(cluster, free_ports, until):
    # Bound at one port, forwarded to from another, as out of a container.
    cluster.tower()
    inside, outside = free_ports(1), free_ports(1)
    listener = cluster.consumer(cluster.towers[:1])
    cluster.producer(
        cluster.towers[:1], host=f"127.0.0.1:{inside}", advertise=f"localhost:{outside}"
    )
    until(lambda: endpoints(listener) == [f"tcp://localhost:{outside}"])


# Towers come and go, peers stay.


def all_say(caplog, text, count, until):
    until(lambda: len(said(caplog, text)) == count)
    caplog.clear()


def test_data_goes_on_without_a_tower_for_longer_than_peers_may_be_silent(cluster, caplog, until):
    only = cluster.towers[:1]
    tower = cluster.tower()
    cluster.store(only)
    producer, consumer = cluster.producer(only), cluster.consumer(only)
    send(producer, 1)
    for number in (2, 4):
        until(lambda: peers(producer, consumer) == [2, 2])
        tower.close()
        all_say(caplog, "tower is not heard", 3, until)
        time.sleep(1.5 * REUNION_MS / 1_000)
        send(producer, number)
        assert peers(producer, consumer) == [2, 2]
        tower = cluster.tower()
        all_say(caplog, "tower is heard", 3, until)
        send(producer, number + 1)
    assert values(consumer, 5) == [1, 2, 3, 4, 5]
    late = cluster.producer(only)
    send(late, 6)
    assert values(consumer, 1) == [6]


def test_a_step_of_the_wall_clock_changes_nothing(cluster, monkeypatch, caplog, until):
    only = cluster.towers[:1]
    cluster.tower()
    cluster.store(only)
    producer, consumer = cluster.producer(only), cluster.consumer(only)
    send(producer, 1)
    until(lambda: peers(producer, consumer) == [2, 2])
    left = metrics.PEERS_LEFT.labels("consumer")._value.get()
    for step_s in (86_400, -86_400):
        stepped = time.time_ns() + step_s * 10**9
        monkeypatch.setattr("time.time_ns", lambda now=stepped: now)
        monkeypatch.setattr("time.time", lambda now=stepped: now / 10**9)
        time.sleep(1.5 * TIMEOUT_MS / 1_000)
        assert peers(producer, consumer) == [2, 2]
    assert metrics.PEERS_LEFT.labels("consumer")._value.get() == left
    assert said(caplog, "tower is") == []


# Peers that are gone.


def open_files():
    return len(list(Path("/proc/self/fd").iterdir()))


def test_a_dead_peer_is_left_and_all_it_took_is_freed(cluster, until):
    only = cluster.towers[:1]
    cluster.tower()
    consumer = cluster.consumer(only)
    until(lambda: peers(consumer) == [0])
    left = metrics.PEERS_LEFT.labels("consumer")._value.get()
    before = open_files()
    dying = [cluster.producer(only) for _ in range(5)]
    until(lambda: peers(consumer) == [5])
    assert open_files() > before
    for one in dying:
        one._node.stop()
    until(lambda: (peers(consumer), endpoints(consumer)) == ([0], []))
    until(lambda: open_files() == before)
    assert metrics.PEERS_LEFT.labels("consumer")._value.get() == left + 5


# A node starts again where it was.


def test_a_producer_on_its_old_port_goes_on_as_itself_and_as_another(
    cluster, tmp_path, free_ports, until
):
    only = cluster.towers[:1]
    cluster.tower()
    cluster.store(only)
    consumer = cluster.consumer(only)
    place = f"127.0.0.1:{free_ports(1)}"
    addresses = set()
    for number in range(4):
        # The first two are one producer by their spool, the others are two more.
        spool = tmp_path / "spool" if number < 2 else None
        producer = cluster.producer(only, host=place, spool=spool)
        addresses.add(producer.address)
        send(producer, 2 * number, 2 * number + 1)
        producer.close()
        assert values(consumer, 2) == [2 * number, 2 * number + 1]
    assert len(addresses) == 3
    assert consumer.poll(0.2) is None
    until(lambda: peers(consumer) == [1])  # the store; of the producers nothing is left


def test_a_store_on_its_old_port_is_found_again_and_nothing_is_lost_or_doubled(
    cluster, free_ports, until
):
    only = cluster.towers[:1]
    cluster.tower()
    place = f"127.0.0.1:{free_ports(1)}"
    producer, consumer = cluster.producer(only), cluster.consumer(only)
    for number in range(3):
        store = cluster.store(only, host=place)
        send(producer, 2 * number)
        store.close()
        unstored = producer.send("orders", str(2 * number + 1).encode())
        assert not unstored.done()
    cluster.store(only, host=place)
    producer.flush(10)
    assert values(consumer, 6) == list(range(6))
    assert consumer.poll(0.2) is None
    assert f"tcp://{place}" in endpoints(consumer)
    until(lambda: peers(producer, consumer) == [2, 2])


def test_a_taken_port_is_refused_by_its_name(cluster, free_ports):
    place = f"127.0.0.1:{free_ports(1)}"
    cluster.producer(host=place)
    with pytest.raises(MisuseError, match=r"cannot bind a node at '127\.0\.0\.1:[0-9]+': Add"):
        Producer(cluster.towers, host=place)


# Towers that tell what is not so.


class StaleTower(threading.Thread):
    """Tells for ever of nodes that are gone."""

    def __init__(self, towers, gone):
        super().__init__(daemon=True)
        self._outbound = TowerEndpoints.parse(towers).outbound
        self._beacons = [encode_tower_beacon(TowerBeacon("AB" * 16, one)) for one in gone]
        self._stopping = threading.Event()
        self.rounds = 0

    def run(self):
        socket = sockets.publisher()
        sockets.bind(socket, self._outbound)
        while not self._stopping.wait(0.02):
            for frames in self._beacons:
                socket.send_multipart(frames)
            self.rounds += 1
        socket.close(0)

    def stop(self):
        self._stopping.set()
        self.join(5)


@pytest.fixture
def stale_tower(cluster):
    started = []

    def start(*gone):
        tower = StaleTower(cluster.towers[1], gone)
        tower.start()
        started.append(tower)
        return tower

    yield start
    for one in started:
        one.stop()


def test_a_node_that_is_told_of_though_gone_costs_one_endpoint_and_no_log(
    cluster, stale_tower, free_ports, caplog, until
):
    caplog.set_level(logging.INFO)
    cluster.tower(0)
    port = free_ports(1)
    consumer = cluster.consumer()
    stale = stale_tower(f"tcp://127.0.0.1:{port}")
    until(lambda: peers(consumer) == [1])
    until(lambda: said(caplog, "tower is not heard"))  # the stale one passes nothing on
    caplog.clear()
    seen, files = stale.rounds, open_files()
    until(lambda: stale.rounds > seen + 30)
    assert caplog.records == []
    assert peers(consumer) == [1]
    assert open_files() <= files + 1  # one more while it tries


def test_whoever_has_the_port_of_a_node_that_is_gone_is_used_and_never_oneself(
    cluster, stale_tower, free_ports, until
):
    cluster.tower(0)
    cluster.store()
    port = free_ports(1)
    stale_tower(f"tcp://127.0.0.1:{port}")
    consumer = cluster.consumer()
    until(lambda: peers(consumer) == [2])
    producer = cluster.producer(host=f"127.0.0.1:{port}")
    send(producer, 1, 2, 3)
    assert values(consumer, 3) == [1, 2, 3]
    until(lambda: peers(producer, consumer) == [2, 2])
    assert f"tcp://127.0.0.1:{port}" not in endpoints(producer)


def test_a_tower_that_tells_of_ever_more_nodes_fills_a_bounded_table(
    cluster, stale_tower, free_ports, monkeypatch, until
):
    monkeypatch.setattr(presence, "PEERS_MAX", 20)
    first = free_ports(60)
    consumer = cluster.consumer()
    dropped = metrics.DROPPED.labels("consumer", "too many peers")._value
    stale = stale_tower(*(f"tcp://127.0.0.1:{first + number}" for number in range(60)))
    until(lambda: dropped.get() > 100)
    assert peers(consumer) == [20]
    stale.stop()
    cluster.tower(0)
    until(lambda: peers(consumer) == [0])
