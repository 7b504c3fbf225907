from __future__ import annotations

from contextlib import contextmanager
from types import SimpleNamespace

import pytest

from distributor.control.messages import LinkRow
from distributor.control.server import ControlServer
from distributor.links import ask_links
from topology import load, plan

pytestmark = pytest.mark.net


@pytest.fixture
def controlled(make_pair, free_ports):
    """The plan of two clusters whose distributors take commands."""
    pair = make_pair(f"control: {{first_port: {free_ports(2)}}}")
    return plan(load(pair.file))


@contextmanager
def serving(the_plan, index, *rows):
    """A distributor that says this of its links."""
    links = [SimpleNamespace(targets=(row.target,), row=lambda row=row: row) for row in rows]
    port = the_plan.topology.control.first_port + index
    server = ControlServer(f"tcp://127.0.0.1:{port}", links)
    yield
    server.close()


def row(source="c1", target="c2", branch=1, **facts):
    return LinkRow(source, 1, branch, target, "serving", "", "", 0, 0, **facts)


def test_every_link_of_the_plan_is_given_what_it_says(controlled):
    one, two = row(), row("c2", "c1", 0, diverged=3)
    with serving(controlled, 0, one), serving(controlled, 1, two):
        told = ask_links(controlled)
    assert told.rows == dict(zip(controlled.links, [one, two], strict=True))
    assert told.silent == []


def test_who_says_nothing_is_named(controlled):
    with serving(controlled, 0, row()):
        told = ask_links(controlled)
    assert list(told.rows) == [controlled.links[0]]
    (silent,) = told.silent
    assert silent.startswith("c2 level 1: distributor at tcp://")


def test_who_runs_another_plan_is_named(controlled):
    with serving(controlled, 0, row(branch=0)), serving(controlled, 1):
        told = ask_links(controlled)
    assert told.rows == {}
    assert [line.partition(":")[0] for line in told.silent] == ["c1 level 1", "c2 level 1"]
    assert all("restart it" in line for line in told.silent)


def test_without_control_ports_nobody_is_asked(pair):
    told = ask_links(plan(pair.topology))
    assert (told.rows, told.silent) == ({}, [])
