import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from topology.model import branches, leaves
from topology.testing import random_topology, tree_of
from topology.tree import TreeGraph

UNBALANCED = TreeGraph(tree_of((3, (2, "c1", (1, "c2", "c3")), (1, "c4", "c5"))))

repeatable = settings(derandomize=True, deadline=None, max_examples=25)
seeds = st.integers(0, 2**32 - 1).map(random.Random)


@pytest.mark.parametrize(
    ("cluster", "levels"), [("c1", [3, 2]), ("c2", [3, 2, 1]), ("c3", [3, 2, 1]), ("c5", [3, 1])]
)
def test_the_levels_above_a_cluster_begin_at_the_root(cluster, levels):
    assert UNBALANCED.levels_above(cluster) == levels


@pytest.mark.parametrize(
    ("one", "other", "level"), [("c1", "c2", 2), ("c2", "c3", 1), ("c4", "c5", 1), ("c3", "c4", 3)]
)
def test_the_level_between_two_clusters_is_that_of_their_lowest_common_branch(one, other, level):
    assert UNBALANCED.level_between(one, other) == level
    assert UNBALANCED.level_between(other, one) == level
    assert UNBALANCED.level_between(one, other) == level


@pytest.mark.parametrize(
    ("nested", "height"),
    [("c1", 0), ((1, "c1", "c2"), 1), ((3, (2, "c1", (1, "c2", "c3")), "c4"), 3)],
)
def test_the_height_is_the_most_branches_above_any_cluster(nested, height):
    assert TreeGraph(tree_of(nested)).height == height


def test_equal_subtrees_stay_apart():
    graph = TreeGraph(tree_of((2, (1, "c1", "c2"), (1, "c3", "c4"))))
    assert graph.level_between("c2", "c3") == 2


@repeatable
@given(chance=seeds, size=st.integers(2, 12), valid=st.booleans())
def test_the_graph_agrees_with_a_walk_over_the_tree(chance, size, valid):
    tree = random_topology(chance, size, valid=valid).tree
    graph = TreeGraph(tree)
    for one in leaves(tree):
        above = [branch for branch in branches(tree) if one in leaves(branch)]
        assert graph.levels_above(one) == [branch.level for branch in above]
        for other in leaves(tree):
            if one != other:
                both = [branch for branch in above if other in leaves(branch)]
                assert graph.level_between(one, other) == both[-1].level
