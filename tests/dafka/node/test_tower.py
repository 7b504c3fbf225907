from __future__ import annotations

import pytest

from dafka.errors import MisuseError
from dafka.limits import STORE_PEERS_MAX
from dafka.model import TowerEndpoints
from dafka.node.loop import STUCK_MS, NodeFailedError
from dafka.node.tower import Tower
from dafka.transport import sockets
from dafka.transport.tower import BEACONS_PER_TURN_MAX, TowerSockets
from dafka.wire.beacon import NodeBeacon, TowerBeacon, encode_node_beacon

pytestmark = pytest.mark.net


def test_it_counts_the_nodes_that_send_beacons(cluster, until):
    assert cluster.tower.nodes == 0
    cluster.producer()
    until(lambda: cluster.tower.nodes == 1)
    cluster.consumer("orders")
    until(lambda: cluster.tower.nodes == 2)


@pytest.mark.parametrize("offset", [0, 1])
def test_an_endpoint_that_is_taken_is_refused_and_the_other_left_free(free_ports, reopened, offset):
    first = free_ports(4)
    endpoint = f"tcp://127.0.0.1:{first + 1}"
    with (
        Tower(f"tcp://127.0.0.1:{first + 2 * offset}"),
        pytest.raises(MisuseError, match=f"cannot open tower at {endpoint}"),
    ):
        Tower(endpoint)
    with reopened(lambda: Tower(endpoint)):
        pass


@pytest.mark.parametrize("endpoint", ["", "here", "tcp://127.0.0.1:65535", "tcp://192.0.2.1:5556"])
def test_an_endpoint_that_cannot_be_used_is_refused(endpoint):
    with pytest.raises(MisuseError):
        Tower(endpoint)


def test_closing_releases_the_endpoints(free_ports, reopened):
    endpoint = f"tcp://127.0.0.1:{free_ports(2)}"
    for _ in range(3):
        with reopened(lambda: Tower(endpoint)) as tower:
            assert not tower.join(0)
        assert tower.join(0)


def test_nodes_find_each_other_again_through_a_new_tower(cluster, take, reopened):
    cluster.store()
    cluster.tower.close()
    with reopened(lambda: Tower(cluster.endpoint)):
        producer = cluster.producer()
        producer.send("orders", b"x")
        producer.flush(20)
        assert len(take(cluster.consumer("orders"), 1)) == 1


def test_a_tower_survives_garbage(cluster, until):
    endpoints = TowerEndpoints.parse(cluster.endpoint)
    vandal = sockets.beacon_publisher()
    vandal.connect(endpoints.inbound)

    def shouts():
        for frames in ([b"B"], [b"B"] * 9, [b"B", b"", b"", b""], [b"B", b"A", b"\xff", b"99999"]):
            vandal.send_multipart(frames)
        vandal.send_multipart(encode_node_beacon(NodeBeacon("AB", "", 5)))
        return cluster.tower.nodes

    until(shouts)
    vandal.close()
    assert not cluster.tower.join(0)


def test_a_tower_that_is_bound_elsewhere_leaves_its_port_alone(free_ports):
    first = free_ports(2)
    taken = TowerSockets(TowerEndpoints.parse(f"tcp://127.0.0.1:{first}"))
    with pytest.raises(MisuseError):
        Tower(f"tcp://127.0.0.1:{first}")
    taken.close()


def test_a_tower_that_fails_says_so_and_releases_its_endpoints(
    free_ports, reopened, until, monkeypatch
):
    endpoint = f"tcp://127.0.0.1:{free_ports(2)}"

    def fail(_self):
        raise ValueError("told to")

    with monkeypatch.context() as patched:
        patched.setattr(Tower, "_forget_absent", fail)
        tower = Tower(endpoint)
        until(lambda: tower.unwell() == "tower has failed: told to")
    with pytest.raises(NodeFailedError, match="tower has failed: told to"):
        tower.join(60)
    with reopened(lambda: Tower(endpoint)):
        pass


def test_a_tower_that_hangs_is_unwell(cluster):
    assert cluster.tower.unwell() == cluster.tower.unready() == ""
    cluster.tower.close()
    cluster.tower._turned_ms -= STUCK_MS + 5_000
    assert cluster.tower.unwell() == "tower has not turned for 35 s"


def test_the_more_nodes_there_are_the_more_beacons_are_passed_on_together(
    cluster, monkeypatch, until
):
    waited = []
    monkeypatch.setattr(cluster.tower._stopping, "wait", waited.append)
    cluster.producer()
    until(lambda: 0.001 in waited)
    beacons = [TowerBeacon(f"N{number}", "tcp://h:1") for number in range(BEACONS_PER_TURN_MAX)]
    monkeypatch.setattr(cluster.tower._sockets, "relay", lambda: (beacons[:100], []))
    until(lambda: 0.05 in waited)


def test_a_tower_that_is_flooded_does_not_wait(cluster, monkeypatch, until):
    beacons = [TowerBeacon(f"N{number}", "tcp://h:1") for number in range(BEACONS_PER_TURN_MAX - 1)]
    waited, relayed = [], []

    def relay():
        relayed.append(len(waited))
        return beacons, ["beacon"]

    monkeypatch.setattr(cluster.tower._stopping, "wait", waited.append)
    monkeypatch.setattr(cluster.tower._sockets, "relay", relay)
    cluster.producer()
    until(lambda: len(relayed) > 2)
    assert waited == []


def test_invented_nodes_do_not_pile_up(cluster, monkeypatch):
    beacons = [TowerBeacon(f"N{number}", "tcp://h:1") for number in range(STORE_PEERS_MAX + 5)]
    monkeypatch.setattr(cluster.tower._sockets, "relay", lambda: (beacons, []))
    cluster.tower._relay()
    assert cluster.tower.nodes == STORE_PEERS_MAX
