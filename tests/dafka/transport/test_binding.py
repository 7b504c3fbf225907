from __future__ import annotations

import pytest

from dafka.errors import MisuseError
from dafka.transport.binding import Binding


@pytest.mark.parametrize(
    ("text", "place"),
    [
        ("127.0.0.1", ("tcp", "127.0.0.1", 0)),
        ("store-1.example:7000", ("tcp", "store-1.example", 7_000)),
        ("::1", ("tcp", "[::1]", 0)),
        ("[::1]", ("tcp", "[::1]", 0)),
        ("[::1]:7000", ("tcp", "[::1]", 7_000)),
        ("*", ("tcp", "*", 0)),
        ("*:65535", ("tcp", "*", 65_535)),
        ("ipc:///run/dafka/", ("ipc", "/run/dafka", 0)),
        ("inproc://", ("inproc", "", 0)),
    ],
)
def test_places(text, place):
    assert Binding.parse(text) == place


@pytest.mark.parametrize(
    "text",
    [
        *("", ":", "h:", "h:0", "h:65536", "h:7x", "a b", "tcp://h", "[::1", "**", "h:1:2", "h\n"),
        *("inproc:", "inproc://name", "ipc:", "ipc://", "ipc://relative", "ipc:///a b", 5),
    ],
)
def test_anything_else_is_refused(text):
    with pytest.raises(MisuseError, match="cannot be used: expected"):
        Binding.parse(text)


@pytest.mark.parametrize(
    ("host", "advertise", "told"),
    [
        ("10.0.0.1", None, ("10.9.8.7", 5)),
        ("eth0", None, ("10.9.8.7", 5)),
        ("*", None, ("", 5)),
        ("0.0.0.0", None, ("", 5)),
        ("[::]", None, ("", 5)),
        ("*", "10.0.0.2", ("10.0.0.2", 5)),
        ("*", "gate.example", ("192.0.2.7", 5)),
        # In brackets: C towers put it into an endpoint as it is.
        ("*", "fd00::1", ("[fd00::1]", 5)),
        ("10.0.0.1", "gate.example:7000", ("192.0.2.7", 7_000)),
    ],
)
def test_what_others_are_told(monkeypatch, host, advertise, told):
    known = {"gate.example": "192.0.2.7"}
    monkeypatch.setattr("dafka.transport.binding.numeric", lambda host: known.get(host, host))
    assert Binding.parse(host).told(advertise, "tcp://10.9.8.7:5") == told


def test_a_name_without_an_address_is_told_to_nobody(monkeypatch):
    monkeypatch.setattr("dafka.transport.binding.numeric", lambda host: host)
    with pytest.raises(MisuseError, match=r"advertise 'gate\.example': no address is known"):
        Binding.parse("*").told("gate.example", "tcp://0.0.0.0:5")


def test_of_a_place_without_a_network_its_endpoint_is_told():
    assert Binding.parse("inproc://").told(None, "inproc://AB.1") == ("inproc://AB.1", 0)


@pytest.mark.parametrize("advertise", ["*", "0.0.0.0:7000", "::", "ipc:///run", "inproc://"])
def test_nobody_is_told_of_what_nobody_can_connect_to(advertise):
    with pytest.raises(MisuseError, match="nobody can connect to it"):
        Binding.parse("*").told(advertise, "tcp://0.0.0.0:5")


def test_what_is_no_tcp_cannot_be_reached_elsewhere():
    with pytest.raises(MisuseError, match="the node is at 'ipc:///run'"):
        Binding.parse("ipc:///run").told("gate.example", "ipc:///run/AB.1")


def test_names_without_a_network_are_never_the_same():
    for place, begin in (("ipc:///run/c1", "ipc:///run/c1/AB."), ("inproc://", "inproc://AB.")):
        names = {Binding.parse(place).endpoint("AB") for _ in range(3)}
        assert len(names) == 3
        assert all(name.startswith(begin) for name in names)


def test_a_directory_with_too_long_a_name_is_refused():
    with pytest.raises(MisuseError, match="113 bytes at most"):
        Binding.parse("ipc:///" + 80 * "d").endpoint("AB" * 16)


@pytest.mark.parametrize(
    ("place", "tower", "complaint"),
    [
        ("inproc://", "ipc:///run/t", "in other processes and cannot connect to inproc"),
        ("inproc://", "tcp://127.0.0.1:5", "in other processes"),
        ("ipc:///run", "tcp://10.0.0.1:5", "on other machines and cannot connect to ipc"),
        ("*", "ipc:///run/t", "sees no addresses"),
    ],
)
def test_a_place_that_some_who_hear_of_it_cannot_reach_is_refused(place, tower, complaint):
    with pytest.raises(MisuseError, match=complaint):
        Binding.parse(place).check(["inproc://t", tower], None)


@pytest.mark.parametrize(
    ("place", "tower", "advertise"),
    [
        ("inproc://", "inproc://t", None),
        ("ipc:///run", "inproc://t", None),
        ("ipc:///run", "ipc:///run/t", None),
        ("ipc:///run", "tcp://127.0.0.1:5", None),
        ("ipc:///run", "tcp://[::1]:5", None),
        ("10.0.0.1", "inproc://t", None),
        ("*", "ipc:///run/t", "10.0.0.1"),
        ("*", "tcp://10.0.0.1:5", None),
    ],
)
def test_places_that_all_who_hear_of_them_can_reach(place, tower, advertise):
    Binding.parse(place).check([tower], advertise)
