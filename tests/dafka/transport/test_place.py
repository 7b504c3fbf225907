from __future__ import annotations

import pytest

from dafka.errors import MisuseError
from dafka.transport.place import Place


@pytest.mark.parametrize(
    ("text", "place"),
    [
        ("127.0.0.1", ("127.0.0.1", 0)),
        ("store-1.example:7000", ("store-1.example", 7_000)),
        ("::1", ("[::1]", 0)),
        ("[::1]", ("[::1]", 0)),
        ("[::1]:7000", ("[::1]", 7_000)),
        ("*", ("*", 0)),
        ("*:65535", ("*", 65_535)),
    ],
)
def test_a_host_with_or_without_a_port(text, place):
    assert Place.parse(text) == place


@pytest.mark.parametrize(
    "text",
    [
        "",
        ":",
        "h:",
        "h:0",
        "h:65536",
        "h:7x",
        "a b",
        "tcp://h",
        "[::1",
        "**",
        "h:1:2",
        "h\n",
        5,
        None,
    ],
)
def test_anything_else_is_refused(text):
    with pytest.raises(MisuseError, match="cannot be used: expected HOST or HOST:PORT"):
        Place.parse(text)


@pytest.mark.parametrize(
    ("host", "advertise", "told"),
    [
        ("10.0.0.1", None, ("10.0.0.1", 5)),
        ("127.0.0.1", None, ("127.0.0.1", 5)),
        ("*", None, ("", 5)),
        ("0.0.0.0", None, ("", 5)),
        ("[::]", None, ("", 5)),
        ("*", "gate.example", ("gate.example", 5)),
        (
            "*",
            "fd00::1",
            ("[fd00::1]", 5),
        ),  # in brackets: C towers put it into an endpoint as it is
        ("10.0.0.1", "gate.example:7000", ("gate.example", 7_000)),
    ],
)
def test_what_others_are_told(host, advertise, told):
    assert Place.parse(host).advertised(advertise, 5) == told


@pytest.mark.parametrize("advertise", ["*", "0.0.0.0:7000", "::"])
def test_nobody_is_told_of_every_interface(advertise):
    with pytest.raises(MisuseError, match="nobody can connect to it"):
        Place.parse("*").advertised(advertise, 5)
