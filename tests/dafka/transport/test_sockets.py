"""Whole messages over real sockets."""

from __future__ import annotations

import ast
import fcntl
import inspect
import os
import socket as system
import struct
import sys
import time
from contextlib import ExitStack, suppress
from functools import partial
from pathlib import Path
from subprocess import PIPE, Popen

import pytest
import zmq

from dafka.errors import MisuseError
from dafka.limits import FRAME_BYTES_MAX, HELLO_TOPICS_MAX, QUESTION_BYTES_MAX
from dafka.transport import sockets
from dafka.transport.sockets import (
    FRAMES_MAX,
    ConnectionChange,
    Connections,
    receive_frames,
    send_frames,
)

_MAIN, _NAMES = 1, 2
TOO_LONG = "a" * 64
"""A name that no name server is asked for."""

ROOT = Path(__file__).parents[3]
KINDS = {
    # What is made, its kind, marks for sending and receiving, and the largest frame taken.
    sockets.publisher: (zmq.XPUB, 1_000, 32, 1_024),
    lambda: sockets.publisher(sockets.SINGLES_MARK): (zmq.XPUB, 100_000, 32, 1_024),
    sockets.tower_publisher: (zmq.XPUB, 1_000, 32, 16),
    lambda: sockets.tower_publisher(secured=True): (zmq.XPUB, 1_000, 32, 1_024),
    sockets.subscriber: (zmq.SUB, 40_000, 1_000, FRAME_BYTES_MAX),
    sockets.beacon_publisher: (zmq.PUB, 10_000, 10_000, 1_024),
    sockets.beacon_subscriber: (zmq.SUB, 10_000, 10_000, 1_024),
    sockets.router: (zmq.ROUTER, 32, 16, QUESTION_BYTES_MAX),
    sockets.dealer: (zmq.DEALER, 16, 32, FRAME_BYTES_MAX),
    sockets.monitor: (zmq.PAIR, 10_000, 0, FRAME_BYTES_MAX),
}


@pytest.mark.parametrize("make", KINDS)
def test_every_bound_is_set(make):
    socket = make()
    *kind, frame_bytes_max = KINDS[make]
    assert [socket.get(option) for option in (zmq.TYPE, zmq.SNDHWM, zmq.RCVHWM)] == kind
    assert socket.get(zmq.MAXMSGSIZE) == frame_bytes_max + 64
    assert socket.get(zmq.HANDSHAKE_IVL) == 10_000
    assert socket.get(zmq.BACKLOG) == 4_096
    assert socket.get(zmq.HEARTBEAT_IVL) == 0
    assert socket.get(zmq.RECONNECT_IVL) == 50
    assert socket.get(zmq.RECONNECT_IVL_MAX) == 1_000
    assert socket.get(zmq.TCP_KEEPALIVE) == 1
    assert socket.get(zmq.TCP_KEEPALIVE_IDLE) == 10
    assert socket.get(zmq.TCP_KEEPALIVE_INTVL) == 5
    assert socket.get(zmq.TCP_KEEPALIVE_CNT) == 3
    assert socket.get(zmq.TCP_MAXRT) == 25_000
    assert socket.get(zmq.IPV6) == 1
    assert socket.get(zmq.LINGER) == 0
    assert socket.get(zmq.AFFINITY) == _MAIN
    socket.close()


def test_every_factory_is_among_them():
    made = {name for name, one in vars(sockets).items() if inspect.isfunction(one)}
    others = {
        "context",
        "numeric",
        "unmapped",
        "bind",
        "connect",
        "is_address",
        "_socket",
        "_enough_files",
        "parse_monitor_message",
        "receive_frames",
        "send_at_once",
        "_send",
        "send_frames",
        "contextmanager",
        "_path_to_itself",
        "refuses",
        "store_peers_max",
    }
    assert made - others == {make.__name__ for make in KINDS if make.__name__ != "<lambda>"}


def test_nobody_else_makes_sockets():
    makers = set()
    for package in ("dafka", "distributor", "topology"):
        for path in (ROOT / package).rglob("*.py"):
            for node in ast.walk(ast.parse(path.read_text())):
                if isinstance(node, ast.Call) and makes_zmq_socket(node.func):
                    makers.add(path.relative_to(ROOT).as_posix())
    assert makers == {"dafka/transport/sockets.py"}


