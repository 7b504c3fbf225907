"""Nodes that connect to stores only, over TCP: who hears of whom, and who is connected to whom."""

from __future__ import annotations

from contextlib import ExitStack

import pytest
import zmq

from dafka.cluster import Cluster
from dafka.errors import MisuseError
from dafka.limits import PEERS_MAX
from dafka.model import TowerEndpoints
from dafka.process.clock import now_ms
from dafka.protocol.presence import PresenceSettings
from dafka.transport import sockets
from dafka.transport.access import Access, Rights
from dafka.transport.curve import prove
from dafka.transport.keys import Credentials, new_keys
from dafka.transport.mesh import Mesh
from dafka.transport.tower import TowerSockets
from dafka.wire.beacon import OF_STORE, NodeBeacon, encode_node_beacon

pytestmark = pytest.mark.net


class World:
    """A tower and meshes, all turned by the test's own thread."""

    def __init__(self, endpoints, opened):
        self.endpoints = endpoints
        self.tower = opened(TowerSockets(endpoints))
        self._opened = opened
        self.meshes = {}

    def mesh(self, address, *, store=False, peers_max=None, **settings):
        presence = PresenceSettings(beacon_interval_ms=50, peers_max=peers_max)
        cluster = Cluster(self.endpoints.inbound, presence=presence, **settings)
        self.meshes[address] = self._opened(Mesh(cluster, address, store=store))

    def turn(self):
        self.tower.relay()
        for mesh in self.meshes.values():
            if (mesh.wakeup_ms() or 0) <= now_ms():
                mesh.wake(now_ms())
            for socket in mesh.pollable:
                for _ in mesh.receive(socket, now_ms()):
                    pass

    def peers(self):
        """Whom each is connected to, by name."""
        ports = {mesh._endpoint: address for address, mesh in self.meshes.items()}
        return {
            address: {ports.get(one, one) for one in mesh._subscribers._connected}
            for address, mesh in self.meshes.items()
        }


@pytest.fixture
def opened():
    """A function that notes what has to be closed when the test is over."""
    with ExitStack() as stack:

        def opened(resource):
            stack.callback(resource.close, *((0,) if isinstance(resource, Mesh) else ()))
            return resource

        yield opened


@pytest.fixture
def world(free_ports, opened):
    return World(TowerEndpoints.parse(f"tcp://127.0.0.1:{free_ports(2)}"), opened)


def test_guests_connect_to_stores_and_all_others_to_everybody(world, until):
    for address in ("S1", "S2"):
        world.mesh(address, store=True)
    for address in ("P1", "C1", "C2"):
        world.mesh(address, delivery="stores")
    world.mesh("D1")
    everybody = set(world.meshes)
    stores = {"S1", "S2"}
    wanted = {one: everybody - {one} for one in ("S1", "S2", "D1")}
    wanted |= dict.fromkeys(("P1", "C1", "C2"), stores)
    until(lambda: world.turn() or world.peers() == wanted)
    # A guest hears its own beacon, so it knows that its tower is there; and of nobody else.
    for _ in range(50):
        world.turn()
    assert world.peers() == wanted
    assert all(mesh._presence._towers_heard(now_ms()) for mesh in world.meshes.values())


def test_guests_keep_a_direct_node_from_nobody_else(world, until):
    world.mesh("D1", peers_max=3)
    for number in range(5):
        world.mesh(f"G{number}", delivery="stores")
    until(lambda: world.turn() or len(world.peers()["D1"]) == 3)
    world.mesh("S1", store=True)
    world.mesh("D2")
    until(lambda: world.turn() or {"S1", "D2"} < world.peers()["D1"])
    assert len(world.peers()["D1"]) == 3


def test_a_guest_is_away_from_a_tower_that_does_not_know_guests(world, until):
    """An older one passes on no beacon that begins as a guest's does; see `TowerAway`."""
    world.tower._inbound.unsubscribe(b"V")
    world.mesh("S1", store=True)
    world.mesh("C1", delivery="stores")
    until(lambda: world.turn() or world.peers()["C1"] == {"S1"})
    assert not world.meshes["C1"]._presence._towers_heard(now_ms())


@pytest.mark.parametrize("settings", [{"wire": "libdafka"}, {"classic": True}])
def test_where_nodes_of_another_make_may_be_there_are_no_guests(settings):
    with pytest.raises(MisuseError, match="delivery through stores is not for"):
        Cluster("tcp://127.0.0.1:9", delivery="stores", **settings)
    assert not Cluster("tcp://127.0.0.1:9", **settings).may_have_guests


def test_another_delivery_is_refused():
    with pytest.raises(MisuseError, match="delivery 'carrier' is not known: direct or stores"):
        Cluster("tcp://127.0.0.1:9", delivery="carrier")


def test_with_keys_only_the_clusters_key_announces_a_store(free_ports, opened, until):
    cluster_public, cluster_secret = new_keys()
    public, secret = new_keys()
    access = Access(cluster_public, {public: Rights(("",), ("",))})
    endpoints = TowerEndpoints.parse(f"tcp://127.0.0.1:{free_ports(2)}")
    tower = opened(TowerSockets(endpoints, Credentials(access, cluster_public, cluster_secret)))
    speaker = opened(sockets.beacon_publisher())
    prove(speaker, Credentials(access, public, secret))
    sockets.connect(speaker, endpoints.inbound)
    beacon = NodeBeacon("AB", "127.0.0.1", 7, public, OF_STORE)
    found = []

    def refused():
        speaker.send_multipart(encode_node_beacon(beacon), zmq.NOBLOCK)
        relayed, dropped = tower.relay()
        found.extend(relayed)
        return "beacon key" in dropped

    until(refused)
    assert found == []


@pytest.mark.parametrize("told", [PEERS_MAX, 2])
def test_a_store_connects_to_no_more_than_it_is_told_also_if_that_is_the_default(opened, told):
    def peers_max(*, store, presence):
        mesh = opened(Mesh(Cluster("tcp://127.0.0.1:9", presence=presence), "AB", store=store))
        return mesh._presence._peers_max

    assert peers_max(store=True, presence=PresenceSettings(peers_max=told)) == told
    assert peers_max(store=True, presence=PresenceSettings()) >= sockets.store_peers_max()
    assert peers_max(store=False, presence=PresenceSettings()) == PEERS_MAX


def test_a_store_connects_to_as_many_as_its_files_allow(monkeypatch):
    monkeypatch.setattr(sockets.resource, "getrlimit", lambda _what: (3_000, 3_000))
    assert sockets.store_peers_max() == 1_000
    unlimited = sockets.resource.RLIM_INFINITY
    monkeypatch.setattr(sockets.resource, "getrlimit", lambda _what: (unlimited, unlimited))
    assert sockets.store_peers_max() == 20_000
