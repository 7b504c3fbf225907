import random
from collections import Counter
from itertools import pairwise, product

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from topology.copyflags import format_flags, levels_of
from topology.model import Branch, branches, leaves
from topology.plan import plan
from topology.spread import HOPS_MAX, Spread, carried_on, spread
from topology.testing import labellings, random_topology, shapes, topology_of, tree_of

FOUR = plan(topology_of(tree_of((3, (1, "c1", "c2"), (1, "c3", "c4")))))
UNBALANCED = plan(topology_of(tree_of((3, (2, "c1", (1, "c2", "c3")), (1, "c4", "c5")))))

CHOICES = {
    "first": lambda link: link.targets[0],
    "last": lambda link: link.targets[-1],
    "by source": lambda link: link.targets[int(link.source[1:]) % len(link.targets)],
    "by level": lambda link: link.targets[link.level % len(link.targets)],
}

repeatable = settings(derandomize=True, deadline=None, max_examples=60)
seeds = st.integers(0, 2**32 - 1).map(random.Random)
sizes = st.integers(1, 40)


def common_level(tree, one, other):
    """The level of the lowest branch above both, without the code under test."""
    both = [branch for branch in branches(tree) if {one, other} <= set(leaves(branch))]
    return both[-1].level


def common_levels(tree):
    names = list(leaves(tree))
    return {
        (one, other): common_level(tree, one, other)
        for one, other in product(names, names)
        if one != other
    }


def routes(found: Spread):
    """Every cluster's hops from the origin, in a spread that reaches each cluster once."""
    ways = {found.origin: ()}
    for hop in found.hops:
        ways[hop.target] = (*ways[hop.source], hop)
    return ways


def assert_right(found: Spread, names, common):
    assert found.arrivals() == dict.fromkeys(names, 1)
    for cluster, way in routes(found).items():
        if cluster == found.origin:
            continue
        levels = [hop.level for hop in way]
        flags = way[-1].flags_after
        assert flags.bit_count() == len(way)
        assert all(above > below for above, below in pairwise(levels))
        assert levels_of(flags)[-1] == common[found.origin, cluster]


@pytest.mark.slow
@pytest.mark.parametrize("binary", [True, False], ids=["binary", "any"])
@pytest.mark.parametrize("size", range(1, 7))
def test_every_cluster_gets_every_record_exactly_once_in_every_small_tree(size, binary):
    for shape in shapes(size, binary=binary):
        for tree in labellings(shape):
            names, common = list(leaves(tree)), common_levels(tree)
            links = plan(topology_of(tree))
            for choose in CHOICES.values():
                for origin in names:
                    assert_right(spread(links, origin, choose=choose), names, common)


@pytest.mark.slow
@pytest.mark.parametrize("size", range(2, 5))
def test_no_choice_of_targets_matters_in_the_smallest_trees(size):
    for shape in shapes(size):
        for tree in labellings(shape):
            names, common = list(leaves(tree)), common_levels(tree)
            links = plan(topology_of(tree))
            for targets in product(*(link.targets for link in links.links)):
                choice = dict(zip(links.links, targets, strict=True))
                for origin in names:
                    found = spread(links, origin, choose=choice.__getitem__)
                    assert_right(found, names, common)


@pytest.mark.slow
@repeatable
@given(chance=seeds, size=sizes)
def test_every_cluster_gets_every_record_exactly_once_in_large_trees(chance, size):
    topology = random_topology(chance, size)
    names, common = list(leaves(topology.tree)), common_levels(topology.tree)
    links = plan(topology)
    for origin in names:
        assert_right(spread(links, origin), names, common)


@pytest.mark.slow
@repeatable
@given(chance=seeds, size=sizes)
def test_targets_may_change_from_record_to_record_and_from_hop_to_hop(chance, size):
    topology = random_topology(chance, size)
    names, common = list(leaves(topology.tree)), common_levels(topology.tree)
    links = plan(topology)
    everything = {link: tuple(other_side(topology.tree, link)) for link in links.links}
    for origin in names:
        found = spread(links, origin, choose=lambda link: chance.choice(everything[link]))
        assert_right(found, names, common)


