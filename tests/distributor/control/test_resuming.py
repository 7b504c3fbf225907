"""Which holes links go on behind, by what stores keep and what replicas have said of targets."""

from __future__ import annotations

import pytest

from dafka.model import Partition, replace
from distributor.control.aims import LinkPlace
from distributor.control.controller import ControllerMachine, ControllerState
from distributor.control.grants import Wished, Wishes
from distributor.control.questions import KnownFlows
from distributor.control.reports import FlowReport
from distributor.control.resuming import KeptRanges, ResumeOrder, hole_pass
from distributor.control.wanted import flows_of
from distributor.errors import RefusedCommandError
from distributor.link.events import Hole
from tests.support.control_commands import SETTINGS
from topology import load

FOUR = load("config/four-clusters.yaml")
FLOW = flows_of(FOUR, "cluster-1")[0]
PLACE = LinkPlace(FLOW.link.level, FLOW.link.branch, "")
A, B, C = (Partition("orders", one * 32) for one in "ABC")
ASKED = ResumeOrder(FLOW.link.level, "orders")


class Told(ControllerMachine):
    """A replica that has said how far targets are."""

    def __init__(self, *writes):
        super().__init__("c1", 1, "r1", SETTINGS)
        for number, write in enumerate(writes, 1):
            self.reports.flows[number] = FlowReport({}, write=write)

    @property
    def state(self):
        return ControllerState.ACTIVE


def passed(kept, *writes, flows=(FLOW,), asked=ASKED):
    wishes = Wishes(3, 0, {n: Wished(one, "r1", 9) for n, one in enumerate(flows, 1)})
    return hole_pass(FOUR, KnownFlows(wishes, {"r1": Told(*writes)}), asked, kept)


def kept(*stores, whole=True):
    return KeptRanges(stores, whole=whole)


def test_where_the_target_lacks_what_no_store_keeps_is_a_hole():
    stores = kept({A: range(9, 20), B: range(9, 20), C: range(5)})
    demand, told = passed(stores, {A: 3, B: 9, C: 1})
    assert demand.holes == {PLACE: [Hole(A, 3, 9)]}
    assert (demand.level, told.partitions, told.records) == (FLOW.link.level, 1, 6)


def test_what_one_store_keeps_is_not_lost_and_what_another_does_not_may_be_passed_over():
    demand, told = passed(kept({A: range(7, 20)}, {A: range(9, 20)}), {A: 3})
    assert demand.holes == {PLACE: [Hole(A, 3, 9)]}
    assert told.records == 4, "at least"
    with pytest.raises(RefusedCommandError, match="no partition of topic 'orders' is overtaken"):
        passed(kept({A: range(7, 20)}, {A: range(3, 20)}), {A: 3})


def test_what_the_target_has_nothing_of_is_begun_unless_a_store_may_have_more():
    with pytest.raises(RefusedCommandError, match="is overtaken at level"):
        passed(kept({A: range(7, 20)}), {})
    demand, _ = passed(kept({A: range(7, 20)}, whole=False), {})
    assert demand.holes == {PLACE: [Hole(A, 0, 7)]}


def test_each_share_has_its_own():
    halves = [replace(FLOW, share=share, shares=2) for share in (0, 1)]
    demand, told = passed(
        kept({A: range(9, 20), B: range(9, 20), C: range(9, 20)}),
        {A: 1, B: 2, C: 3},
        {A: 4, B: 5, C: 6},
        flows=halves,
    )
    found = {hole.partition: hole for hole in demand.holes[PLACE]}
    assert found.keys() == {A, B, C}
    assert told.partitions == 3


def test_holes_behind_which_the_target_is_are_over():
    flow = replace(FLOW, passes=(Hole(B, 0, 5), Hole(C, 0, 5)))
    demand, _ = passed(kept({A: range(9, 20)}), {A: 3, B: 5, C: 4}, flows=(flow,))
    assert demand.over == {PLACE: frozenset({B})}


def test_where_no_replica_has_said_how_far_the_target_is_nothing_is_passed_over():
    with pytest.raises(RefusedCommandError, match="no replica has said how far"):
        passed(kept({A: range(9, 20)}))


def test_links_of_other_levels_and_other_topics_are_left_alone():
    for asked in (ResumeOrder(2, "orders"), ResumeOrder(FLOW.link.level, "__heads")):
        with pytest.raises(RefusedCommandError):
            passed(kept({A: range(9, 20)}), {A: 3}, asked=asked)
