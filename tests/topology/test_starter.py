from __future__ import annotations

import pytest

from topology.loading import load
from topology.model import branches
from topology.plan import plan
from topology.prove import prove
from topology.starter import CLUSTERS_MAX, starter


@pytest.mark.parametrize("count", range(2, CLUSTERS_MAX + 1))
def test_a_first_file_can_be_used_whatever_the_number_of_clusters(count, tmp_path):
    file = tmp_path / "topology.yaml"
    file.write_text(starter(count))
    topology = load(file)
    assert [one.name for one in topology.clusters] == [f"cluster-{n + 1}" for n in range(count)]
    assert all(len(branch.children) == 2 for branch in branches(topology.tree))
    assert max(branch.level for branch in branches(topology.tree)) == (count - 1).bit_length()


@pytest.mark.parametrize("count", [2, 3, 5])
def test_its_tree_has_no_loops_and_reaches_everybody(count, tmp_path):
    file = tmp_path / "topology.yaml"
    file.write_text(starter(count))
    assert not prove(plan(load(file))).failure