def other_side(tree, link):
    branch = next(
        branch
        for branch in branches(tree)
        if branch.level == link.level and link.source in leaves(branch)
    )
    return leaves(branch.children[link.branch])


@repeatable
@given(chance=seeds, size=sizes)
def test_no_labelling_however_wrong_makes_a_loop(chance, size):
    topology = random_topology(chance, size, valid=False)
    distinct = len({branch.level for branch in branches(topology.tree)})
    origin = chance.choice(list(leaves(topology.tree)))
    found = spread(plan(topology), origin, choose=lambda link: chance.choice(link.targets))
    for hop in found.hops:
        assert hop.flags_before & hop.flags_after == hop.flags_before
        assert hop.flags_after.bit_count() == hop.flags_before.bit_count() + 1
        assert hop.flags_after.bit_count() <= distinct


@given(chance=seeds, flags=st.integers(0, 2**64 - 1))
@repeatable
def test_no_flags_however_odd_make_a_loop(chance, flags):
    topology = random_topology(chance, 12, valid=False)
    found = spread(plan(topology), "c1", flags)
    assert all(hop.flags_before & flags == flags for hop in found.hops)


def labelled(shape, numbers, names):
    """A shape with any level on every branch."""
    if shape is None:
        return f"c{next(names)}"
    level = next(numbers)
    return (level, *(labelled(child, numbers, names) for child in shape))


def pairs(tree):
    """Levels of each branch and of each branch just below it."""
    return [
        (branch.level, child.level)
        for branch in branches(tree)
        for child in branch.children
        if isinstance(child, Branch)
    ]


def all_labelled(size, *, binary):
    """Every tree of this size with any levels from 1 to the number of branches."""
    for shape in shapes(size, binary=binary):
        count = str(shape).count("(")
        for numbers in product(range(1, count + 1), repeat=count):
            yield tree_of(labelled(shape, iter(numbers), iter(range(1, size + 1))))


@pytest.mark.slow
@pytest.mark.parametrize("size", range(3, 6))
def test_equal_levels_of_parent_and_child_lose_and_never_duplicate(size):
    wrong = [
        tree
        for tree in all_labelled(size, binary=False)
        if all(above >= below for above, below in pairs(tree))
        and any(above == below for above, below in pairs(tree))
    ]
    assert wrong
    for tree in wrong:
        links, names = plan(topology_of(tree)), list(leaves(tree))
        for choose in CHOICES.values():
            counts = [spread(links, origin, choose=choose).arrivals() for origin in names]
            assert max(max(count.values()) for count in counts) == 1
        lost = [len(spread(links, origin).arrivals()) < size for origin in names]
        assert any(lost)


@pytest.mark.slow
@pytest.mark.parametrize("size", range(3, 6))
def test_a_child_level_above_its_parent_loses_and_duplicates(size):
    wrong = [
        tree
        for tree in all_labelled(size, binary=True)
        if any(above < below for above, below in pairs(tree))
    ]
    assert wrong
    for tree in wrong:
        links, names = plan(topology_of(tree)), list(leaves(tree))
        counts = [spread(links, origin).arrivals() for origin in names]
        assert any(len(count) < size for count in counts)
        assert any(max(count.values()) > 1 for count in counts)


def what_happens(cluster, found):
    """What each distributor of a cluster sees and does, as the distribution model tells it."""
    copies = {
        hop.level: (
            format_flags(hop.flags_before),
            f"copies to {hop.target}, flags {format_flags(hop.flags_after)}",
        )
        for hop in found.hops
        if hop.source == cluster
    }
    stays = {
        stay.level: (
            format_flags(stay.flags),
            f"has no work, blocked by {format_flags(stay.blocking)}",
        )
        for stay in found.stays
        if stay.cluster == cluster
    }
    return copies | stays


