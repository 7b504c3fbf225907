from __future__ import annotations

import os
import resource
import socket
from contextlib import suppress
from pathlib import Path

import pytest

from dafka.limits import FRAME_BYTES_MAX
from dafka.transport.descriptors import Descriptors
from dafka.transport.shedding import NO_NAMES, NamesBound

pytestmark = pytest.mark.net

NAMES, MESSAGE_MAX = NamesBound(200_000, 2_000_000), 1 << 24


class Watched:
    """A port of ours, and what is seen of connections."""

    def __init__(self, opened):
        self._opened = opened
        self.server = self.listening()
        self.ports = {self.server.getsockname()[1]: (NAMES, MESSAGE_MAX)}
        self.peers = set()
        self.descriptors = Descriptors()

    def listening(self):
        return self._opened(socket.create_server(("127.0.0.1", 0)))

    def pair(self, server=None):
        """Both ends of a connection, the one that came in first."""
        server = server or self.server
        client = self._opened(socket.create_connection(server.getsockname()))
        return self._opened(server.accept()[0]), client

    def look(self):
        """Connections of ours by descriptor."""
        found = self.descriptors.connections(self.ports, self.peers)
        return {one.descriptor: one for one in found}


@pytest.fixture
def watched(opened):
    one = Watched(opened)
    yield one
    one.descriptors.close()


def test_who_comes_in_at_a_port_is_watched(watched):
    taken, client = watched.pair()
    client.sendall(bytes(1_000))
    assert taken.recv(1_000, socket.MSG_WAITALL)
    (one,) = watched.look().values()
    peer = "tcp://{}:{}".format(*client.getsockname())
    number = os.fstat(taken.fileno()).st_ino
    assert one == (number, taken.fileno(), 1_000, NAMES, MESSAGE_MAX, peer, True)


def test_a_peer_that_is_connected_to_is_watched_and_what_waits_does_not_count(watched):
    other = watched.listening()
    taken, client = watched.pair(other)
    peer = "tcp://{}:{}".format(*other.getsockname())
    watched.peers.add(peer)
    taken.sendall(bytes(1_000))
    assert client.recv(1_000, socket.MSG_PEEK | socket.MSG_WAITALL)
    (one,) = watched.look().values()
    assert one[1:] == (client.fileno(), 0, NO_NAMES, FRAME_BYTES_MAX, peer, False)
    assert client.recv(400) == bytes(400)
    (one,) = watched.look().values()
    assert one.received == 400


def test_nothing_else_is_watched(watched, tmp_path):
    watched.pair(watched.listening())
    both = socket.socketpair()
    with both[0], both[1], (tmp_path / "file").open("w"):
        assert watched.look() == {}


def test_a_port_may_be_told_of_after_somebody_has_come(watched):
    ports, watched.ports = watched.ports, {}
    taken, _ = watched.pair()
    assert watched.look() == {}
    watched.ports = ports
    assert list(watched.look()) == [taken.fileno()]


def test_a_socket_may_be_connected_later(watched, opened):
    late = opened(socket.socket())
    watched.peers.add("tcp://{}:{}".format(*watched.server.getsockname()))
    assert watched.look() == {}
    late.connect(watched.server.getsockname())
    assert list(watched.look()) == [late.fileno()]


def test_who_was_watched_is_when_the_port_is_closed(watched):
    taken, _ = watched.pair()
    before = watched.look()
    watched.ports = {}
    assert watched.look() == before
    assert list(before) == [taken.fileno()]


@pytest.mark.parametrize("before", ["ours", "another's", "no connection"])
@pytest.mark.parametrize("after", ["ours", "another's", "no connection"])
def test_a_descriptor_that_is_used_again_between_two_looks_is_asked_anew(watched, before, after):
    other = watched.listening()

    def made(kind):
        if kind == "no connection":
            return socket.socketpair()
        return watched.pair(watched.server if kind == "ours" else other)

    first, end = made(before)
    descriptor = first.fileno()
    seen = watched.look()
    assert (descriptor in seen) == (before == "ours")
    second, another_end = made(after)
    with end, second, another_end:
        if before == "ours":
            end.sendall(bytes(1_000))
            assert first.recv(1_000, socket.MSG_WAITALL)
        first.close()
        os.dup2(second.fileno(), descriptor)
        second.close()
        again = watched.look()
        assert (descriptor in again) == (after == "ours")
        if before == after == "ours":
            assert again[descriptor].number != seen[descriptor].number
            assert again[descriptor].received == 0
        os.close(descriptor)


def test_what_is_remembered_is_what_is_open(watched):
    for _ in range(3):
        pairs = [watched.pair(watched.listening()) for _ in range(20)]
        watched.look()
        for pair in pairs:
            for end in pair:
                end.close()
    watched.look()
    assert len(watched.descriptors._known) <= len(list(Path("/proc/self/fd").iterdir()))


def test_sockets_that_take_connections_in_are_known_by_their_ports(watched, opened):
    watched.pair()
    watched.listening()
    opened(socket.socket(socket.AF_UNIX))
    found = watched.descriptors.listening(watched.ports.keys())
    assert list(found) == [watched.server.fileno()]


@pytest.fixture
def full(opened):
    """A function after which this process can open nothing more."""
    before = resource.getrlimit(resource.RLIMIT_NOFILE)

    def fill():
        most = max(map(int, os.listdir("/proc/self/fd"))) + 50  # noqa: PTH208
        resource.setrlimit(resource.RLIMIT_NOFILE, (most, before[1]))
        with suppress(OSError):
            while True:
                opened(Path(os.devnull).open())  # noqa: SIM115

    yield fill
    resource.setrlimit(resource.RLIMIT_NOFILE, before)


def test_where_no_descriptor_is_left_connections_are_seen_all_the_same(watched, full):
    taken, _ = watched.pair()
    full()
    assert watched.look().keys() == {taken.fileno()}
    assert watched.server.fileno() in watched.descriptors.listening(watched.ports.keys())