def makes_zmq_socket(function):
    """`anything.socket(...)`, but not the standard library's, and `zmq.Socket(...)`."""
    if not isinstance(function, ast.Attribute):
        return False
    if function.attr == "Socket":
        return True
    standard = isinstance(function.value, ast.Name) and function.value.id == "socket"
    return function.attr == "socket" and not standard


@pytest.mark.parametrize(
    ("make", "other", "size"),
    [
        (sockets.router, zmq.DEALER, QUESTION_BYTES_MAX),
        (sockets.beacon_subscriber, zmq.PUB, sockets.NAME_BYTES_MAX),
        (sockets.publisher, zmq.XSUB, sockets.NAME_BYTES_MAX),
    ],
)
def test_a_frame_too_large_ends_the_connection(make, other, size):
    ours, peer = make(), zmq.Context.instance().socket(other)
    if ours.get(zmq.TYPE) == zmq.SUB:
        ours.subscribe(b"")
    ended = ours.get_monitor_socket(zmq.EVENT_DISCONNECTED)
    port = ours.bind_to_random_port("tcp://127.0.0.1")
    peer.connect(f"tcp://127.0.0.1:{port}")
    while not ours.poll(20):
        peer.send(b"\1" * size)
    assert len(ours.recv_multipart()[-1]) == size
    assert not ended.poll(0)
    peer.send(b"\1" * (size + sockets.CURVE_BYTES + 1))
    assert ended.poll(5_000)
    ours.disable_monitor()
    ended.close(0)
    peer.close(0)
    ours.close(0)


FLOODED = """
import sys, zmq
from dafka.transport import sockets

makers = (sockets.publisher, sockets.subscriber, sockets.beacon_subscriber, sockets.router)
flooded = [make() for make in makers]
ports = [socket.bind_to_random_port("tcp://127.0.0.1") for socket in flooded]
for maker in (sockets.subscriber, sockets.dealer):
    flooded.append(maker())
    flooded[-1].connect("tcp://127.0.0.1:" + sys.argv.pop(1))
for socket in flooded:
    if socket.type == zmq.SUB:
        socket.subscribe(b"")
print(*ports, flush=True)
sys.stdin.readline()
for socket in flooded:
    while socket.poll(200):
        sockets.receive_frames(socket)
print("well", flush=True)
"""
"""A process that does not read what comes to any kind of socket before it is told to."""


def test_who_comes_in_has_less_time_for_a_handshake_than_who_is_connected_to():
    """What is connected to may have thousands to take in first; a stranger holds a place here."""
    with sockets.publisher() as socket:
        sockets.bind(socket, "tcp://127.0.0.1:*")
        assert socket.get(zmq.HANDSHAKE_IVL) == 2_000


OTHER_END = {zmq.XPUB: b"SUB", zmq.SUB: b"PUB", zmq.ROUTER: b"DEALER", zmq.DEALER: b"ROUTER"}
LISTENING = (zmq.XPUB, zmq.SUB, zmq.SUB, zmq.ROUTER)
CONNECTING = (zmq.SUB, zmq.DEALER)
CALLED_AGAIN_S = 20


def fill_and_reset(connect, kind):
    """Be a peer that sends more than its queue and TCP take, and is killed.

    Who is busy with the peer before finishes no handshake in time, and is called again.

    Raises:
        TimeoutError: Nobody calls again: ZeroMQ gives up for good where what it has read of a
            handshake that was broken off is no handshake.
    """
    assert any(filled_and_reset(connect(), kind) for _ in range(10))


def filled_and_reset(connection, kind):
    connection.sendall(b"\xff" + bytes(8) + b"\x7f\x03\x01" + b"NULL".ljust(20, b"\0") + bytes(32))
    ready = b"\x05READY\x0bSocket-Type" + len(OTHER_END[kind]).to_bytes(4, "big") + OTHER_END[kind]
    connection.sendall(bytes([4, len(ready)]) + ready)
    frames = b"".join(b"\0\xff\1%0254d" % number for number in range(20_000))
    connection.settimeout(0.3)
    connection.setsockopt(system.SOL_SOCKET, system.SO_LINGER, struct.pack("ii", 1, 0))
    with connection:
        try:
            while True:
                connection.sendall(frames)
        except TimeoutError:
            return True
        except ConnectionError:
            return False


