from __future__ import annotations

import random
from dataclasses import replace

import pytest

from dafka.testing.world import Faults
from distributor.link.settings import LinkSettings
from distributor.link.target import TargetMachine, TargetSettings
from distributor.testing import breaking
from distributor.testing.breaking import KINDS, run
from distributor.testing.links import SimSettings
from distributor.testing.world import SimWorld
from topology.plan import plan
from topology.testing import random_topology


@pytest.mark.slow
@pytest.mark.parametrize("first", range(0, 20, 5))
def test_others_go_on_whatever_breaks_and_all_is_whole_again(first):
    outcomes = [run(seed) for seed in range(first, first + 5)]
    assert [outcome.problems for outcome in outcomes] == [[]] * 5


def test_each_kind_is_among_the_first_seeds_and_a_run_repeats_itself():
    outcomes = [run(seed) for seed in range(6)]
    assert {outcome.broken.split()[1] for outcome in outcomes} == set(KINDS)
    assert run(1) == outcomes[1]


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(3))
def test_a_busy_machine_is_no_broken_target(seed):
    """With the times that links have by default: every process is held up again and again."""
    chance = random.Random(seed)
    topology = random_topology(chance, 4)
    clusters = tuple(replace(cluster, targets={}) for cluster in topology.clusters)
    settings = SimSettings(link=LinkSettings(), aim=TargetSettings(), probe_interval_ms=1_000)
    faults = Faults(delay_ms_max=200, disk_ms_max=800)
    sim = SimWorld(plan(replace(topology, clusters=clusters)), seed, faults, settings=settings)
    for _ in range(60):
        for cluster in sim.clusters.values():
            cluster.producers[0].send("flights", 2)
        for node in sim.nodes:
            if node.awake and chance.random() < 0.15:
                node.suspend(chance.randint(1, 1_500))
        sim.world.run_until(sim.world.now_ms + 1_000)
    assert [len(link.switches) for link in sim.links] == [0] * len(sim.links)
    assert sum(link.pulled for link in sim.links) == 0


@pytest.mark.parametrize("stuck", [True, False])
def test_it_sees_a_target_that_is_not_left(monkeypatch, stuck):
    if stuck:
        monkeypatch.setattr(TargetMachine, "_leave_stuck", lambda *_: [])
    else:
        monkeypatch.setattr(TargetMachine, "_leave_starving", lambda *_: [])
    found = [problem for seed in range(4) for problem in run(seed).problems]
    assert any("others do not go on while" in problem for problem in found)


def test_the_command_names_seeds_that_fail(monkeypatch, capsys):
    monkeypatch.setattr("sys.argv", ["breaking", "--seed", "1"])
    assert breaking.main() == 0
    assert "1 of 1 seeds pass" in capsys.readouterr().out
    broken = breaking.BreakingOutcome(["it stands"], "c1 full", 0, 0)
    monkeypatch.setattr(breaking, "run", lambda _seed: broken)
    assert breaking.main() == 1
    out = capsys.readouterr().out
    assert "it stands" in out
    assert "0 of 1 seeds pass" in out
