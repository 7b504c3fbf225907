from __future__ import annotations

import os
import socket
import subprocess
import sys
import time
from contextlib import closing

import pytest

from distributor.testing.proxy import Hindrance, Proxy, behind_proxy
from topology.processes import Process, ProcessKind

pytestmark = pytest.mark.net

BEHIND, FRONT = "127.0.0.3", "127.0.1.3"
FRONTS = {FRONT: BEHIND}

ECHO = f"""
import socket
with socket.create_server(({BEHIND!r}, 0)) as listener:
    print(listener.getsockname()[1], flush=True)
    while True:
        with listener.accept()[0] as one:
            while got := one.recv(1 << 16):
                one.sendall(got)
"""


class Echo:
    """A process that says again what it hears, and its name."""

    name = "echo"

    def __init__(self):
        self.process = subprocess.Popen([sys.executable, "-c", ECHO], stdout=subprocess.PIPE)
        self.place = (FRONT, int(self.process.stdout.readline()))

    def close(self):
        self.process.kill()
        self.process.wait()
        self.process.stdout.close()


@pytest.fixture
def echo():
    with closing(Echo()) as echo:
        yield echo


@pytest.fixture
def proxy(echo):
    processes = {os.getpid(): "tests", echo.process.pid: echo.name}
    with closing(Proxy(FRONTS, lambda: processes)) as proxy:
        yield proxy


def to_echo(sender, receiver):
    return (sender, receiver) == ("tests", "echo")


def from_echo(sender, receiver):
    return (sender, receiver) == ("echo", "tests")


def connected(place, until):
    """Who listens is seen a moment later."""

    def attempt():
        try:
            return socket.create_connection(place, timeout=60)
        except ConnectionRefusedError:
            return None

    return until(attempt)


def said(one, text):
    one.sendall(text)
    return heard(one, len(text))


def heard(one, size):
    got = b""
    while len(got) < size:
        piece = one.recv(size - len(got))
        assert piece, got
        got += piece
    return got


def hears_nothing(one):
    one.settimeout(0.3)
    with pytest.raises(TimeoutError):
        one.recv(1)
    one.settimeout(10)


def test_it_carries_both_ways_much_and_little(proxy, echo, until):
    with connected(echo.place, until) as one:
        assert said(one, b"hello") == b"hello"
        text = os.urandom(60_000)
        for _ in range(20):
            assert said(one, text) == text


@pytest.mark.slow
@pytest.mark.parametrize("way", [to_echo, from_echo])
def test_one_direction_is_stopped_and_goes_on_with_what_has_waited(proxy, echo, until, way):
    with connected(echo.place, until) as one:
        said(one, b"before")
        with proxy.hindered(Hindrance(way)):
            one.sendall(b"meanwhile")
            hears_nothing(one)
        assert heard(one, 9) == b"meanwhile"
        assert said(one, b"after") == b"after"


@pytest.mark.slow
def test_ways_of_others_go_on(proxy, echo, until):
    others = Hindrance(lambda sender, _: sender not in ("tests", "echo"))
    with connected(echo.place, until) as one, proxy.hindered(others):
        assert said(one, b"hello") == b"hello"


@pytest.mark.slow
def test_what_is_another_proxys_is_left_to_it(echo, until):
    mine = {os.getpid(): "tests", echo.process.pid: echo.name}
    with (
        closing(Proxy(FRONTS, dict)),
        closing(Proxy(FRONTS, lambda: mine)) as proxy,
        connected(echo.place, until) as one,
        proxy.hindered(Hindrance(to_echo)),
    ):
        one.sendall(b"hello")
        hears_nothing(one)


@pytest.mark.slow
def test_a_new_connection_is_made_and_stopped_alike(proxy, echo, until):
    connected(echo.place, until).close()
    with proxy.hindered(Hindrance(from_echo)), socket.create_connection(echo.place, 10) as one:
        one.sendall(b"hello")
        hears_nothing(one)


@pytest.mark.slow
def test_a_slow_way_carries_so_much_a_second(proxy, echo, until):
    with connected(echo.place, until) as one, proxy.hindered(Hindrance(to_echo, 4_000)):
        began = time.monotonic()
        assert len(said(one, bytes(4_000))) == 4_000
        assert time.monotonic() - began > 0.9


def test_that_a_process_is_dead_is_heard_of_on_old_connections_and_new_ones(proxy, echo, until):
    with connected(echo.place, until) as one:
        said(one, b"hello")
        echo.close()
        assert _ended(one)
        until(lambda: _is_refused(echo.place))


@pytest.mark.slow
def test_that_it_is_dead_is_not_heard_of_where_it_is_not_heard(proxy, echo, until):
    with connected(echo.place, until) as one:
        said(one, b"hello")
        with proxy.hindered(Hindrance(from_echo)):
            echo.close()
            hears_nothing(one)
        assert _ended(one)


def _ended(one):
    try:
        return one.recv(1) == b""
    except ConnectionResetError:
        return True


def _is_refused(place):
    try:
        with socket.create_connection(place, timeout=60) as one:
            return _ended(one)
    except ConnectionRefusedError:
        return True


def test_a_process_binds_behind_what_its_topology_names_before():
    words = ("--query", f"tcp://{FRONT}:7000", "--tower", f"tcp://{FRONT}:7001", "--host", "h")
    store = Process(name="s", kind=ProcessKind.STORE, cluster="c", command=words, metrics=None)
    there = behind_proxy(store, FRONTS).command
    assert there == ("--query", f"tcp://{BEHIND}:7000", *words[2:])
    tower = Process(
        name="t",
        kind=ProcessKind.TOWER,
        cluster="c",
        command=("--endpoint", f"tcp://{FRONT}:7001"),
        metrics=None,
    )
    assert behind_proxy(tower, FRONTS).command == ("--endpoint", f"tcp://{BEHIND}:7001")
    assert behind_proxy(tower, {}) == tower
