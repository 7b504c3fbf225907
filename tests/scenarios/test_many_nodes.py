"""Many nodes in one mesh, on real sockets, turned by the test's own thread.

`python -m benchmarks.discovery` does the same with processes.
"""

from __future__ import annotations

import threading
from collections import Counter
from pathlib import Path

import pytest

from dafka.cluster import Cluster
from dafka.model import TowerEndpoints
from dafka.process.clock import now_ms
from dafka.protocol.events import Received
from dafka.protocol.presence import PRESENCE
from dafka.transport.mesh import Mesh
from dafka.transport.poller import Poller
from dafka.transport.tower import TowerSockets
from dafka.wire import messages
from dafka.wire.messages import MessageId

pytestmark = [pytest.mark.net, pytest.mark.slow]

ROUNDS_MAX = 3
"""Beacon intervals within which all find all. The first is lost: subscriptions travel."""

FILES_PER_NODE = 10
"""Six sockets, and on TCP a connection to each tower's ports at both ends."""

CALL = messages.DirectHead("me", "orders", "AB" * 16, 7)


class Crowd:
    """A tower and so many meshes."""

    def __init__(self, count, tower, host):
        endpoints = TowerEndpoints.parse(tower)
        self.tower = TowerSockets(endpoints)
        self.interval_ms = PRESENCE.beacon_interval_ms
        self.meshes = [Mesh(Cluster(tower, host=host), f"N{number:03}") for number in range(count)]
        self.beacons = Counter()
        self.received = Counter()

    @property
    def found(self):
        """Whether all have found all."""
        return all(mesh.peers == len(self.meshes) - 1 for mesh in self.meshes)

    def wake(self, now):
        for mesh in self.meshes:
            if (mesh.wakeup_ms() or 0) <= now:
                assert mesh.wake(now) == []

    def relay(self):
        """Let the tower pass on what it has; whether that was anything."""
        beacons, dropped = self.tower.relay()
        assert dropped == []
        self.beacons.update(beacon.address for beacon in beacons)
        return bool(beacons)

    def receive(self, number, socket, now):
        for event in self.meshes[number].receive(socket, now):
            if event == Received(CALL):
                self.received[number] += 1

    def close(self):
        for mesh in self.meshes:
            mesh.close(0)
        self.tower.close()


def open_files():
    return len(list(Path("/proc/self/fd").iterdir()))


def node_threads():
    """Those that could be for each node: one looks at all connections of the process."""
    return sum(one.name != "dafka-shedder" for one in threading.enumerate())


@pytest.fixture
def crowd():
    made = []

    def make(*arguments):
        made.append(Crowd(*arguments))
        return made[-1]

    yield make
    for one in made:
        one.close()


def test_200_nodes_find_each_other_within_three_beacons_and_hear_each_other(crowd):
    files, threads = open_files(), node_threads()
    many = crowd(200, "inproc://crowd", "inproc://")
    for mesh in many.meshes:
        mesh.listen(MessageId.DIRECT_HEAD, "me")
    now = 0
    while not many.found:
        # Nobody waits: the clock is the test's, and what travels within a process is there at once.
        assert now < ROUNDS_MAX * many.interval_ms
        many.wake(now)
        while many.relay():
            pass
        for number, mesh in enumerate(many.meshes):
            for socket in mesh.pollable:
                many.receive(number, socket, now)
        now += 100
    # Neither a storm of greetings nor anything for each connection.
    assert max(many.beacons.values()) <= 2 * ROUNDS_MAX
    assert open_files() - files <= FILES_PER_NODE * 200
    assert node_threads() == threads
    for mesh in many.meshes:  # those that are new hear of who listens for what when they look
        for socket in mesh.pollable:
            list(mesh.receive(socket, now))
    many.meshes[0].publish(CALL)
    many.meshes[0].flush()
    for number, mesh in enumerate(many.meshes):
        for socket in mesh.pollable:
            many.receive(number, socket, now)
    assert many.received == dict.fromkeys(range(1, 200), 1)


def test_50_nodes_find_each_other_over_tcp(crowd, free_ports, until):
    files, threads = open_files(), node_threads()
    many = crowd(50, f"tcp://127.0.0.1:{free_ports(2)}", "127.0.0.1")
    poller = Poller()
    for socket in many.tower.pollable:
        poller.add(socket, many.relay)
    for number, mesh in enumerate(many.meshes):
        for socket in mesh.pollable:
            poller.add(
                socket,
                lambda number=number, socket=socket: many.receive(number, socket, now_ms()),
            )

    def turned():
        many.wake(now_ms())
        poller.turn(10)
        return many.found

    until(turned)
    # Each of the connections has both its ends in this process.
    assert open_files() - files <= 50 * (FILES_PER_NODE + 2 * 49)
    assert node_threads() == threads