def test_the_four_steps_of_the_distribution_model():
    found = spread(FOUR, "c1")
    # 1. Both distributors on cluster 1 have work to do.
    assert what_happens("c1", found) == {
        1: ("0000", "copies to c2, flags 0001"),
        3: ("0000", "copies to c3, flags 0100"),
    }
    # 2. On cluster 2 both mask 0001 and arrive at a non-zero result.
    assert what_happens("c2", found) == {
        1: ("0001", "has no work, blocked by 0001"),
        3: ("0001", "has no work, blocked by 0001"),
    }
    # 3. On cluster 3 level 3 has no work; level 1 copies to cluster 4 and adds its own bit.
    assert what_happens("c3", found) == {
        1: ("0100", "copies to c4, flags 0101"),
        3: ("0100", "has no work, blocked by 0100"),
    }
    # 4. Both distributors on cluster 4 have no work.
    assert what_happens("c4", found) == {
        1: ("0101", "has no work, blocked by 0001"),
        3: ("0101", "has no work, blocked by 0101"),
    }
    assert len(found.hops) == 3


def test_the_unbalanced_tree_of_the_distribution_model():
    levels = {name: set() for name in ("c1", "c2", "c3", "c4", "c5")}
    for distributor in UNBALANCED.distributors:
        levels[distributor.cluster].add(distributor.level)
    assert levels == {"c1": {2, 3}, "c2": {1, 2, 3}, "c3": {1, 2, 3}, "c4": {1, 3}, "c5": {1, 3}}


def test_a_record_that_crosses_the_unbalanced_tree():
    found = spread(UNBALANCED, "c5")
    assert [
        (hop.source, hop.level, hop.target, format_flags(hop.flags_after)) for hop in found.hops
    ] == [
        ("c5", 3, "c1", "0100"),
        ("c5", 1, "c4", "0001"),
        ("c1", 2, "c2", "0110"),
        ("c2", 1, "c3", "0111"),
    ]


def test_a_record_that_arrives_with_flags_is_not_sent_back():
    found = spread(FOUR, "c3", flags=0b0100)
    assert [(hop.source, hop.target) for hop in found.hops] == [("c3", "c4")]


def test_every_link_of_a_cluster_either_copies_or_stays():
    found = spread(UNBALANCED, "c2")
    seen = Counter(hop.source for hop in found.hops) + Counter(stay.cluster for stay in found.stays)
    assert seen == Counter(link.source for link in UNBALANCED.links)


def test_a_single_cluster_copies_to_nobody():
    assert spread(plan(topology_of(tree_of("c1"))), "c1") == Spread(origin="c1", hops=(), stays=())


@pytest.mark.slow
def test_a_wrong_tree_that_doubles_its_copies_at_each_level_is_given_up():
    # Levels fall towards the root, so each level copies again what every lower one copied.
    nested = "c0"
    for number in range(1, 25):
        nested = (25 - number, f"c{number}", nested)
    found = spread(plan(topology_of(tree_of(nested))), "c0")
    assert found.cut
    assert HOPS_MAX <= len(found.hops) < HOPS_MAX + 25


def test_a_spread_that_ends_by_itself_is_not_cut():
    assert not spread(UNBALANCED, "c1").cut


def test_a_record_that_some_hold_goes_on_only_to_those_that_lack_it():
    held = {"c1": 0, "c3": 0b0100}
    assert [(hop.source, hop.target) for hop in carried_on(FOUR, held)] == [
        ("c1", "c2"),
        ("c3", "c4"),
    ]
    everywhere = spread(FOUR, "c1")
    assert set(carried_on(FOUR, {"c1": 0})) == set(everywhere.hops)
    assert carried_on(FOUR, {"c2": 0b0001}) == ()
