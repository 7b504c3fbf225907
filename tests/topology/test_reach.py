from dataclasses import replace

import pytest

from topology.model import Levels, Placement
from topology.reach import problems_of_reach
from topology.rules import problems_of, process_count
from topology.testing import topology_of, tree_of

FOUR = topology_of(tree_of((3, (1, "c1", "c2"), (1, "c3", "c4"))))


def receiving(topology, *names):
    clusters = (
        replace(cluster, receive_only=cluster.name in names) for cluster in topology.clusters
    )
    return replace(topology, clusters=tuple(clusters))


def placed(*rules):
    return tuple(Placement(topics=topics, clusters=clusters) for topics, clusters in rules)


def told(topology):
    return [(problem.path, problem.message) for problem in problems_of_reach(topology)]


@pytest.mark.parametrize(
    "topology",
    [
        FOUR,
        receiving(FOUR, "c2"),
        receiving(FOUR, "c2", "c4"),
        receiving(topology_of(tree_of((2, "c1", "c2", "c3"))), "c2", "c3"),
        receiving(topology_of(tree_of("c1")), "c1"),
        replace(FOUR, placement=placed(("eu-*", ("c1", "c4")), ("us-*", ("c2",)))),
        replace(FOUR, levels=Levels(epoch=4, retired=(2, 5))),
    ],
)
def test_what_is_allowed(topology):
    assert problems_of(topology) == []


def test_of_several_clusters_on_one_side_one_must_send():
    message = "clusters c3, c4 only receive, so nothing passes between them"
    assert told(receiving(FOUR, "c3", "c4")) == [("$.tree", message)]


def test_the_same_holds_for_the_clusters_of_each_placement():
    topology = replace(
        receiving(FOUR, "c2", "c4"),
        placement=placed(("eu-*", ("c1", "c2")), ("us-*", ("c2", "c4"))),
    )
    message = "clusters c2, c4 only receive, so nothing passes between them"
    assert told(topology) == [("$.placement[1].clusters", message)]


def test_a_retired_level_is_not_taken_again():
    ((path, message),) = told(replace(FOUR, levels=Levels(retired=(1,))))[:1]
    assert path == "$.tree.children[0].level"
    assert message.startswith("level 1 is retired")


@pytest.mark.parametrize(
    ("rules", "path", "message"),
    [
        ([("x", ("c9",))], "$.placement[0].clusters[0]", "cluster 'c9' is not declared"),
        ([("x", ("c1", "c1"))], "$.placement[0].clusters[1]", "cluster 'c1' is listed twice"),
        ([("x", ("c1",)), ("x", ("c2",))], "$.placement[1].topics", "topics 'x' are placed twice"),
    ],
)
def test_a_placement_that_cannot_be_used(rules, path, message):
    assert told(replace(FOUR, placement=placed(*rules))) == [(path, message)]


def test_a_cluster_that_only_receives_is_no_target_beside_one_that_sends():
    clusters = list(receiving(FOUR, "c4").clusters)
    clusters[0] = replace(clusters[0], targets={3: ("c4",)})
    ((path, message),) = [
        (problem.path, problem.message)
        for problem in problems_of(replace(FOUR, clusters=tuple(clusters)))
    ]
    assert path == "$.clusters[0].targets.3[0]"
    assert message.startswith("target 'c4' only receives")


def test_a_cluster_that_only_receives_has_no_distributors():
    assert process_count(receiving(FOUR, "c2")) == 4 + 4 + 6
