"""Replicas that are asked what their links do."""

from __future__ import annotations

import threading
from dataclasses import replace
from wsgiref.simple_server import WSGIRequestHandler, make_server

import pytest

from distributor.control.protocol import LinkRow, OpenedRow
from distributor.operations.replicas import ask_replicas
from distributor.operations.status import NO_ANSWER, UNWRITTEN, Told, ask_links
from distributor.operations.status import _unsaid as unsaid
from tests.support.opened import page_of
from topology import plan
from topology.model import ControllerSpec, ReplicaSpec
from topology.testing import topology_of, tree_of

pytestmark = pytest.mark.net

PAIR = topology_of(tree_of((1, "c1", "c2")))


class _Silent(WSGIRequestHandler):
    def log_message(self, *_):
        """Nothing."""


@pytest.fixture
def serve():
    """A function that serves a page as a replica, and returns where."""
    servers = []

    def serve(page, status="200 OK"):
        def answer(environ, start_response):
            assert environ["PATH_INFO"] == "/links"
            start_response(status, [])
            return [page.encode()]

        server = make_server("127.0.0.1", 0, answer, handler_class=_Silent)
        threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True).start()
        servers.append(server)
        return f"127.0.0.1:{server.server_port}"

    yield serve
    for server in servers:
        server.shutdown()
        server.server_close()


def controlled(*metrics):
    """The plan of two clusters, the first of which has replicas there."""
    first, second = PAIR.clusters
    replicas = tuple(
        ReplicaSpec(listen=f"replica:{number}", metrics=place)
        for number, place in enumerate(metrics, 1)
    )
    first = replace(first, controllers=(ControllerSpec(metrics="a:1"),), replicas=replicas)
    return plan(replace(PAIR, clusters=(first, second)))


def row(source="c1", branch=1, **facts):
    return LinkRow(source, 1, branch, "c2", "serving", "", "", 0, 0, **facts)


def test_a_link_is_what_the_replica_says_that_writes_it(serve):
    warm, writer = row(), row(diverged=2)
    places = [serve(page_of(OpenedRow(False, warm))), serve(page_of(OpenedRow(True, writer)))]
    the_plan = controlled(*places)
    assert ask_replicas(the_plan) == ({the_plan.links[0]: writer}, {}, {"c1"})
    told = ask_links(the_plan)
    assert (told.silent, told.unwritten) == ([], set())


def test_a_link_that_none_writes_is_told_apart_from_one_of_which_none_answers(serve):
    the_plan = controlled(serve(page_of(OpenedRow(False, row()))))
    told = ask_links(the_plan)
    assert told.rows == {}
    assert told.silent == ["c1 level 1: no replica writes it"]
    mine, others = the_plan.links
    assert [unsaid(the_plan, one, told) for one in (mine, others)] == [UNWRITTEN, ""]
    assert unsaid(the_plan, mine, Told()) == NO_ANSWER


def test_links_of_other_clusters_and_plans_are_passed_over(serve):
    strange = [OpenedRow(True, row("c2", 0)), OpenedRow(True, row(branch=5))]
    the_plan = controlled(serve(page_of(*strange)))
    assert ask_replicas(the_plan)[0] == {}


def test_who_does_not_answer_as_a_replica_is_named_with_the_reason(serve, free_ports):
    closed = f"127.0.0.1:{free_ports(1)}"
    places = [closed, serve("no", "401 Unauthorized"), serve("<html>")]
    rows, silent, answered = ask_replicas(controlled(*places))
    assert (rows, answered) == ({}, set())
    assert list(silent) == ["c1 replica replica:1", "c1 replica replica:2", "c1 replica replica:3"]
    one, two, three = silent.values()
    assert "refused" in one
    assert two == f"{places[1]}: no"
    assert three == f"{places[2]}: does not answer as a replica of this version"


def test_without_replicas_nobody_is_asked():
    assert ask_replicas(plan(PAIR)) == ({}, {}, set())
