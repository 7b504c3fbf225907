"""Replicas that are asked what their links do."""

from __future__ import annotations

import json
import threading
from dataclasses import replace
from urllib.parse import parse_qsl
from wsgiref.simple_server import WSGIRequestHandler, make_server

import pytest

from distributor.control.protocol import (
    LinkRow,
    OpenedFlowRow,
    OpenedRow,
    RememberedPage,
    values_of,
)
from distributor.operations.replicas import (
    RememberedByReplicas,
    ToldByReplicas,
    ask_replicas,
    paused_levels,
    remembered_by_replicas,
    unpaused,
)
from distributor.operations.shares import UNWRITTEN
from distributor.operations.status import NO_ANSWER, Told, ask_links
from distributor.operations.status import _unsaid as unsaid
from tests.support.opened import page_of
from topology import plan
from topology.model import ControllerSpec, Links, ReplicaSpec
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
            start_response(status, [])
            if callable(page):
                return [page(environ["PATH_INFO"], environ["QUERY_STRING"]).encode()]
            assert environ["PATH_INFO"] == "/links"
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


def links(*rows, positions=True):
    """The page of a replica that writes positions of the link, too, or only could."""
    others = [OpenedFlowRow("offsets", "c1", 1, 1, "", positions)]
    return page_of(*rows, others=others)


def test_a_link_is_what_the_replica_says_that_writes_it(serve):
    warm, writer = row(), row(diverged=2)
    pages = links(OpenedRow(False, warm), positions=False), links(OpenedRow(True, writer))
    the_plan = controlled(*map(serve, pages))
    assert ask_replicas(the_plan) == ToldByReplicas({the_plan.links[0]: writer})
    told = ask_links(the_plan)
    assert (told.silent, told.unwritten, told.idle) == ([], set(), [])


def flow(level, state, **facts):
    """A flow on the page of a controller."""
    return {"source": "c1", "level": level, "kind": "records", "state": state, **facts}


@pytest.mark.parametrize(
    ("in_charge", "flows", "paused"),
    [
        (True, [flow(1, "paused", share="0/1")], True),
        (True, [flow(1, ""), flow(2, "paused")], False),
        (True, [flow(1, "writing")], False),
        (False, [flow(1, "paused")], False),
    ],
)
def test_a_link_that_nobody_writes_is_paused_if_its_controller_says_so(
    in_charge, flows, paused, serve
):
    def page(path, _query):
        if path == "/controller":
            return json.dumps({"in_charge": in_charge, "epoch": 3, "flows": flows})
        return links(OpenedRow(False, row()))

    place = serve(page)
    the_plan = controlled(place)
    first, second = the_plan.topology.clusters
    others = (ControllerSpec(metrics="127.0.0.1:9"), ControllerSpec(metrics=place))
    clusters = (replace(first, controllers=others), second)
    the_plan = plan(replace(the_plan.topology, clusters=clusters))
    told = ask_links(the_plan)
    link = the_plan.links[0]
    assert (link in told.paused, link in told.unwritten) == (paused, not paused)
    assert unsaid(the_plan, link, told) == ("paused" if paused else UNWRITTEN)
    why = (
        "is paused, until distributor controller unpause lets it go on"
        if paused
        else "no replica writes it"
    )
    assert told.silent == [f"c1 level {link.crossing}: {why}"]
    known = {one["level"] for one in flows if one["state"] == "paused"}
    assert paused_levels(the_plan, clusters[0]) == (known if in_charge else None)


def test_a_link_that_none_writes_is_told_apart_from_one_of_which_none_answers(serve):
    the_plan = controlled(serve(links(OpenedRow(False, row()))))
    told = ask_links(the_plan)
    assert told.rows == {}
    assert told.silent == ["c1 level 1: no replica writes it"]
    mine, others = the_plan.links
    assert [unsaid(the_plan, one, told) for one in (mine, others)] == [UNWRITTEN, ""]
    assert unsaid(the_plan, mine, Told()) == NO_ANSWER


def share(number, of, writes=True, **facts):
    return OpenedRow(writes, row(**facts), number, of)


def in_shares(the_plan, number):
    return plan(replace(the_plan.topology, links=Links(shares=number)))


def test_a_link_is_written_once_all_its_shares_are(serve):
    places = [
        serve(links(share(0, 2, diverged=1), share(1, 2, writes=False), positions=False)),
        serve(links(share(0, 2, writes=False), share(1, 2, diverged=2))),
    ]
    the_plan = in_shares(controlled(*places), 2)
    found = ask_replicas(the_plan)
    assert found == ToldByReplicas({the_plan.links[0]: row(diverged=3)})
    the_plan = in_shares(controlled(places[1]), 2)
    found = ask_replicas(the_plan)
    (told,) = found.rows.values()
    assert (told.state, told.waits_for, told.diverged) == (
        *("unwritten", "a replica to write share 0/2"),
        2,
    )
    assert found.silent == ["c1 level 1: no replica writes share 0/2"]
    assert found.unwritten == set()


