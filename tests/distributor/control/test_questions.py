"""What operators ask, answered from what is known: due, left, and the ways of topics."""

from __future__ import annotations

import dataclasses

import pytest

from dafka.model import Partition, PartitionShare, replace
from distributor.control.controller import ControllerMachine, ControllerState
from distributor.control.demands import Demands
from distributor.control.grants import Wished, Wishes
from distributor.control.messages import FlowKind, FlowStatus
from distributor.control.questions import (
    Asked,
    KnownFlows,
    LeftFlowRow,
    due_of,
    left_rows,
    matching,
    route_rows,
)
from distributor.control.reports import FlowReport
from distributor.control.wanted import flows_of
from distributor.link.events import Hole
from tests.support.control_commands import SETTINGS
from topology import load
from topology.model import Placement, Topics

FOUR = load("config/four-clusters.yaml")
ORDERS = Partition("orders", "A" * 32)
OTHER = Partition("orders", "B" * 32)
INTERNAL = Partition("__controllers", "A" * 32)
ENDS = {ORDERS: 10, OTHER: 4, INTERNAL: 7}


class Told(ControllerMachine):
    """A replica that has said how far its flows are."""

    def __init__(self, flows, state=ControllerState.ACTIVE):
        super().__init__("c1", 1, "r1", SETTINGS)
        self._told = state
        for number, (status, write) in flows.items():
            self.reports.flows[number] = FlowReport({}, status=status, write=dict(write))

    @property
    def state(self):
        return self._told


def known(topology=FOUR, writer="r1", **machines):
    """The flows of the first cluster, numbered from 1, as these replicas tell of them."""
    flows = flows_of(topology, "cluster-1")
    flows.sort(key=lambda one: (one.kind is not FlowKind.RECORDS, one.link.level))
    wishes = Wishes(3, 0, {n: Wished(one, writer, 9) for n, one in enumerate(flows, 1)})
    return KnownFlows(wishes, machines)


def shared(shares):
    return dataclasses.replace(FOUR, links=dataclasses.replace(FOUR.links, shares=shares))


def test_due_is_what_each_link_carries():
    due = due_of(FOUR, known(), ENDS | {Partition("orders", "C" * 32): 0})
    assert due == {1: {ORDERS: 10, OTHER: 4}, 2: {ORDERS: 10, OTHER: 4}}
    assert due_of(FOUR, known(), {}) == {}


def test_of_a_share_due_is_what_is_in_it():
    topology = shared(4)
    due = due_of(topology, known(topology), ENDS)
    for number, frontier in due.items():
        flow = known(topology).wishes.flows[number].flow
        share = PartitionShare(flow.share, flow.shares)
        assert all(share.has(one.address) for one in frontier)
    assert sum(len(frontier) for frontier in due.values()) == 4, "each of two links, once"


def test_what_is_left_is_told_with_what_its_writer_does():
    one = Told({1: (FlowStatus.WRITING, {ORDERS: 10}), 2: (FlowStatus.WARM, {})})
    other = Told({1: (FlowStatus.WARM, {OTHER: 3}), 2: (FlowStatus.WARM, {ORDERS: 4})})
    away = Told({2: (FlowStatus.WRITING, {ORDERS: 10})}, ControllerState.WAITING)
    here = known(r1=one, r2=other, r3=away)
    due = due_of(FOUR, here, ENDS)
    assert left_rows(here, due, (1, 2)) == [
        LeftFlowRow(1, "cluster-2", 1, "0/1", 1, "writing"),
        LeftFlowRow(2, "cluster-3", 3, "0/1", 10, "warm"),
    ]
    (row,) = left_rows(known(), due, (1,))
    assert (row.lacks, row.why) == (None, "r1 has not said what it does")
    (row,) = left_rows(known(writer=""), due, (1,))
    assert row.why == "no replica writes it"


def test_what_is_asked_about_is_a_topic_or_an_address():
    assert matching("orders", ENDS) == {"orders": {ORDERS: 10, OTHER: 4}}
    assert matching("BBBB", ENDS) == {"orders": {OTHER: 4}}
    assert matching("AAAA", ENDS) == {"orders": {ORDERS: 10}, "__controllers": {INTERNAL: 7}}
    assert matching("BBB", ENDS) == {"BBB": {}}


