from __future__ import annotations

import socket

import pytest

from dafka.transport.doors import ShutOut, keep_out

pytestmark = pytest.mark.net


def test_a_host_is_shut_out_for_a_while():
    out = ShutOut(shut_ms=5_000)
    assert out.hosts(0) == ()
    out.add("192.0.2.1", 1_000)
    out.add("192.0.2.2", 3_000)
    assert out.hosts(5_999) == ("192.0.2.1", "192.0.2.2")
    assert out.hosts(6_000) == ("192.0.2.2",)
    assert out.hosts(8_000) == ()


def test_who_is_shut_out_again_is_so_from_then_on():
    out = ShutOut(shut_ms=5_000)
    out.add("192.0.2.1", 1_000)
    out.add("192.0.2.2", 2_000)
    out.add("192.0.2.1", 3_000)
    assert out.hosts(7_500) == ("192.0.2.1",)


def test_of_very_many_the_last_are_shut_out():
    out = ShutOut(shut_ms=5_000, hosts_max=2)
    for number in range(4):
        out.add(f"192.0.2.{number}", number)
    assert out.hosts(10) == ("192.0.2.2", "192.0.2.3")


MANY = [f"192.0.2.{number}" for number in range(8)] + [f"2001:db8::{number}" for number in range(8)]


@pytest.fixture(params=["IPv4", "both", "IPv6"])
def door(request, opened):
    """A listening socket as ZeroMQ makes it, and the address of who comes to it."""
    if request.param == "IPv4":
        listening = opened(socket.create_server(("127.0.0.1", 0)))
        return listening, "127.0.0.1"
    host = "::ffff:127.0.0.1" if request.param == "both" else "::1"
    listening = opened(socket.socket(socket.AF_INET6))
    listening.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0)
    listening.bind((host, 0))
    listening.listen()
    return listening, host.removeprefix("::ffff:")


def comes_in(listening, host):
    with socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET) as one:
        one.settimeout(0.2)
        try:
            one.connect((host, listening.getsockname()[1]))
        except TimeoutError:
            return False
        listening.accept()[0].close()
        return True


def test_nobody_comes_in_from_there_until_it_is_open_again(door, opened):
    listening, host = door
    here = opened(socket.create_connection((host, listening.getsockname()[1])))
    there = opened(listening.accept()[0])
    keep_out(listening.fileno(), [*MANY[:5], host, *MANY[5:-1]])
    assert not comes_in(listening, host)
    here.sendall(b"still here")
    assert there.recv(10) == b"still here"
    keep_out(listening.fileno(), MANY)
    assert comes_in(listening, host)
    keep_out(listening.fileno(), [host])
    assert not comes_in(listening, host)
    keep_out(listening.fileno(), [])
    assert comes_in(listening, host)


def test_what_was_taken_in_meanwhile_is_heard(door, opened):
    """A connection has the filter that its door had when it came."""
    listening, host = door
    keep_out(listening.fileno(), MANY)
    here = opened(socket.create_connection((host, listening.getsockname()[1])))
    there = opened(listening.accept()[0])
    here.sendall(bytes(1_000_000))
    assert len(there.recv(1_000_000, socket.MSG_WAITALL)) == 1_000_000
