"""Operators on another host: who shows which certificate may ask and command a controller.

The clusters, their replicas and controllers are here; each command is a process of another host.
"""

from __future__ import annotations

import json
import logging
import sys
from contextlib import ExitStack

import pytest

from tests.support.other_host import OtherHost
from tests.support.two_clusters import Traffic, World, dafka

log = logging.getLogger(__name__)

pytestmark = [pytest.mark.net, pytest.mark.slow]

NO_ANSWER = 4
"""The exit code of `wait` where no controller in charge answers."""


class Driven:
    """Two clusters, of which the first has two replicas, and two controllers with certificates."""

    def __init__(self, stack, world, folder, address):
        shown = {
            role: [
                *("--certificate", str(folder / f"{role}.pem")),
                *("--certificate-key", str(folder / f"{role}.key")),
            ]
            for role in ("replica", "controller")
        }
        authority = str(folder / "ca.pem")
        places = [f"127.0.0.1:{world.ports[at]}" for at in (6, 7)]
        named = [word for place in places for word in ("--replica", place)]
        for place in places:
            world.distributor(
                "replica", "--listen", place, *shown["replica"], "--client-ca", authority
            )
        self.places = [f"{address}:{world.ports[at]}" for at in (8, 9)]
        self.controllers = [
            world.distributor(
                *("controller", "run", *named, "--metrics", f"127.0.0.1:{world.ports[at]}"),
                *(*shown["controller"], "--replica-ca", authority),
                *("--listen", place, "--operator-ca", authority),
            )
            for place, at in zip(self.places, (10, 11), strict=True)
        ]


@pytest.fixture
def other(until):
    with ExitStack() as stack:
        yield OtherHost(stack, until)


@pytest.fixture
def folders(tmp_path, other):
    """Where the certificates are that count, and those of a stranger's authority."""
    folders = [tmp_path / name / "tls" for name in ("own", "strange")]
    for folder in folders:
        hosts = ("--host", other.sees, "--host", "127.0.0.1")
        assert dafka("keys", "tls", *hosts, "--dir", str(folder.parent)).wait(60) == 0
    return folders


@pytest.fixture
def driven(tmp_path, free_ports, folders, other):
    first = free_ports(12)
    with ExitStack() as stack:
        world = World(stack, range(first, first + 12), tmp_path)
        yield Driven(stack, world, folders[0], other.sees), Traffic(stack, world, tmp_path)


def test_who_shows_which_certificate_may_ask_and_command_from_another_host(
    driven, folders, other, until
):
    system, traffic = driven
    own, strange = folders
    log.info("another host is %s", "a namespace" if other.real else "another address")

    def shows(role, folder=own, believes=own):
        certificate = ("--certificate", folder / f"{role}.pem")
        key = ("--certificate-key", folder / f"{role}.key")
        return (*certificate, *key, "--controller-ca", believes / "ca.pem")

    def asks(what, place, *words):
        return other.run(sys.executable, "-m", "distributor", "controller", what, place, *words)

    def waits(place, *words):
        return asks("wait", place, "--timeout", "5", *words)

    traffic.go()
    until(lambda: len(traffic.read) > 100)
    one, two = system.places
    for place in (one, two):  # who is not in charge names who is, and that one is asked
        until(lambda place=place: waits(place, *shows("viewer"))[0] == 0, 60)
    if other.real:
        loopback = f"127.0.0.1:{one.rpartition(':')[2]}"
        assert waits(loopback, *shows("viewer"))[0] == NO_ANSWER, "that is its own loopback"

    code, said, _ = asks("explain", one, "orders", "--json", *shows("viewer"))
    assert (code, json.loads(said)["carried"]) == (0, True)
    commands = (
        ("retarget", "--level", "1", "--to", "south"),
        ("failback", "--level", "1"),
        ("pause", "--level", "1"),
        ("unpause", "--level", "1"),
        ("resume", "--level", "1", "--topic", "orders"),
    )
    for what, *words in commands:
        code, _, complaint = asks(what, one, *words, *shows("viewer"))
        assert (code, "a certificate of a viewer may not ask this" in complaint) == (1, True)
    for what, *words in commands[:-1]:
        code, said, complaint = asks(what, two, *words, "--json", *shows("operator"))
        assert (code, complaint, json.loads(said)["target"]) == (0, "", "south")
    assert asks(*("resume", two), *commands[-1][1:], *shows("operator"))[0] == 2, (
        "none is overtaken"
    )

    code, _, complaint = waits(one, *shows("controller"))
    told = "a certificate of a controller may not ask this"
    assert (code, told in complaint) == (NO_ANSWER, True)
    for words in (
        (),  # no certificate at all
        shows("replica"),  # one that is for being connected to
        shows("operator", folder=strange),  # one that nobody here has signed
        shows("operator", believes=strange),  # the controller shows one that is not believed
    ):
        assert waits(one, *words)[0] == NO_ANSWER

    # Whoever of them was in charge, the other one answers then.
    system.controllers[0].kill()
    until(lambda: waits(two, *shows("operator"))[0] == 0, 60)
    traffic.check(until)