def ways(asked, topology=FOUR, **machines):
    rows = route_rows(topology, known(topology, **machines), asked)
    return [(row.target, row.carried, row.lacks, row.why) for row in rows]


def test_a_topic_is_explained():
    both = Told({1: (FlowStatus.WRITING, ENDS), 2: (FlowStatus.WRITING, {ORDERS: 9})})
    assert ways(Asked(matching("orders", ENDS)), r1=both) == [
        ("cluster-2", True, 0, "all is there"),
        ("cluster-3", True, 5, "on its way"),
    ]
    failed = Told({1: (FlowStatus.FAILED, {})})
    assert ways(Asked(matching("orders", ENDS)), r1=failed) == [
        ("cluster-2", True, 14, "failed"),
        ("cluster-3", True, None, "no replica has said how far the target is: r1 has not said "
         "what it does"),
    ]  # fmt: skip


def test_what_is_paused_or_passed_over_is_explained():
    told = Told({1: (FlowStatus.WARM, ENDS), 2: (FlowStatus.WRITING, ENDS)})
    here = known(r1=told)
    flows = dict(here.wishes.flows)
    holes = (Hole(ORDERS, 3, 9), Hole(INTERNAL, 0, 5))
    flows[2] = replace(flows[2], flow=replace(flows[2].flow, passes=holes))
    demands = Demands(paused=frozenset({1}))
    here = KnownFlows(replace(here.wishes, flows=flows, demands=demands), {"r1": told})
    assert here.state(1, flows[1]) == "paused by an operator"
    rows = route_rows(FOUR, here, Asked({"orders": {ORDERS: 12, OTHER: 4}}))
    assert [row.why for row in rows] == [
        "paused by an operator",
        "on its way; passes over 6 records that were not kept",
    ]
    (_, row) = route_rows(FOUR, here, Asked({"orders": {OTHER: 4}}))
    assert row.why == "all is there"


@pytest.mark.parametrize(
    ("topics", "topic"),
    [(Topics(), "__controllers"), (Topics(exclude=("o*",)), "orders")],
    ids=["internal", "excluded"],
)
def test_a_topic_that_no_link_carries_is_explained(topics, topic):
    rows = ways(Asked(matching(topic, ENDS)), dataclasses.replace(FOUR, topics=topics))
    assert {(carried, lacks) for _, carried, lacks, _ in rows} == {(False, None)}
    assert all("no link carries the topic" in why for *_, why in rows)


def test_a_topic_that_is_placed_elsewhere_is_explained():
    names = tuple(one.name for one in FOUR.clusters[:2])
    placed = dataclasses.replace(FOUR, placement=(Placement(topics="orders", clusters=names),))
    rows = ways(Asked(matching("orders", ENDS)), placed, r1=Told({}))
    assert [row for row in rows if row[1]] == [
        ("cluster-2", True, None, "no replica has said how far the target is: r1 has not said "
         "what it does"),
    ]  # fmt: skip
    assert any("the topic is on cluster-1, cluster-2" in why for *_, why in rows)


def test_copy_flags_say_that_others_bring_it():
    there = Told({1: (FlowStatus.WRITING, ENDS), 2: (FlowStatus.WRITING, ENDS)})
    near, far = ways(Asked(matching("BBBB", ENDS), flags=0b0001), r1=there)
    assert near[1] is False
    assert "crossed level 1 before (copy flags 0001)" in near[3]
    assert far[1] is False
    assert ways(Asked(matching("BBBB", ENDS), flags=0b0100), r1=there)[0][1] is True


def test_of_shares_those_are_told_that_have_it():
    topology = shared(4)
    here = known(topology)
    rows = route_rows(topology, here, Asked(matching("AAAA", {ORDERS: 10})))
    assert len(rows) == 2
    rows = route_rows(topology, here, Asked(matching("nowhere", ENDS)))
    assert len(rows) == 8
    assert {row.why for row in rows} == {"this cluster has no partition of it"}
