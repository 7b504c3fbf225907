"""Retention that holds: nothing that a cluster lacks is dropped, and nothing less sees to that."""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import replace

import pytest

from dafka.storage.holds import Holds
from dafka.storage.retention import NO_FLOOR
from distributor.control import hold_keeper
from distributor.control.holds import Floors, need_of
from distributor.testing import holding
from distributor.testing.holding import HoldRun, run_join, run_loss
from distributor.testing.losses import every_loss
from topology.plan import plan
from topology.testing import topology_of, tree_of

MUTANT_SEEDS_MAX = 8

ONE_RUN = """
from dafka.testing.world import World
from distributor.testing.holding import mute, run_loss
from distributor.testing.losses import every_loss
mute()
note = World.note
World.note = lambda world, *facts: (note(world, *facts), print(world.now_ms, facts))[0]
topology, chosen = next(iter(every_loss(4, 1)))
run_loss(topology, chosen, 0)
"""

TREE = topology_of(tree_of((2, (1, "c1", "c2"), "c3")))


SHARE = 4
"""One in so many of the larger trees is run here; `python -m distributor.testing.holding --size 4`
runs them all."""


def failures(size):
    share = 1 if size < 4 else SHARE
    return [
        (chosen, topology.tree, index, found)
        for index, (topology, chosen) in enumerate(every_loss(size, 1))
        if index % share == 0
        for found in (run_loss(topology, chosen, index), run_join(topology, chosen[0], index))
        if found.problems
    ]


@pytest.mark.sim
@pytest.mark.parametrize("size", [2, 3, 4])
def test_no_loss_and_no_joining_makes_a_store_drop_what_a_cluster_lacks(size):
    assert failures(size) == []


@pytest.mark.sim
def test_what_all_have_is_dropped_meanwhile():
    assert run_loss(TREE, ("c2",), 3).trims > 10


def test_the_same_seed_is_the_same_run():
    assert run_join(TREE, "c2", 3) == run_join(TREE, "c2", 3)


@pytest.mark.sim
def test_a_bound_lets_go_of_what_a_cluster_lacks():
    """And all settles: the link stops those partitions, and goes on with the others."""
    run = HoldRun(TREE, 1, hold_ms=20_000)
    run.sim.world.run_until(holding.START_MS)
    for cluster in run.sim.clusters.values():
        cluster.producers[0].send("flights", 3)
    run.sim.world.run_until(run.sim.world.now_ms + 200)
    for store in run.sim.clusters["c3"].stores:
        store.suspend(60_000)
    for cluster in run.sim.clusters.values():
        cluster.producers[0].send("flights", 3)
    run.sim.world.run_until(run.sim.world.now_ms + 15_000)
    assert not run.outcome.released
    run.sim.world.run_until(run.sim.world.now_ms + 30_000)
    assert run.outcome.released


def next_hops_only(monkeypatch):
    def need(topology, cluster):
        whole = need_of(topology, cluster)
        hops = {one.target for one in plan(topology).links if one.source == cluster}
        others = {name: must for name, must in whole.others.items() if name in hops}
        return replace(whole, others=others)

    monkeypatch.setattr(hold_keeper, "need_of", need)


def silence_is_leave(monkeypatch):
    floor = Holds.floor
    monkeypatch.setattr(Holds, "floor", lambda self, place: floor(self, place) or NO_FLOOR)


def flows_before_holds(monkeypatch):
    join = HoldRun.join

    def hasty(self, name):
        self.flow()
        self.sim.world.run_until(self.sim.world.now_ms + 10_000)
        join(self, name)

    monkeypatch.setattr(HoldRun, "join", hasty)


def who_is_silent_has_it_all(monkeypatch):
    def floor(self, partition):
        heard = [ends.get(partition, 0) for ends in self._ends.values()]
        return min(heard, default=NO_FLOOR)

    monkeypatch.setattr(Floors, "floor", floor)


def older_epochs_are_heard(monkeypatch):
    place = Holds.place

    def deaf(self, word):
        self._epoch = 0
        place(self, word)

    monkeypatch.setattr(Holds, "place", deaf)


def floors_outlive_their_need(monkeypatch):
    place = Holds.place

    def blind(self, word):
        place(self, replace(word, need=b"always"))

    monkeypatch.setattr(Holds, "place", blind)


@pytest.mark.sim
@pytest.mark.parametrize(
    "fault",
    [
        next_hops_only,
        silence_is_leave,
        flows_before_holds,
        who_is_silent_has_it_all,
        older_epochs_are_heard,
        floors_outlive_their_need,
    ],
)
def test_a_fault_is_found(fault, monkeypatch):
    fault(monkeypatch)
    assert any(
        run.problems
        for seed in range(MUTANT_SEEDS_MAX)
        for run in (run_loss(TREE, ("c2",), seed), run_join(TREE, "c2", seed))
    )


@pytest.mark.slow
def test_a_seed_is_the_same_run_however_names_are_hashed():
    def run(hash_seed):
        words = [sys.executable, "-c", ONE_RUN]
        environment = os.environ | {"PYTHONHASHSEED": hash_seed}
        environment["PYTHONPATH"] = os.pathsep.join(sys.path)
        return subprocess.run(words, capture_output=True, check=True, env=environment).stdout

    assert run("1") == run("2")
