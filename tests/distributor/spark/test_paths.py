from __future__ import annotations

import random
from pathlib import Path

import pytest

from distributor.spark.paths import ways
from topology import load, plan, spread

CONFIG = Path(__file__).parents[3] / "config"
FILES = ["four-clusters.yaml", "unbalanced.yaml"]


@pytest.mark.parametrize("file", FILES)
@pytest.mark.parametrize("seed", range(5))
def test_whatever_targets_are_used_every_copy_has_come_a_way_there_is(file, seed):
    declared = load(CONFIG / file)
    possible = {(way.cluster, way.origin): way for way in ways(declared)}
    choose = random.Random(seed).choice
    for origin in declared.clusters:
        found = spread(plan(declared), origin.name, choose=lambda link: choose(link.targets))
        assert len(found.hops) == len(declared.clusters) - 1
        for hop in found.hops:
            assert possible[hop.target, origin.id].permits(hop.flags_after)


def test_four_clusters():
    declared = load(CONFIG / "four-clusters.yaml")
    found = {(way.cluster, way.origin): way[2:] for way in ways(declared)}
    assert found["cluster-1", 0] == (0, 0)
    assert found["cluster-1", 2] == (0b001, 0)
    assert found["cluster-4", 1] == (0b100, 0b001)
    assert len(found) == 16


@pytest.mark.parametrize(
    ("origin", "flags", "possible"),
    [(1, 0b100, True), (1, 0b101, True), (1, 0b001, False), (1, 0, False), (1, 0b110, False)],
)
def test_flags_from_the_other_side(origin, flags, possible):
    declared = load(CONFIG / "four-clusters.yaml")
    (way,) = (way for way in ways(declared) if (way.cluster, way.origin) == ("cluster-4", origin))
    assert way.permits(flags) is possible
