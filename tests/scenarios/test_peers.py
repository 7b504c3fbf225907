"""What becomes of peers: gone for good, back on the same port, or told of though gone."""

from __future__ import annotations

import logging
import threading
from pathlib import Path

import pytest

from dafka.cluster import Cluster
from dafka.errors import MisuseError
from dafka.model import TowerEndpoints, replace
from dafka.node.producer import Producer
from dafka.process import metrics
from dafka.transport import sockets
from dafka.wire.beacon import TowerBeacon, encode_tower_beacon
from tests.support.small_cluster import FAST_PRESENCE, endpoints, peers, said, send, values

pytestmark = pytest.mark.net


# Peers that are gone.


def open_files():
    return len(list(Path("/proc/self/fd").iterdir()))


def test_a_dead_peer_is_left_and_all_it_took_is_freed(cluster, until):
    only = cluster.towers[:1]
    cluster.start_tower()
    consumer = cluster.consumer("orders", towers=only)
    until(lambda: peers(consumer) == [0])
    left = metrics.PEERS_LEFT.labels("consumer")._value
    left_before = left.get()
    before = open_files()
    dying = [cluster.producer(towers=only) for _ in range(5)]
    until(lambda: peers(consumer) == [5])
    assert open_files() > before
    for one in dying:
        one._node.stop()
    until(lambda: (peers(consumer), endpoints(consumer)) == ([0], []))
    until(lambda: open_files() < before + len(dying))  # not one for each; others' come and go
    until(lambda: left.get() == left_before + 5)  # a peer is counted after it is left


# A node starts again where it was.


def test_a_producer_on_its_old_port_goes_on_as_itself_and_as_another(
    cluster, tmp_path, free_ports, until
):
    only = cluster.towers[:1]
    cluster.start_tower()
    cluster.store(towers=only)
    consumer = cluster.consumer("orders", towers=only)
    place = f"127.0.0.1:{free_ports(1)}"
    addresses = set()
    for number in range(4):
        # The first two are one producer by their spool, the others are two more.
        spool = tmp_path / "spool" if number < 2 else None
        producer = cluster.producer(towers=only, host=place, spool=spool)
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
    cluster.start_tower()
    place = f"127.0.0.1:{free_ports(1)}"
    producer, consumer = cluster.producer(towers=only), cluster.consumer("orders", towers=only)
    for number in range(3):
        store = cluster.store(towers=only, host=place)
        send(producer, 2 * number)
        store.close()
        unstored = producer.send("orders", str(2 * number + 1).encode())
        assert not unstored.done()
    cluster.store(towers=only, host=place)
    producer.flush(10)
    assert values(consumer, 6) == list(range(6))
    assert consumer.poll(0.2) is None
    assert f"tcp://{place}" in endpoints(consumer)
    until(lambda: peers(producer, consumer) == [2, 2])


def test_a_taken_port_is_refused_by_its_name(cluster, free_ports):
    place = f"127.0.0.1:{free_ports(1)}"
    cluster.producer(host=place)
    with pytest.raises(MisuseError, match=r"cannot bind a node at '127\.0\.0\.1:[0-9]+': Add"):
        Producer(Cluster(cluster.towers, host=place))


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
        self.join(60)


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
    cluster.start_tower(0)
    port = free_ports(1)
    consumer = cluster.consumer("orders")
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
    cluster.start_tower(0)
    cluster.store()
    port = free_ports(1)
    stale_tower(f"tcp://127.0.0.1:{port}")
    consumer = cluster.consumer("orders")
    until(lambda: peers(consumer) == [2])
    producer = cluster.producer(host=f"127.0.0.1:{port}")
    send(producer, 1, 2, 3)
    assert values(consumer, 3) == [1, 2, 3]
    until(lambda: peers(producer, consumer) == [2, 2])
    assert f"tcp://127.0.0.1:{port}" not in endpoints(producer)


def test_a_tower_that_tells_of_ever_more_nodes_fills_a_bounded_table(
    cluster, stale_tower, free_ports, until
):
    first = free_ports(60)
    consumer = cluster.consumer("orders", presence=replace(FAST_PRESENCE, peers_max=20))
    dropped = metrics.DROPPED.labels("consumer", "too many peers")._value
    stale = stale_tower(*(f"tcp://127.0.0.1:{first + number}" for number in range(60)))
    until(lambda: dropped.get() > 100)
    assert peers(consumer) == [20]
    stale.stop()
    cluster.start_tower(0)
    until(lambda: peers(consumer) == [0])
