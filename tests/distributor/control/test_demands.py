"""What operators demand of links, all of it at once."""

from __future__ import annotations

import pytest

from dafka.limits import HOLES_PASSED_MAX
from dafka.model import Partition, replace
from distributor.control.aims import LinkPlace, LinkTurn, place_of
from distributor.control.demands import Demands, HolePass, LevelPause, begun_anew, objection
from distributor.control.messages import FlowKind
from distributor.control.wanted import flows_of
from distributor.link.events import Hole
from topology import load

FOUR = load("config/four-clusters.yaml")
FLOWS = flows_of(FOUR, "cluster-1")
TOP = LinkPlace(3, 1, "")
A, B = (Partition("orders", one * 32) for one in "AB")
NONE = Demands()


def after(*demands, begin=NONE):
    for one in demands:
        begin = begin.after(one, FLOWS)
    return begin


def test_each_changes_what_it_is_about():
    passing = HolePass(3, {TOP: [Hole(A, 3, 9)]})
    found = after(LinkTurn(3, "cluster-4"), LevelPause(3, paused=True), passing)
    assert found == Demands({TOP: "cluster-4"}, frozenset({3}), 0, {TOP: (Hole(A, 3, 9),)})
    assert after(LevelPause(3, paused=False), LinkTurn(3, ""), begin=found) == Demands(
        passed=found.passed
    )


def test_records_of_a_paused_level_are_paused():
    found = after(LevelPause(3, paused=True))
    for flow in FLOWS:
        assert found.pauses(flow) == (flow.link.level == 3 and flow.kind is FlowKind.RECORDS)


def test_what_is_paused_is_so_in_its_epoch():
    found = replace(after(LevelPause(3, paused=True)), levels_epoch=2)
    assert found.lasting(2) == found
    assert found.lasting(3) == Demands(levels_epoch=3)
    assert found.lasting(3).lasting(2).paused == frozenset()


def test_a_flow_knows_the_holes_of_its_share():
    (flow,) = [one for one in FLOWS if place_of(one.link) == TOP and one.kind is FlowKind.RECORDS]
    holes = (Hole(A, 3, 9), Hole(B, 1, 2))
    found = after(HolePass(3, {TOP: [*reversed(holes)]}))
    assert found.shaped(flow) == replace(flow, passes=holes)
    halves = [found.shaped(replace(flow, share=share, shares=2)).passes for share in (0, 1)]
    assert sorted(sum(halves, ())) == sorted(holes)
    for other in FLOWS:
        if other != flow:
            assert found.shaped(other) == other


def test_of_a_partition_the_last_hole_is_known_and_what_is_over_is_forgotten():
    found = after(HolePass(3, {TOP: [Hole(A, 3, 9), Hole(B, 1, 2)]}))
    found = after(HolePass(3, {TOP: [Hole(A, 9, 12)]}, {TOP: frozenset({B})}), begin=found)
    assert found.passed == {TOP: (Hole(A, 9, 12),)}
    gone = after(HolePass(3, {}, {TOP: frozenset({A})}), begin=found)
    assert gone == NONE


def test_only_who_is_turned_begins_anew_though_nothing_is_other():
    assert begun_anew(LinkTurn(3, ""), FLOWS) == {TOP}
    assert begun_anew(LevelPause(3, paused=True), FLOWS) == frozenset()


@pytest.mark.parametrize(
    ("demand", "complaint"),
    [
        (LevelPause(3, paused=True), None),
        (LevelPause(2, paused=True), "no link crosses level 2 here"),
        (HolePass(2, {}), "no link crosses level 2 here"),
        (LinkTurn(3, "cluster-2"), "'cluster-2' is no target here"),
    ],
    ids=range(4),
)
def test_what_cannot_be_is_said(demand, complaint):
    found = objection(FLOWS, NONE, demand)
    assert found is None if complaint is None else complaint in found


def test_more_holes_than_are_kept_are_refused():
    holes = [Hole(Partition("orders", f"{n:032X}"), 0, 1) for n in range(HOLES_PASSED_MAX)]
    full = HolePass(3, {TOP: holes})
    assert objection(FLOWS, NONE, full) is None
    more = HolePass(3, {TOP: [Hole(Partition("other", "A"), 0, 1)]})
    assert "skip_overtaken" in objection(FLOWS, after(full), more)
    instead = replace(more, over={TOP: frozenset({holes[0].partition})})
    assert objection(FLOWS, after(full), instead) is None
