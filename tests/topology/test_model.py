from dataclasses import FrozenInstanceError, replace

import pytest

from topology.model import (
    ClusterSpec,
    GroupMargin,
    Links,
    OffsetSettings,
    Placement,
    RetentionSpec,
    Topics,
    branches,
    leaves,
    restricted,
)
from topology.testing import topology_of, tree_of

TREE = tree_of((3, (2, "c1", (1, "c2", "c3")), "c4"))


def test_leaves_come_in_the_order_of_the_file():
    assert list(leaves(TREE)) == ["c1", "c2", "c3", "c4"]


def test_each_branch_comes_before_those_below_it():
    assert [branch.level for branch in branches(TREE)] == [3, 2, 1]


def test_a_single_cluster_is_a_tree_without_branches():
    assert (list(leaves(tree_of("c1"))), list(branches(tree_of("c1")))) == (["c1"], [])


def test_a_cluster_is_found_by_its_name():
    assert topology_of(TREE).cluster("c3").name == "c3"


def test_a_cluster_that_is_not_declared_is_a_key_error():
    with pytest.raises(KeyError, match="c9"):
        topology_of(TREE).cluster("c9")


def test_every_value_is_frozen():
    topology = topology_of(TREE)
    for value, attribute in [
        (topology, "name"),
        (topology.clusters[0], "id"),
        (topology.clusters[0].stores[0], "data"),
        (topology.tree, "level"),
        (topology.topics, "include"),
    ]:
        with pytest.raises(FrozenInstanceError):
            setattr(value, attribute, None)


def test_targets_cannot_be_changed_neither_here_nor_where_they_came_from():
    given = {1: ("c2",)}
    cluster = ClusterSpec(name="c1", id=1, targets=given)
    given[3] = ("c4",)
    assert dict(cluster.targets) == {1: ("c2",)}
    with pytest.raises(TypeError):
        cluster.targets[1] = ("c4",)


@pytest.mark.parametrize(
    ("topics", "topic", "wanted"),
    [
        (Topics(), "orders", True),
        (Topics(), "_orders", False),
        (Topics(), "__offsets", False),
        (Topics(include=("orders-*",)), "orders-1", True),
        (Topics(include=("orders-*",)), "orders", False),
        (Topics(include=("a", "b")), "b", True),
        (Topics(include=()), "orders", False),
        (Topics(include=("_*",), exclude=()), "_orders", False),
        (Topics(include=("orders",), exclude=("orders",)), "orders", False),
        (Topics(include=("orders",)), "Orders", False),
        (Topics(include=("a?c", "[xy]z")), "abc", True),
        (Topics(include=("a?c", "[xy]z")), "yz", True),
    ],
)
def test_a_topic_is_copied_if_it_is_included_and_not_excluded(topics, topic, wanted):
    assert topics.wants(topic) is wanted


def test_the_first_pattern_that_matches_gives_a_groups_margin():
    rules = (GroupMargin(pattern="a*", margin_ms=1), GroupMargin(pattern="*", margin_ms=2))
    by_time = OffsetSettings(translation="timestamp", groups=rules)
    assert [by_time.margin_of(group) for group in ("ab", "b")] == [1, 2]
    assert OffsetSettings(translation="timestamp").margin_of("b") == 60_000
    assert OffsetSettings().margin_of("b") is None


def test_exact_positions_have_no_margin():
    assert OffsetSettings(translation="exact", margin_ms=5).margin_of("any") is None


def test_a_topic_is_where_the_first_rule_that_matches_places_it():
    rules = (
        Placement(topics="eu-*", clusters=("c3", "c1")),
        Placement(topics="*-log", clusters=("c2",)),
    )
    topology = replace(topology_of(tree_of((1, "c1", "c2", "c3"))), placement=rules)
    assert topology.placed_on("eu-log") == ("c1", "c3")
    assert topology.placed_on("us-log") == ("c2",)
    assert topology.placed_on("orders") == ("c1", "c2", "c3")
    assert topology.spans == (("c1", "c2", "c3"), ("c1", "c3"), ("c2",))
    assert [topology.topics_on(span) for span in topology.spans] == ["", "eu-*", "*-log"]
    assert topology.wants("eu-log", "c1")
    assert not topology.wants("eu-log", "c2")
    assert topology.carries("eu-log", ("c1", "c3"))
    assert not topology.carries("__eu", ("c1", "c2", "c3"))
    everywhere = replace(topology, placement=(Placement(topics="*", clusters=("c2",)), *rules))
    for travelling in ("__heartbeat", "__topics"):
        assert everywhere.carries(travelling, ("c1", "c2", "c3"))
    assert not everywhere.carries("__catalog", ("c1", "c2", "c3"))


def test_a_tree_over_some_of_its_clusters_has_no_branch_with_one_child():
    tree = tree_of((3, (2, "c1", (1, "c2", "c3")), "c4"))
    assert restricted(tree, {"c1", "c2", "c3", "c4"}) == tree
    assert restricted(tree, {"c1", "c3", "c4"}) == tree_of((3, (2, "c1", "c3"), "c4"))
    assert restricted(tree, {"c2", "c3"}) == tree_of((1, "c2", "c3"))
    assert restricted(tree, {"c4"}) == "c4"
    assert restricted(tree, ()) is None


def test_a_rule_for_all_topics_is_for_none_that_begins_with_an_underscore():
    every, own = RetentionSpec(topics="*", age_s=1), RetentionSpec(topics="_own*", age_s=2)
    declared = replace(topology_of(tree_of((1, "c1", "c2"))), retention=(every, own))
    assert declared.retained("orders") == every
    assert declared.retained("_own.x") == own
    assert declared.retained("_other") is None


def test_of_what_is_held_a_cluster_must_have_what_it_is_to_have():
    rules = (
        RetentionSpec(topics="short", age_s=1),
        RetentionSpec(topics="*", age_s=1, hold_age_s=2),
    )
    placed = (Placement(topics="eu-*", clusters=("c1",)),)
    tree = topology_of(tree_of((1, "c1", "c2")))
    topology = replace(tree, retention=rules, placement=placed)
    assert topology.must_have("log", "c2")
    assert topology.must_have("eu-log", "c1")
    for topic in ("short", "eu-log", "_mine", "__heartbeat"):
        assert not topology.must_have(topic, "c2")
    assert not tree.must_have("log", "c2")


def test_what_is_said_of_a_level_holds_for_its_links_alone():
    links = Links(shares=2, level_shares={3: 4}, compression="lz4", level_compression={3: "zstd"})
    assert [links.shares_at(level) for level in (1, 3)] == [2, 4]
    assert [links.compression_at(level) for level in (1, 3)] == ["lz4", "zstd"]
    assert (Links().shares_at(3), Links().compression_at(3)) == (1, "none")
