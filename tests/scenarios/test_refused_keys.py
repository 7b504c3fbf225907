"""Nodes with keys that towers and peers learn of later: they are let in then."""

from __future__ import annotations

import pytest

from dafka.cluster import Cluster
from dafka.errors import MisuseError
from dafka.model import TowerEndpoints
from dafka.process.clock import now_ms
from dafka.protocol.presence import PresenceSettings, Refused
from dafka.transport.access import Access, Rights
from dafka.transport.keys import Credentials, new_keys
from dafka.transport.mesh import Mesh
from dafka.transport.tower import TowerSockets

pytestmark = pytest.mark.net

PRESENCE = PresenceSettings(beacon_interval_ms=50, refused_ms=200)


class World:
    """A cluster whose access file gets a second key, once nodes have started."""

    def __init__(self, endpoints):
        self.endpoints = endpoints
        self.cluster, self.late = new_keys(), new_keys()
        self.before = Access(self.cluster[0], {self.cluster[0]: Rights()})
        rights = {self.cluster[0]: Rights(), self.late[0]: Rights(("",), ("",))}
        self.after = Access(self.cluster[0], rights)
        self.tower = None
        self.meshes = []
        self.notices = []

    def start_tower(self, access):
        """In place of the one that is there, if one is."""
        if self.tower is not None:
            self.tower.close()
        self.tower = TowerSockets(self.endpoints, Credentials(access, *self.cluster))

    def mesh(self, address, access, keys, host="127.0.0.1"):
        """A node that lets in whom its access file names."""
        credentials = Credentials(access, *keys)
        towers = self.endpoints.inbound
        cluster = Cluster(towers, host=host, credentials=credentials, presence=PRESENCE)
        mesh = Mesh(cluster, address)
        self.meshes.append(mesh)
        return mesh

    def started(self, *given):
        """Whether it is there; its place may be taken for a moment by the one before."""
        try:
            return self.mesh(*given)
        except MisuseError:
            return None

    def leave(self, mesh):
        self.meshes.remove(mesh)
        mesh.close(0)

    def turn(self):
        self.tower.relay()
        for mesh in self.meshes:
            if (mesh.wakeup_ms() or 0) <= now_ms():
                self.notices += mesh.wake(now_ms())
            for socket in mesh.pollable:
                self.notices += mesh.receive(socket, now_ms())

    def refused(self):
        return [one.endpoint for one in self.notices if isinstance(one, Refused)]

    def close(self):
        for mesh in self.meshes:
            mesh.close(0)
        self.tower.close()


@pytest.fixture
def world(free_ports):
    world = World(TowerEndpoints.parse(f"tcp://127.0.0.1:{free_ports(2)}"))
    yield world
    world.close()


def is_heard(mesh):
    return bool(mesh._presence._towers_heard(now_ms()))


def is_connected(mesh):
    return any(peer.connected for peer in mesh._presence._peers.values())


def test_a_tower_that_has_learned_of_a_key_meanwhile_lets_it_in(world, until):
    mesh = world.mesh("AB", world.after, world.late)
    world.start_tower(world.before)
    until(lambda: world.turn() or world.refused())
    assert world.refused() == [world.endpoints.inbound]
    world.start_tower(world.after)
    until(lambda: world.turn() or is_heard(mesh))
    assert world.refused() == [world.endpoints.inbound], "said once"


def test_a_peer_that_has_learned_of_a_key_meanwhile_lets_it_in(world, until, free_ports):
    world.start_tower(world.after)
    late = world.mesh("AB", world.after, world.late)
    until(lambda: world.turn() or is_heard(late))
    place = f"127.0.0.1:{free_ports(1)}"
    peer = world.mesh("CD", world.before, world.cluster, place)
    until(lambda: world.turn() or world.refused())
    assert world.refused() == [f"tcp://{place}"]
    assert not is_connected(late)
    world.leave(peer)
    until(lambda: world.turn() or world.started("CD", world.after, world.cluster, place))
    until(lambda: world.turn() or is_connected(late))
    assert world.refused() == [f"tcp://{place}"], "said once"