def flooded_and_told():
    """Flood every kind of socket of a process, and then have it read; how it ended, and its words.

    Raises:
        TimeoutError: It did not call again.
    """
    with ExitStack() as opened:
        listeners = [
            opened.enter_context(system.create_server(("127.0.0.1", 0))) for _ in CONNECTING
        ]
        called = [str(one.getsockname()[1]) for one in listeners]
        command = [sys.executable, "-c", FLOODED, *called]
        process = opened.enter_context(
            Popen(command, stdin=PIPE, stdout=PIPE, stderr=PIPE, text=True)
        )
        opened.callback(process.kill)
        ports = [int(port) for port in process.stdout.readline().split()]
        for port, kind in zip(ports, LISTENING, strict=True):
            fill_and_reset(partial(system.create_connection, ("127.0.0.1", port)), kind)
        for listener, kind in zip(listeners, CONNECTING, strict=True):
            listener.settimeout(CALLED_AGAIN_S)
            fill_and_reset(lambda listener=listener: listener.accept()[0], kind)
            listener.close()
        time.sleep(1.2)  # as long as ZeroMQ's heartbeats were apart
        out, error = process.communicate("\n", timeout=120)
        return process.returncode, out.strip(), error


def test_a_peer_that_fills_its_queue_and_dies_stops_nobody():
    with suppress(TimeoutError):
        assert flooded_and_told() == (0, "well", "")
        return
    assert flooded_and_told() == (0, "well", "")


def test_an_endpoint_that_was_just_given_up_can_be_bound(free_ports):
    endpoint = f"tcp://127.0.0.1:{free_ports(1)}"
    for _ in range(20):
        socket = sockets.publisher()
        sockets.bind(socket, endpoint)
        socket.close(0)


def test_of_two_that_look_at_a_path_at_once_one_binds(tmp_path):
    endpoint = f"ipc://{tmp_path}/node"
    looking = os.open(tmp_path, os.O_RDONLY)
    fcntl.flock(looking, fcntl.LOCK_EX)
    socket = sockets.publisher()
    with pytest.raises(zmq.ZMQError, match="in use"):
        sockets.bind(socket, endpoint)
    os.close(looking)
    sockets.bind(socket, endpoint)
    socket.close(0)


def test_a_path_in_a_directory_that_is_not_there_cannot_be_bound(tmp_path):
    socket = sockets.publisher()
    with pytest.raises(zmq.ZMQError, match="No such file"):
        sockets.bind(socket, f"ipc://{tmp_path}/none/node")
    socket.close(0)


def test_an_endpoint_that_stays_taken_cannot_be_bound(free_ports):
    endpoint = f"tcp://127.0.0.1:{free_ports(1)}"
    taken, late = sockets.publisher(), sockets.publisher()
    sockets.bind(taken, endpoint)
    with pytest.raises(zmq.ZMQError, match="in use"):
        sockets.bind(late, endpoint)
    taken.close(0)
    late.close(0)


@pytest.mark.parametrize(
    ("endpoint", "thread"),
    [
        ("tcp://localhost:9", _NAMES),
        ("tcp://127.0.0.1:9", _MAIN),
        ("tcp://[::1]:9", _MAIN),
        ("inproc://tower", _MAIN),
    ],
)
def test_names_are_looked_up_where_no_other_connection_waits(endpoint, thread):
    # ZeroMQ gives a connection the thread that the socket has when it is made.
    socket = sockets.dealer()
    sockets.connect(socket, endpoint)
    assert socket.get(zmq.AFFINITY) == thread
    sockets.connect(socket, "tcp://127.0.0.1:9")
    assert socket.get(zmq.AFFINITY) == _MAIN
    socket.close()


def test_the_applications_own_context_is_another_one():
    assert sockets.context() is sockets.context()
    assert sockets.context() is not zmq.Context.instance()
    assert sockets.context().get(zmq.IO_THREADS) == 2


@pytest.fixture
def no_names(monkeypatch):
    """A machine without a name server: asking the tests' own may take seconds."""

    def unknown(host, *_, **__):
        raise system.gaierror(system.EAI_NONAME, f"{host} is not known")

    monkeypatch.setattr(sockets.system, "getaddrinfo", unknown)


def test_what_is_not_known_stays_a_name(no_names):
    assert sockets.numeric("no-such-host.invalid") == "no-such-host.invalid"


@pytest.mark.parametrize(
    ("host", "address"),
    [
        ("127.0.0.1", "127.0.0.1"),
        ("[::1]", "[::1]"),
        (TOO_LONG, TOO_LONG),
    ],
)
def test_a_host_is_looked_up_where_it_can_be(host, address):
    assert sockets.numeric(host) == address


