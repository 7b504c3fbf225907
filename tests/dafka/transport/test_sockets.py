import pytest
import zmq

from dafka.limits import FRAME_BYTES_MAX
from dafka.transport import sockets

FACTORIES = [
    sockets.publisher,
    sockets.subscriber,
    sockets.beacon_publisher,
    sockets.router,
    sockets.dealer,
]


@pytest.mark.parametrize("make", FACTORIES)
def test_every_bound_is_set(make):
    socket = make()
    assert 0 < socket.get(zmq.MAXMSGSIZE) <= FRAME_BYTES_MAX
    assert 0 < socket.get(zmq.SNDHWM) <= 10_000
    assert 0 < socket.get(zmq.RCVHWM) <= 10_000
    assert socket.get(zmq.HANDSHAKE_IVL) == 2_000
    assert socket.get(zmq.HEARTBEAT_IVL) > 0
    assert socket.get(zmq.HEARTBEAT_TIMEOUT) > socket.get(zmq.HEARTBEAT_IVL)
    assert socket.get(zmq.RECONNECT_IVL) == 50
    assert socket.get(zmq.RECONNECT_IVL_MAX) == 1_000
    assert socket.get(zmq.TCP_KEEPALIVE) == 1
    assert socket.get(zmq.IPV6) == 1
    assert socket.get(zmq.LINGER) == 0
    socket.close()


def test_kinds():
    kinds = []
    for make in FACTORIES:
        socket = make()
        kinds.append(socket.type)
        socket.close()
    assert kinds == [zmq.XPUB, zmq.SUB, zmq.PUB, zmq.ROUTER, zmq.DEALER]


def test_an_endpoint_that_was_just_given_up_can_be_bound(free_ports):
    endpoint = f"tcp://127.0.0.1:{free_ports(1)}"
    for _ in range(20):
        socket = sockets.publisher()
        sockets.bind(socket, endpoint)
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
    ("host", "address"),
    [
        ("127.0.0.1", "127.0.0.1"),
        ("[::1]", "[::1]"),
        ("no-such-host.invalid", "no-such-host.invalid"),
        ("a" * 64, "a" * 64),
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
        sockets.bind(socket, "tcp://no-such-host.invalid:5556")
    socket.close()
