"""Which flows a topology comes to."""

from __future__ import annotations

from dataclasses import replace

from distributor.control.messages import Flow, FlowKind
from distributor.control.wanted import flows_of
from topology.model import Links
from topology.plan import plan
from topology.testing import topology_of, tree_of

FOUR = topology_of(tree_of((3, (1, "c1", "c2"), (1, "c3", "c4"))))


def test_each_link_of_a_cluster_is_a_flow():
    links = [link for link in plan(FOUR).links if link.source == "c1"]
    assert [link.level for link in links] == [3, 1]
    assert flows_of(FOUR, "c1") == [Flow(link, FlowKind.RECORDS) for link in links]
    assert flows_of(FOUR, "c9") == []


def test_a_link_that_is_shared_is_as_many_flows():
    shared = replace(FOUR, links=Links(shares=2))
    assert [(one.link.level, one.share, one.shares) for one in flows_of(shared, "c1")] == [
        (3, 0, 2),
        (3, 1, 2),
        (1, 0, 2),
        (1, 1, 2),
    ]
    shared = replace(FOUR, links=Links(level_shares={3: 3}))
    assert [(one.link.level, one.share, one.shares) for one in flows_of(shared, "c1")] == [
        (3, 0, 3),
        (3, 1, 3),
        (3, 2, 3),
        (1, 0, 1),
    ]
