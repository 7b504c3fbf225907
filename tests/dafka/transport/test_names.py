"""HostNames are looked up in another thread, and known a little later."""

from __future__ import annotations

import threading

import pytest

from dafka.transport import names as module
from dafka.transport.names import FRESH_MS, NAMES_MAX, UNUSED_MS, HostNames, address_of

NOW_MS = 1_000


class Server:
    """What is known, and how often it was asked; it answers when told to."""

    def __init__(self, **known):
        self.known = known
        self.asked = []
        self.open = threading.Event()
        self.open.set()

    def __call__(self, name):
        self.asked.append(name)
        assert self.open.wait(120)
        return self.known.get(name)


@pytest.fixture
def server():
    return Server(db1="10.0.0.1")


@pytest.fixture
def names(server):
    names = HostNames(server)
    yield names
    server.open.set()
    names.close()
    if names._thread is not None:
        names._thread.join(120)
        assert not names._thread.is_alive()


def test_addresses_and_what_has_no_host_need_nobody(names):
    for endpoint in ("tcp://10.0.0.1:5", "tcp://[::1]:5", "ipc:///run/a", "inproc://a"):
        assert names.resolved(endpoint, NOW_MS) == (endpoint, False)
    assert names._thread is None


def test_a_name_is_known_a_little_later_and_waiting_stops_nobody(names, server, until):
    server.open.clear()
    assert names.resolved("tcp://db1:5", NOW_MS) == (None, False)
    assert names.resolved("tcp://DB1:6", NOW_MS) == (None, False)
    server.open.set()
    until(lambda: names.resolved("tcp://db1:5", NOW_MS) == ("tcp://10.0.0.1:5", False))
    assert names.resolved("tcp://Db1:6", NOW_MS) == ("tcp://10.0.0.1:6", False)
    assert server.asked == ["db1"]


def test_what_nobody_knows_is_said_once_and_asked_again_after_a_while(names, server, until, caplog):
    until(lambda: names.resolved("tcp://db2:5", NOW_MS) == (None, True))
    assert names.resolved("tcp://db2:5", NOW_MS + FRESH_MS - 1) == (None, True)
    assert caplog.text.count("a node announces itself by a name that is not known here") == 1
    server.known["db2"] = "10.0.0.2"
    later_ms = NOW_MS + 2 * FRESH_MS
    until(lambda: names.resolved("tcp://db2:5", later_ms) == ("tcp://10.0.0.2:5", False))


def test_an_address_holds_until_there_is_another(names, server, until):
    until(lambda: names.resolved("tcp://db1:5", NOW_MS)[0])
    server.known["db1"] = "10.0.0.9"
    later_ms = NOW_MS + FRESH_MS
    until(lambda: names.resolved("tcp://db1:5", later_ms)[0] == "tcp://10.0.0.9:5")
    del server.known["db1"]
    for _ in range(3):
        assert names.resolved("tcp://db1:5", later_ms + FRESH_MS) == ("tcp://10.0.0.9:5", False)


def test_they_are_bounded(names, server, until):
    """What waits for an answer is not forgotten: it would be asked for again and again."""
    server.open.clear()
    for _ in range(2):
        for number in range(NAMES_MAX + 10):
            assert names.resolved(f"tcp://n{number}:5", NOW_MS) == (None, False)
    assert len(names._found) == NAMES_MAX
    assert names._asked.qsize() <= NAMES_MAX
    assert "n0" in names._found
    server.open.set()
    until(lambda: names.resolved("tcp://n0:5", NOW_MS) == (None, True))
    last = f"tcp://n{NAMES_MAX}:5"
    until(lambda: names.resolved(last, NOW_MS) == (None, True))
    assert len(names._found) == NAMES_MAX
    assert "n0" not in names._found, "it was answered first"


def test_an_answer_that_nobody_asks_for_again_is_forgotten(names, server, until):
    server.open.clear()  # an answer that came meanwhile would be taken in by who asks next
    for number in range(NAMES_MAX):
        names.resolved(f"tcp://n{number}:5", NOW_MS)
    server.open.set()
    until(lambda: names._answered.qsize() == NAMES_MAX)
    assert names.resolved("tcp://db1:5", NOW_MS + UNUSED_MS - 1) == (None, False)
    assert "db1" not in names._found
    until(lambda: names.resolved("tcp://db1:5", NOW_MS + 2 * UNUSED_MS)[0] == "tcp://10.0.0.1:5")


def test_more_names_than_are_kept_have_all_their_turn(names, server, until):
    everybody = [f"host{number}" for number in range(NAMES_MAX + 50)]
    server.known = dict.fromkeys(everybody, "10.0.0.1")
    found = set()

    def announced():
        found.update(one for one in everybody if names.resolved(f"tcp://{one}:5", NOW_MS)[0])
        return len(found) == len(everybody)

    until(announced)
    assert len(names._found) == NAMES_MAX


def test_the_machine_is_asked(monkeypatch):
    assert address_of("localhost") == "127.0.0.1"
    six = [(module.socket.AF_INET6, 0, 0, "", ("::1", 0, 0, 0))]
    monkeypatch.setattr(module.socket, "getaddrinfo", lambda *_, **__: six)
    assert address_of("db1") == "[::1]"

    def fail(*_, **__):
        raise OSError

    monkeypatch.setattr(module.socket, "getaddrinfo", fail)
    assert address_of("db1") is None