def test_a_name_is_bound_at_its_address(free_ports):
    socket = sockets.publisher()
    sockets.bind(socket, f"tcp://localhost:{free_ports(1)}")
    assert b"127.0.0.1" in socket.last_endpoint or b"::1" in socket.last_endpoint
    socket.close()


def test_a_name_that_stands_for_nothing_here_is_refused():
    socket = sockets.publisher()
    with pytest.raises(zmq.ZMQError, match="No such device"):
        sockets.bind(socket, f"tcp://{TOO_LONG}:5556")
    socket.close()


def test_where_nobody_listens_is_known_of_addresses_of_tcp(free_ports):
    nobody = free_ports(1)
    assert sockets.refuses(f"tcp://127.0.0.1:{nobody}")
    assert not sockets.refuses(f"tcp://localhost:{nobody}"), "names are not looked up"
    assert not sockets.refuses("ipc:///tmp/nobody")
    with system.socket() as somebody:
        somebody.bind(("127.0.0.1", 0))
        somebody.listen()
        assert not sockets.refuses(f"tcp://127.0.0.1:{somebody.getsockname()[1]}")


def test_one_socket_too_many_is_refused_with_what_to_do(monkeypatch):
    context = zmq.Context(io_threads=2)
    monkeypatch.setattr(sockets, "context", lambda: context)
    context.set(zmq.MAX_SOCKETS, 2)
    # The first settles how many there may be.
    made = [context.socket(zmq.DEALER), sockets.dealer()]
    with pytest.raises(MisuseError, match=r"this process has 16384, .* run fewer nodes in it"):
        sockets.dealer()
    for socket in made:
        socket.close()
    context.term()


def test_every_subscription_of_a_consumer_of_the_most_topics_arrives():
    number = 3 * HELLO_TOPICS_MAX + 5
    ours, peer = sockets.publisher(), sockets.subscriber()
    port = ours.bind_to_random_port("tcp://127.0.0.1")
    for key in range(number):
        peer.subscribe(b"%d" % key)
    peer.connect(f"tcp://127.0.0.1:{port}")
    seen = set()
    while len(seen) < number and ours.poll(2_000):
        seen.add(ours.recv())
    assert len(seen) == number
    peer.close(0)
    ours.close(0)


pytestmark = pytest.mark.net

WAIT_MS = 60_000


@pytest.mark.parametrize("count", [1, 3, 4, 5, 100])
def test_all_frames_of_a_message_are_taken_and_few_are_kept(opened, count):
    one, other = (opened(zmq.Context.instance().socket(zmq.PAIR)) for _ in range(2))
    port = one.bind_to_random_port("tcp://127.0.0.1")
    other.connect(f"tcp://127.0.0.1:{port}")
    send_frames(other, [bytes([number]) for number in range(count)])
    other.send(b"next")
    assert one.poll(WAIT_MS)
    assert receive_frames(one) == [bytes([n]) for n in range(min(count, FRAMES_MAX))]
    assert one.poll(WAIT_MS)
    assert receive_frames(one) == [b"next"]
    assert receive_frames(one) is None


@pytest.fixture
def subscriber(opened):
    return opened(sockets.subscriber())


@pytest.fixture
def connections(subscriber):
    connections = Connections(subscriber)
    yield connections
    connections.close()


def bound(opened, endpoint):
    publisher = opened(sockets.publisher())
    sockets.bind(publisher, endpoint)
    return publisher


@pytest.mark.parametrize("host", ["127.0.0.1", "[::1]"])
def test_a_connection_comes_and_goes_and_comes_again(connections, subscriber, opened, until, host):
    publisher = bound(opened, f"tcp://{host}:*")
    _, _, port = publisher.get_string(zmq.LAST_ENDPOINT).rpartition(":")
    endpoint = f"tcp://{host}:{port}"
    subscriber.connect(endpoint)
    assert until(lambda: list(connections.changes())) == [(endpoint, ConnectionChange.ALIVE)]
    publisher.close(0)
    assert until(lambda: list(connections.changes())) == [(endpoint, ConnectionChange.GONE)]
    bound(opened, endpoint)
    assert until(lambda: list(connections.changes())) == [(endpoint, ConnectionChange.ALIVE)]


def test_of_what_is_not_there_nothing_is_reported(connections, subscriber, free_ports):
    subscriber.connect(f"tcp://127.0.0.1:{free_ports(1)}")
    assert not subscriber.poll(200)
    assert list(connections.changes()) == []
