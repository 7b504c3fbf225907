import random
from dataclasses import replace
from itertools import islice, product
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from topology.loading import load
from topology.model import Placement, branches
from topology.plan import plan
from topology.prove import (
    Proof,
    count_ways,
    every_way,
    prove,
    some_ways,
    violation,
)
from topology.rules import problems_of
from topology.spread import Hop, Spread, spread
from topology.testing import (
    labellings,
    random_topology,
    shapes,
    topology_of,
    tree_of,
    wrong_labellings,
)
from topology.tree import TreeGraph

FILES = sorted((Path(__file__).parents[2] / "config").glob("*.yaml"))
FOUR = plan(topology_of(tree_of((3, (1, "c1", "c2"), (1, "c3", "c4")))))
GRAPH = TreeGraph(FOUR.topology.tree)

repeatable = settings(derandomize=True, deadline=None, max_examples=20)
seeds = st.integers(0, 2**32 - 1).map(random.Random)


def proof_of(nested):
    return prove(plan(topology_of(tree_of(nested))))


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.name)
def test_the_proof_of_every_file_we_ship_holds_and_is_complete(path):
    proof = prove(plan(load(path)))
    assert proof.holds
    assert proof.complete
    assert proof.runs == proof.combinations


def test_the_proof_of_the_four_clusters_tries_each_choice_a_record_meets():
    # A record crosses level 3 once, to one of two targets; every other link has one target.
    assert prove(FOUR) == Proof(origins=4, runs=8, combinations=8, complete=True)


def test_the_proof_of_a_single_cluster_holds():
    assert proof_of("c1") == Proof(origins=1, runs=1, combinations=1, complete=True)


@pytest.mark.slow
@pytest.mark.parametrize("size", range(1, 7))
def test_every_small_valid_tree_is_proved_for_every_choice_of_targets(size):
    for shape in shapes(size):
        for tree in labellings(shape):
            proof = prove(plan(topology_of(tree)))
            assert proof.holds
            assert proof.complete
            assert proof.runs == proof.combinations


@pytest.mark.slow
@pytest.mark.parametrize("size", range(3, 6))
def test_a_proof_holds_exactly_for_levels_that_strictly_increase_towards_the_root(size):
    for shape in shapes(size):
        right = set(labellings(shape))
        for tree in wrong_labellings(shape):
            levels = {branch.level for branch in branches(tree)}
            if len(levels) == max(levels):
                assert prove(plan(topology_of(tree))).holds == (tree in right)


@repeatable
@given(chance=seeds, size=st.integers(1, 7))
def test_random_valid_trees_are_proved(chance, size):
    assert prove(plan(random_topology(chance, size))).holds


@repeatable
@given(chance=seeds, size=st.integers(1, 7))
def test_trees_with_one_way_clusters_and_placed_topics_are_proved(chance, size):
    topology = random_topology(chance, size, reach=True)
    assert problems_of(topology) == []
    assert prove(plan(topology)).holds


def test_one_way_clusters_that_should_pass_records_on_have_a_counter_example():
    topology = topology_of(tree_of((3, (1, "c1", "c2"), (1, "c3", "c4"))))
    mute = (replace(one, receive_only=one.name in ("c3", "c4")) for one in topology.clusters)
    proof = prove(plan(replace(topology, clusters=tuple(mute))))
    assert proof.failure == "a record of 'c1' arrives at 'c4' never"


def test_a_target_outside_the_clusters_of_a_topic_loses_records():
    # What links of their own for placed topics prevent: c2 is chosen for c4, and has not the topic.
    rules = (Placement(topics="eu-*", clusters=("c1", "c3", "c4")),)
    topology = replace(topology_of(tree_of((3, (1, "c1", "c2"), (1, "c3", "c4")))), placement=rules)
    part = plan(topology).on(("c1", "c3", "c4"))
    assert prove(part).holds
    outside = tuple(
        replace(link, targets=("c2",)) if link.source == "c4" and link.level == 3 else link
        for link in part.links
    )
    proof = prove(replace(part, links=outside))
    assert proof.failure == "a record of 'c4' arrives at 'c1' never"


@pytest.mark.parametrize(
    ("nested", "failure"),
    [
        ((1, (1, "c1", "c2"), "c3"), "a record of 'c3' arrives at 'c2' never"),
        ((1, (2, "c1", "c2"), "c3"), "a record of 'c1' arrives at 'c3' 2 times"),
        ((2, (2, "c1", "c2"), (1, "c3", "c4")), "a record of 'c3' arrives at 'c2' never"),
    ],
)
def test_a_wrong_labelling_has_a_counter_example(nested, failure):
    proof = proof_of(nested)
    assert not proof.holds
    assert proof.failure == failure
    assert proof.counter_example is not None
    assert proof.counter_example.origin in failure
    assert proof.runs <= proof.combinations


