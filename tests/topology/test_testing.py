"""The generators are complete: counted against other ways to make the same trees."""

import random
from functools import cache
from itertools import product

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from topology.model import Branch, branches, leaves
from topology.rules import problems_of
from topology.testing import (
    labellings,
    random_topology,
    shapes,
    steady,
    topology_of,
    tree_of,
    wrong_labellings,
)

repeatable = settings(derandomize=True, deadline=None, max_examples=60)
seeds = st.integers(0, 2**32 - 1).map(random.Random)
SIZES = range(1, 7)


@cache
def planar_shapes(size, children_max):
    """Every tree with `size` leaves, the order of children counted: another way to make them."""
    if size == 1:
        return [None]
    found = []
    for number in range(2, min(size, children_max) + 1):
        for parts in product(range(1, size), repeat=number):
            if sum(parts) == size:
                found += product(*(planar_shapes(part, children_max) for part in parts))
    return found


def unordered(shape):
    return None if shape is None else tuple(sorted(map(unordered, shape), key=repr))


def orders(shape):
    """Strict labellings of a shape up to order, by trying every number on every branch."""
    places = []

    def walk(node, above):
        if node is not None:
            places.append(above)
            here = len(places) - 1
            for child in node:
                walk(child, here)

    walk(shape, None)
    found = set()
    for levels in product(range(1, len(places) + 1), repeat=len(places)):
        if all(above is None or levels[above] > levels[n] for n, above in enumerate(places)):
            ranks = {level: rank for rank, level in enumerate(sorted(set(levels)), 1)}
            found.add(tuple(ranks[level] for level in levels))
    return found


def order_of(tree):
    levels = [branch.level for branch in branches(tree)]
    ranks = {level: rank for rank, level in enumerate(sorted(set(levels)), 1)}
    return tuple(ranks[level] for level in levels)


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize(("binary", "children_max"), [(True, 2), (False, 6)])
def test_every_shape_comes_exactly_once(size, binary, children_max):
    made = list(shapes(size, binary=binary))
    assert len(set(made)) == len(made)
    assert {unordered(shape) for shape in made} == set(
        map(unordered, planar_shapes(size, children_max))
    )


def test_the_numbers_of_shapes_are_those_of_the_literature():
    # Wedderburn-Etherington numbers (OEIS A001190), and series-reduced trees (A000669).
    assert [len(list(shapes(size, binary=True))) for size in range(1, 8)] == [1, 1, 1, 2, 3, 6, 11]
    assert [len(list(shapes(size))) for size in range(1, 8)] == [1, 1, 2, 5, 12, 33, 90]


@pytest.mark.slow
@pytest.mark.parametrize("size", SIZES)
def test_every_order_of_levels_comes_and_no_other(size):
    for shape in shapes(size):
        assert {order_of(tree) for tree in labellings(shape)} == orders(shape)


@pytest.mark.parametrize(("size", "count"), [(2, 1), (3, 2), (4, 7), (5, 34), (6, 214)])
def test_the_labellings_number_as_many_as_an_independent_study_counted(size, count):
    # It counted trees with ordered children: each of ours as often as its children can be swapped.
    planar = [unordered(shape) for shape in planar_shapes(size, 2)]
    assert count == sum(
        planar.count(unordered(shape)) * len({order_of(tree) for tree in labellings(shape)})
        for shape in shapes(size, binary=True)
    )


@pytest.mark.parametrize("size", SIZES)
def test_labellings_differ_and_keep_their_shape(size):
    for shape in shapes(size):
        trees = list(labellings(shape))
        assert len(set(trees)) == len(trees)
        for tree in trees:
            assert shape_of(tree) == shape
            assert list(leaves(tree)) == [f"c{number}" for number in range(1, size + 1)]


@pytest.mark.parametrize("size", SIZES)
def test_every_order_of_levels_comes_once(size):
    # Without a gap in the levels no two labellings have the same order.
    for shape in shapes(size):
        for tree in labellings(shape):
            levels = {branch.level for branch in branches(tree)}
            assert levels == set(range(1, len(levels) + 1))


def shape_of(tree):
    return tuple(map(shape_of, tree.children)) if isinstance(tree, Branch) else None


@pytest.mark.parametrize("size", range(1, 6))
def test_every_labelling_is_valid(size):
    for shape in shapes(size):
        for tree in labellings(shape):
            assert problems_of(topology_of(tree)) == []


@repeatable
@given(chance=seeds, size=st.integers(1, 30), children_max=st.integers(2, 5))
def test_a_random_topology_is_valid_and_of_its_size(chance, size, children_max):
    topology = random_topology(chance, size, children_max=children_max)
    assert problems_of(topology) == []
    assert len(list(leaves(topology.tree))) == len(topology.clusters) == size
    assert all(2 <= len(branch.children) <= children_max for branch in branches(topology.tree))


def test_a_seed_makes_the_same_topology_each_time():
    one, other = (random_topology(random.Random(7), 20) for _ in range(2))
    assert one == other


def test_a_topology_that_need_not_be_valid_has_wrong_levels_in_the_end():
    chance = random.Random(7)
    assert any(problems_of(random_topology(chance, 12, valid=False)) for _ in range(20))


def test_a_tree_is_written_as_nested_tuples():
    tree = tree_of((3, "c1", (1, "c2", "c3")))
    assert tree == Branch(level=3, children=("c1", Branch(level=1, children=("c2", "c3"))))


@pytest.mark.parametrize("size", range(1, 6))
def test_wrong_labellings_are_all_assignments_of_levels(size):
    for shape in shapes(size):
        trees = list(wrong_labellings(shape))
        count = len(list(branches(trees[0])))
        assert len(set(trees)) == len(trees) == count**count
        assert set(labellings(shape)) <= set(trees)


def test_a_cluster_is_the_same_in_whatever_tree_it_stands():
    small, large = (steady(tree_of(nested)) for nested in ((1, "c3", "c7"), (1, "c7", "c1", "c3")))
    assert small.cluster("c7") == large.cluster("c7")
    assert small.cluster("c7").id == 7
    assert problems_of(large) == []
