from __future__ import annotations

import socket
from dataclasses import replace
from pathlib import Path

import pytest

from distributor.errors import PlanError
from distributor.machine import is_own, refuse_elsewhere
from topology import load

FOUR = load(Path(__file__).parents[2] / "config" / "four-clusters.yaml")


@pytest.mark.parametrize("host", ["127.0.0.1", "127.3.2.1", "localhost", "0.0.0.0"])
def test_loopback_is_this_machine_s(host):
    assert is_own(host)


def test_so_is_an_interface_by_its_name():
    assert all(is_own(name) for _, name in socket.if_nameindex())


def test_so_is_a_name_that_stands_for_an_own_address(monkeypatch):
    stands_for = {"here": "127.0.0.1", "there": "192.0.2.1"}
    found = socket.getaddrinfo
    monkeypatch.setattr(
        socket, "getaddrinfo", lambda host, *rest, **how: found(stands_for[host], *rest, **how)
    )
    assert is_own("here")
    assert not is_own("there")


@pytest.mark.parametrize("host", ["192.0.2.1", "[2001:db8::1]", "dafka-1.example", "a" * 64])
def test_the_address_of_another_machine_or_of_none_is_not(host):
    assert not is_own(host)


def test_a_topology_of_this_machine_can_run_here():
    refuse_elsewhere(FOUR)


@pytest.mark.parametrize(
    "elsewhere",
    [
        {"host": "192.0.2.1"},
        {"towers": ("tcp://127.0.0.1:17110", "tcp://192.0.2.1:1")},
        {"stores": (replace(FOUR.clusters[1].stores[0], query="tcp://192.0.2.1:2"),)},
        {"registry": "http://192.0.2.1:3"},
    ],
)
def test_a_host_of_another_machine_is_named_with_its_cluster(elsewhere):
    one, two, *rest = FOUR.clusters
    topology = replace(FOUR, clusters=(one, replace(two, **elsewhere), *rest))
    with pytest.raises(PlanError, match=r"host '192\.0\.2\.1' of cluster-2 is not this machine's"):
        refuse_elsewhere(topology)
