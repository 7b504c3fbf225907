"""Where operators want links to aim."""

from __future__ import annotations

from distributor.control.aims import (
    LinkPlace,
    LinkTurn,
    aimed,
    objection,
    place_of,
    turned,
    turning,
)
from distributor.control.messages import FlowKind
from distributor.control.wanted import flows_of
from topology import load

FOUR = load("config/four-clusters.yaml")
FLOWS = flows_of(FOUR, "cluster-1")
TOP = LinkPlace(3, 1, "")


def after(aims, turn):
    return turned(aims, turning(FLOWS, turn), turn.to)


def test_a_link_that_is_aimed_elsewhere_has_that_target_in_front():
    aims = after({}, LinkTurn(3, "cluster-4"))
    assert aims == {TOP: "cluster-4"}
    for flow in FLOWS:
        found = aimed(flow, aims)
        if place_of(flow.link) == TOP:
            assert found.link.targets == ("cluster-4", "cluster-3")
            assert (found.link.beyond, found.kind) == (flow.link.beyond, flow.kind)
        else:
            assert found == flow


def test_what_the_file_prefers_is_preferred_again():
    aims = after({}, LinkTurn(3, "cluster-4"))
    assert after(aims, LinkTurn(3, "")) == {}
    assert after(aims, LinkTurn(1, "")) == aims
    back = after(aims, LinkTurn(3, "cluster-3"))
    assert [aimed(flow, back) for flow in FLOWS] == FLOWS


def test_what_is_no_target_is_not_heeded():
    assert after({TOP: "cluster-4"}, LinkTurn(3, "cluster-2")) == {TOP: "cluster-4"}
    assert [aimed(flow, {TOP: "cluster-9"}) for flow in FLOWS] == FLOWS


def test_why_links_cannot_be_turned_is_said():
    assert objection(FLOWS, LinkTurn(3, "cluster-4")) is None
    assert objection(FLOWS, LinkTurn(3, "")) is None
    assert objection(FLOWS, LinkTurn(2, "")) == "no link crosses level 2 here"
    known = "'cluster-2' is no target here: there are cluster-3, cluster-4"
    assert objection(FLOWS, LinkTurn(3, "cluster-2")) == known
    schemas = [flow for flow in FLOWS if flow.kind is FlowKind.SCHEMAS]
    assert objection(schemas, LinkTurn(0, "")) == "no link crosses level 0 here"
