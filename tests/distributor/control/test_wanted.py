"""Which flows a topology comes to."""

from __future__ import annotations

from dataclasses import replace

from distributor.control.messages import Flow, FlowKind
from distributor.control.wanted import flows_of
from topology.model import Links
from topology.plan import plan
from topology.testing import topology_of, tree_of

FOUR = topology_of(tree_of((3, (1, "c1", "c2"), (1, "c3", "c4"))))


def test_records_and_positions_of_each_link_of_a_cluster_are_flows():
    links = [link for link in plan(FOUR).links if link.source == "c1"]
    assert [link.level for link in links] == [3, 1]
    kinds = FlowKind.RECORDS, FlowKind.OFFSETS
    assert flows_of(FOUR, "c1") == [Flow(link, kind) for kind in kinds for link in links]
    assert flows_of(FOUR, "c9") == []


def shares_of(topology):
    flows = [one for one in flows_of(topology, "c1") if one.kind is FlowKind.RECORDS]
    assert all(one.shares == 1 for one in flows_of(topology, "c1") if one not in flows)
    return [(one.link.level, one.share, one.shares) for one in flows]


def test_a_link_that_is_shared_is_as_many_flows():
    shared = replace(FOUR, links=Links(shares=2))
    assert shares_of(shared) == [
        (3, 0, 2),
        (3, 1, 2),
        (1, 0, 2),
        (1, 1, 2),
    ]
    shared = replace(FOUR, links=Links(level_shares={3: 3}))
    assert shares_of(shared) == [
        (3, 0, 3),
        (3, 1, 3),
        (3, 2, 3),
        (1, 0, 1),
    ]


def with_registries(*names):
    clusters = tuple(
        replace(one, registry="http://127.0.0.1:1" if one.name in names else "")
        for one in FOUR.clusters
    )
    return replace(FOUR, clusters=clusters)


def schemas_of(topology, cluster):
    return [one.link for one in flows_of(topology, cluster) if one.kind is FlowKind.SCHEMAS]


def test_schemas_go_from_each_registry_to_all_others():
    three = with_registries("c1", "c2", "c4")
    assert schemas_of(three, "c3") == []
    (link,) = schemas_of(three, "c2")
    assert (link.source, link.level, link.targets) == ("c2", 0, ("c1", "c4"))
    assert link.span == ("c1", "c2", "c4")


def test_a_registry_that_is_alone_is_still_made_the_primary():
    (link,) = schemas_of(with_registries("c1"), "c1")
    assert link.targets == ("c1",)