def test_a_link_that_is_in_other_shares_than_the_file_has_is_told(serve):
    place = serve(links(share(0, 2), share(1, 2, diverged=1), share(0, 3)))
    the_plan = in_shares(controlled(place), 3)
    found = ask_replicas(the_plan)
    assert found.rows == {the_plan.links[0]: row(diverged=1)}
    (told,) = found.silent
    assert told.startswith("c1 level 1: is written in 2 shares, the file has 3: start its replicas")


def test_positions_and_schemas_that_no_replica_brings_are_told(serve):
    the_plan = controlled(serve(links(OpenedRow(True, row()), positions=False)))
    first, second = the_plan.topology.clusters
    first = replace(first, registry="http://127.0.0.1:1")
    the_plan = plan(replace(the_plan.topology, clusters=(first, second)))
    assert ask_links(the_plan).idle == [
        "c1 level 1: no replica brings positions of groups",
        "c1: no replica runs its schema distributor",
    ]


def test_what_one_that_does_not_answer_may_do_is_not_said_to_be_done_by_none(serve, free_ports):
    the_plan = controlled(serve(links(positions=False)), f"127.0.0.1:{free_ports(1)}")
    found = ask_replicas(the_plan)
    assert found.silent[1] == "c1 level 1: no replica that answers writes it"
    assert found.idle == ["c1 level 1: no replica that answers brings positions of groups"]


def test_links_of_other_clusters_and_plans_are_passed_over(serve):
    strange = [OpenedRow(True, row("c2", 0)), OpenedRow(True, row(branch=5))]
    the_plan = controlled(serve(links(*strange)))
    assert ask_replicas(the_plan).rows == {}


def test_who_does_not_answer_as_a_replica_is_named_with_the_reason(serve, free_ports):
    closed = f"127.0.0.1:{free_ports(1)}"
    places = [closed, serve("no", "401 Unauthorized"), serve("<html>")]
    found = ask_replicas(controlled(*places))
    assert (found.rows, found.unwritten, found.idle) == ({}, set(), [])
    one, two, three = found.silent
    assert one.startswith(f"c1 replica replica:1: {closed}: ")
    assert "refused" in one
    assert two == f"c1 replica replica:2: {places[1]}: no"
    assert three == (
        f"c1 replica replica:3: {places[2]}: does not answer as a replica of this version"
    )


def test_without_replicas_nobody_is_asked():
    assert ask_replicas(plan(PAIR)) == ToldByReplicas()


def remembers(age_ms, heads, at_once):
    """A replica that tells so many heads at once."""

    def page(path, query):
        asked = dict(parse_qsl(query))
        assert (path, asked["cluster"]) == ("/remembered", "c2")
        first = int(asked["from"])
        rows = [(topic.encode(), b"AA", head) for topic, head in sorted(heads.items())]
        more = first + at_once < len(rows)
        told = RememberedPage(age_ms, tuple(rows[first : first + at_once]), more)
        return json.dumps(values_of(told))

    return page


def test_what_replicas_knew_of_a_cluster_is_asked_of_all_page_by_page(serve, free_ports):
    heads = {f"t{number}": number for number in range(5)}
    nobody = f"127.0.0.1:{free_ports(1)}"
    known = serve(remembers(1_500, heads, 2)), serve(remembers(-1, {}, 2)), nobody
    told = remembered_by_replicas(controlled(*known), "c2")
    assert told.age_s == 1.5
    found = [{place.topic: head for place, head in one.items()} for one in told.heads]
    assert found == [heads, {}]
    (silent,) = told.silent
    assert silent.startswith(f"c1 replica replica:3: {nobody}: ")
    assert remembered_by_replicas(controlled(*known), "c1") == RememberedByReplicas()


def test_a_level_is_paused_once_all_replicas_have_its_links_and_none_writes(serve):
    warm = links(OpenedRow(False, row()), positions=True)
    assert unpaused(controlled(serve(warm), serve(warm)), 1) == []
    assert unpaused(controlled(serve(warm)), 2) == [], "no link crosses it"
    writes = links(OpenedRow(True, row()))
    assert unpaused(controlled(serve(warm), serve(writes)), 1) == ["c1 level 1 to pause"]
    ending = links()
    waits = ["c1 replica replica:2 to have level 1"]
    assert unpaused(controlled(serve(warm), serve(ending)), 1) == waits
    half = links(share(0, 2, writes=False))
    assert unpaused(controlled(serve(warm), serve(half)), 1) == waits


def test_a_level_is_not_paused_where_a_replica_does_not_answer(serve):
    warm = links(OpenedRow(False, row()))
    the_plan = controlled(serve(warm), "127.0.0.1:1")
    assert unpaused(the_plan, 1) == ["c1 replica replica:2 to answer"]
