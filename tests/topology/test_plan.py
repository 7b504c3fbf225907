import random
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from topology.model import ClusterSpec, Links, Placement, Topology, branches, leaves
from topology.plan import Distributor, Link, plan
from topology.testing import random_topology, topology_of, tree_of

repeatable = settings(derandomize=True, deadline=None, max_examples=40)
seeds = st.integers(0, 2**32 - 1).map(random.Random)
FOUR = tree_of((3, (1, "c1", "c2"), (1, "c3", "c4")))


def with_targets(tree, cluster, targets):
    topology = topology_of(tree)
    clusters = tuple(
        ClusterSpec(name=other.name, id=other.id, targets=targets if other.name == cluster else {})
        for other in topology.clusters
    )
    return Topology(name="test", clusters=clusters, tree=tree)


def test_the_plan_of_the_distribution_model():
    links = [(link.source, link.level, link.targets) for link in plan(topology_of(FOUR)).links]
    assert links == [
        ("c1", 3, ("c3", "c4")),
        ("c1", 1, ("c2",)),
        ("c2", 3, ("c3", "c4")),
        ("c2", 1, ("c1",)),
        ("c3", 3, ("c1", "c2")),
        ("c3", 1, ("c4",)),
        ("c4", 3, ("c1", "c2")),
        ("c4", 1, ("c3",)),
    ]


def test_a_link_copies_to_its_first_target():
    beyond = ("c3", "c4")
    link = Link(source="c1", level=3, branch=1, targets=("c4", "c3"), beyond=beyond, span=beyond)
    assert link.target == "c4"


def test_a_branch_of_three_gives_each_cluster_two_links():
    links = plan(topology_of(tree_of((2, (1, "c1", "c2"), "c3", "c4")))).links
    assert [(link.level, link.branch, link.target) for link in links if link.source == "c1"] == [
        (2, 1, "c3"),
        (2, 2, "c4"),
        (1, 1, "c2"),
    ]


def test_a_distributor_has_all_links_of_its_cluster_and_level():
    planned = plan(topology_of(tree_of((2, (1, "c1", "c2"), "c3", "c4"))))
    first = planned.distributors[0]
    assert first == Distributor(cluster="c1", level=2, links=planned.links[:2])


def test_links_in_shares_have_a_distributor_for_each():
    topology = topology_of(tree_of((2, (1, "c1", "c2"), "c3")))
    planned = plan(replace(topology, links=Links(level_shares={2: 2})))
    mine = [one for one in planned.distributors if one.cluster == "c1"]
    assert [(one.level, one.share, one.shares) for one in mine] == [(2, 0, 2), (2, 1, 2), (1, 0, 1)]
    assert (
        mine[0].links == mine[1].links == tuple(one for one in planned.links if one.level == 2)[:1]
    )
    assert [one.name for one in mine[1:]] == ["c1-level-2-1-of-2", "c1-level-1"]
    assert [one.title for one in mine[1:]] == ["c1 level 2 share 1/2", "c1 level 1"]


@repeatable
@given(chance=seeds, size=st.integers(1, 25))
def test_every_link_belongs_to_one_distributor(chance, size):
    planned = plan(random_topology(chance, size))
    assert [link for group in planned.distributors for link in group.links] == list(planned.links)


@repeatable
@given(chance=seeds, size=st.integers(1, 25), valid=st.booleans())
def test_each_cluster_has_one_link_per_branch_above_it_and_other_child_there(chance, size, valid):
    topology = random_topology(chance, size, valid=valid)
    expected = sorted(
        (name, branch.level, index)
        for branch in branches(topology.tree)
        for name in leaves(branch)
        for index, child in enumerate(branch.children)
        if name not in leaves(child)
    )
    links = plan(topology).links
    assert sorted((link.source, link.level, link.branch) for link in links) == expected


@repeatable
@given(chance=seeds, size=st.integers(2, 25))
def test_targets_are_on_the_other_side_of_the_branch(chance, size):
    topology = random_topology(chance, size)
    for link in plan(topology).links:
        branch = next(
            branch
            for branch in branches(topology.tree)
            if branch.level == link.level and link.source in leaves(branch)
        )
        assert link.targets
        assert set(link.targets) <= set(leaves(branch.children[link.branch]))


@pytest.mark.parametrize(
    ("listed", "targets"),
    [
        ((), ("c3", "c4")),
        (("c4",), ("c4",)),
        (("c4", "c3"), ("c4", "c3")),
        (("c2", "c4"), ("c4",)),
        (("c2",), ("c3", "c4")),
    ],
)
def test_a_list_of_targets_counts_as_far_as_it_names_the_other_side(listed, targets):
    planned = plan(with_targets(FOUR, "c1", {3: listed}))
    assert planned.links[0].targets == targets


def test_one_list_of_targets_serves_every_other_child_of_its_branch():
    tree = tree_of((2, "c1", (1, "c2", "c3"), (1, "c4", "c5")))
    planned = plan(with_targets(tree, "c1", {2: ("c5", "c3")}))
    assert [link.targets for link in planned.links if link.source == "c1"] == [("c3",), ("c5",)]


def test_a_single_cluster_has_no_links():
    planned = plan(topology_of(tree_of("c1")))
    assert (planned.links, planned.distributors) == ((), ())


def test_a_wrong_tree_has_a_plan_too():
    links = plan(topology_of(tree_of((1, (3, "c1", "c2"), "c3")))).links
    assert {(link.source, link.level) for link in links} == {
        ("c1", 1),
        ("c1", 3),
        ("c2", 1),
        ("c2", 3),
        ("c3", 1),
    }


def test_a_cluster_that_only_receives_sends_nothing_and_is_a_target_only_where_it_is_alone():
    topology = topology_of(tree_of((3, (1, "c1", "c2"), "c3")))
    mute = tuple(replace(one, receive_only=one.name != "c1") for one in topology.clusters)
    links = plan(replace(topology, clusters=mute)).links
    assert [(link.source, link.level, link.targets) for link in links] == [
        ("c1", 3, ("c3",)),
        ("c1", 1, ("c2",)),
    ]
    some = tuple(replace(one, receive_only=one.name == "c2") for one in topology.clusters)
    links = plan(replace(topology, clusters=some)).links
    assert [link.targets for link in links if link.source == "c3"] == [("c1",)]
    assert [link.beyond for link in links if link.source == "c3"] == [("c1", "c2")]


def test_topics_on_some_clusters_have_links_of_their_own_with_targets_inside():
    rules = (
        Placement(topics="eu-*", clusters=("c4", "c1")),
        Placement(topics="fr-*", clusters=("c1", "c4")),
        Placement(topics="all-*", clusters=("c1", "c2", "c3", "c4")),
    )
    topology = replace(topology_of(FOUR), placement=rules)
    planned = plan(topology)
    assert len(planned.links) == 8 + 2
    placed = [link for link in planned.links if link.topics]
    assert [(link.source, link.crossing, link.targets, link.beyond) for link in placed] == [
        ("c1", "3 eu-*, fr-*", ("c4",), ("c4",)),
        ("c4", "3 eu-*, fr-*", ("c1",), ("c1",)),
    ]
    assert planned.on(("c1", "c4")).links == tuple(placed)
    assert planned.everywhere.links == plan(topology_of(FOUR)).links
    # One process for both: it is the cluster's, for a level.
    assert len(planned.distributors) == 8


def test_the_topics_of_one_cluster_have_no_links():
    rules = (Placement(topics="eu-*", clusters=("c4",)),)
    planned = plan(replace(topology_of(FOUR), placement=rules))
    assert len(planned.links) == 8
    assert planned.on(("c4",)).links == ()