def test_targets_that_hide_a_wrong_labelling_do_not_hide_it_from_the_proof():
    # With crossed targets each record still arrives everywhere; with others it does not.
    tree = tree_of((1, (2, "c1", "c2"), (2, "c3", "c4")))
    assert not prove(plan(topology_of(tree))).holds


FIVE_GROUPS = (2, *((1, *(f"c{group}{number}" for number in range(6))) for group in range(5)))


def test_a_proof_says_when_it_did_not_try_everything():
    proof = prove(plan(topology_of(tree_of(FIVE_GROUPS))), runs_max=10 * 30)
    assert proof.holds
    assert not proof.complete
    # Across level 2 a record goes to one of six clusters in each of four groups.
    assert proof.combinations == 30 * 6**4
    # Per origin: each target of every link at least once, and a share of the runs at random.
    assert proof.runs == 30 * (6 + 10)


def test_a_sample_of_ways_uses_every_target_of_the_origin_and_is_repeatable():
    links = plan(topology_of(tree_of(FIVE_GROUPS)))
    sample = list(some_ways(links, "c00", 10))
    used = {hop.target for found in sample for hop in found.hops if hop.source == "c00"}
    assert used == {
        target for link in links.links for target in link.targets if link.source == "c00"
    }
    assert sample == list(some_ways(links, "c00", 10))


@repeatable
@given(chance=seeds, size=st.integers(1, 6))
def test_the_ways_of_a_record_are_as_many_as_counted_and_differ(chance, size):
    links = plan(topology_of(random_topology(chance, size).tree))
    for origin, number in count_ways(links).items():
        ways = list(every_way(links, origin))
        assert len(ways) == len(set(ways)) == number


@repeatable
@given(chance=seeds, size=st.integers(1, 5), valid=st.booleans())
def test_every_way_is_every_spread_of_every_combination_of_targets(chance, size, valid):
    links = plan(topology_of(random_topology(chance, size, valid=valid).tree))
    combinations = list(islice(product(*(link.targets for link in links.links)), 3_000))
    if len(combinations) == 3_000:
        return
    choices = [dict(zip(links.links, targets, strict=True)) for targets in combinations]
    for cluster in links.topology.clusters:
        spreads = {spread(links, cluster.name, choose=choice.__getitem__) for choice in choices}
        assert set(every_way(links, cluster.name)) == spreads


def hop(source, target, level, before):
    after = before | 1 << (level - 1)
    return Hop(source=source, target=target, level=level, flags_before=before, flags_after=after)


@pytest.mark.parametrize(
    ("hops", "broken"),
    [
        (
            [hop("c1", "c3", 3, 0), hop("c1", "c2", 1, 0), hop("c3", "c4", 1, 4)],
            "",
        ),
        (
            [hop("c1", "c3", 3, 0), hop("c1", "c2", 1, 0)],
            "a record of 'c1' arrives at 'c4' never",
        ),
        (
            [
                hop("c1", "c3", 3, 0),
                hop("c1", "c2", 1, 0),
                hop("c3", "c4", 1, 4),
                hop("c2", "c4", 3, 1),
            ],
            "a record of 'c1' arrives at 'c4' 2 times",
        ),
        (
            [hop("c1", "c2", 1, 0), hop("c2", "c3", 3, 1), hop("c3", "c4", 1, 4)],
            "a record of 'c1' on its way to 'c3' crosses levels [1, 3], which do not strictly fall",
        ),
        (
            [hop("c1", "c3", 3, 0), hop("c1", "c2", 1, 0), hop("c3", "c4", 1, 6)],
            "a record of 'c1' on its way to 'c4' makes 2 hops and has 3 flags",
        ),
        (
            [hop("c1", "c3", 2, 0), hop("c1", "c2", 1, 0), hop("c3", "c4", 1, 2)],
            "a record of 'c1' on its way to 'c3' has highest level 2, their common branch is 3",
        ),
    ],
)
def test_a_spread_that_breaks_a_property_is_told_which(hops, broken):
    found = Spread(origin="c1", hops=tuple(hops), stays=())
    assert violation(FOUR, GRAPH, found) == broken
