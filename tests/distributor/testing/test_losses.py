"""Clusters lost for ever: the survivors converge, and nothing less than that makes them."""

from __future__ import annotations

import random
from dataclasses import replace

import pytest

from dafka.testing.world import Faults
from distributor.link.machine import LinkMachine
from distributor.link.target import Retarget, TargetSettings
from distributor.testing import losses
from distributor.testing.checkers import settled
from distributor.testing.links import REPAIRING
from distributor.testing.losses import every_loss, run
from distributor.testing.world import SimWorld
from topology.copyflags import EVERY_FLAG
from topology.plan import plan
from topology.testing import random_topology, topology_of, tree_of

SHARE = 24
"""One in so many losses of the larger trees is run here;
`python -m distributor.testing.losses --size 6 --lost 2` runs them all."""

LEAST = 12
"""So many of them, if there are: of three it may be that none needs anything pulled."""

CASES = [
    (size, lost)
    for size, lost in ((2, 1), (3, 1), (3, 2), (4, 1), (4, 2), (5, 1), (5, 2), (6, 1), (6, 2))
]


@pytest.mark.sim
@pytest.mark.parametrize(("size", "lost"), CASES, ids=str)
def test_survivors_of_every_loss_converge_to_what_they_have(size, lost):
    pulled = 0
    every = list(every_loss(size, lost))
    share = 1 if size <= 4 else max(1, min(SHARE, len(every) // LEAST))
    for index, (topology, chosen) in enumerate(every):
        if index % share == share // 2:  # the first of each kind may all lose what nobody needs
            outcome = run(topology, chosen, index)
            assert not outcome.problems, (chosen, topology.tree, index, outcome.problems)
            pulled += outcome.pulled
    assert pulled or size < 4


@pytest.mark.sim
def test_a_loss_that_is_declared_is_not_waited_for():
    for index, (topology, chosen) in enumerate(every_loss(4, 1)):
        declared = run(topology, chosen, index, declared=True)
        assert not declared.problems
        assert declared.settled_ms <= run(topology, chosen, index).settled_ms


def leaves_short(settings) -> bool:
    """Whether a single loss of trees of four leaves a survivor short."""
    return any(
        run(topology, chosen, index, settings).problems
        for index, (topology, chosen) in enumerate(every_loss(4, 1))
    )


@pytest.mark.sim
def test_without_pulls_the_loss_of_a_relay_leaves_survivors_short():
    assert leaves_short(replace(REPAIRING, link=replace(REPAIRING.link, repair_after_ms=None)))


@pytest.mark.sim
def test_without_failover_the_loss_of_a_relay_leaves_survivors_short():
    assert leaves_short(replace(REPAIRING, aim=TargetSettings(failover_after_ms=1 << 40)))


@pytest.mark.sim
def test_a_pull_as_if_the_record_were_new_is_harmless_but_carries_more(monkeypatch):
    # Identity saves what flags alone would not: no store takes a record twice.
    kept = [run(*case, seed) for seed, case in enumerate(every_loss(4, 1))]
    copied = LinkMachine._copied

    def as_if_new(machine, batch, envelope, flags):
        return copied(machine, batch, envelope, 0 if flags == EVERY_FLAG else flags)

    monkeypatch.setattr(LinkMachine, "_copied", as_if_new)
    fresh = [run(*case, seed) for seed, case in enumerate(every_loss(4, 1))]
    assert not any(outcome.problems for outcome in kept + fresh)


@pytest.mark.sim
def test_in_health_nothing_is_ever_pulled_or_left():
    for seed in range(12):
        chance = random.Random(seed)
        sim = SimWorld(plan(random_topology(chance, 5)), seed, Faults(), settings=REPAIRING)
        sim.world.run_until(3_000)
        for _ in range(40):
            sim.send_somewhere("flights", 3)
            sim.world.run_until(sim.world.now_ms + 500)
        sim.world.run_until(sim.world.now_ms + 10_000)
        assert settled(sim)
        assert not any(link.pulled or link.switches for link in sim.links), f"seed {seed}"


FOUR = topology_of(tree_of((3, (1, "c1", "c2"), (1, "c3", "c4"))))


def four(seed, settings=REPAIRING):
    sim = SimWorld(plan(FOUR), seed, Faults(delay_ms_max=20), settings=settings)
    sim.world.run_until(2_500)
    return sim


def flow(sim, batches=20):
    for _ in range(batches):
        for cluster in sim.clusters.values():
            cluster.producers[0].send("flights", 2)
        sim.world.run_until(sim.world.now_ms + 50)


def settle(sim, bound_ms=120_000):
    end_ms = sim.world.now_ms + bound_ms
    while not settled(sim) and sim.world.now_ms < end_ms:
        sim.world.run_until(sim.world.now_ms + 500)
    assert settled(sim)


@pytest.mark.sim
@pytest.mark.parametrize("seed", range(5))
def test_a_planned_switch_under_load_carries_no_record_twice(seed):
    sim = four(seed)
    flow(sim)
    (link,) = [link for link in sim.links if link.name == "link-c1-3-1"]
    link.tell(Retarget("c4"))
    flow(sim, 60)
    settle(sim)
    sim.world.run_until(sim.world.now_ms + 500)  # links count what was acknowledged to them
    assert [(switch.target, switch.planned) for switch in link.switches] == [("c4", True)]
    sent = sum(80 * 2 for _ in sim.clusters)
    assert sum(link.forwarded for link in sim.links) == 3 * sent
    assert not sim.anomalies()


@pytest.mark.sim
@pytest.mark.parametrize("seed", range(5))
def test_even_a_switch_without_the_barrier_stores_every_record_once_in_order(seed):
    # With per-record flags alone this reorders and repeats; a name for every record does not.
    sim = four(seed, replace(REPAIRING, barrier=False))
    flow(sim)
    (link,) = [link for link in sim.links if link.name == "link-c1-3-1"]
    link.tell(Retarget("c4"))
    flow(sim, 60)
    settle(sim)
    assert [switch.target for switch in link.switches] == ["c4"]
    assert not sim.anomalies()


@pytest.mark.sim
@pytest.mark.parametrize("failback", [False, True])
def test_a_silent_target_is_left_and_returned_to_if_told_so(failback):
    settings = replace(REPAIRING, aim=TargetSettings(failover_after_ms=3_000, failback=failback))
    sim = four(1, settings)
    sim.clusters["c3"].store.crash()
    flow(sim, 100)
    links = [link for link in sim.links if link.name in ("link-c1-3-1", "link-c2-3-1")]
    assert {link.target.name for link in links} == {"c4"}
    sim.clusters["c3"].store.boot()
    sim.world.run_until(sim.world.now_ms + 20_000)
    settle(sim)
    assert {link.target.name for link in links} == ({"c3"} if failback else {"c4"})
    assert not sim.anomalies()


@pytest.mark.sim
@pytest.mark.parametrize("restarted", [False, True])
def test_a_target_whose_disk_is_full_is_left_though_its_stores_answer(restarted):
    settings = replace(REPAIRING, aim=TargetSettings(failover_after_ms=3_000))
    sim = four(1, settings)
    flow(sim, 20)
    links = [link for link in sim.links if link.name in ("link-c1-3-1", "link-c2-3-1")]
    sim.clusters["c3"].store.disk.full = True
    if restarted:
        for link in links:
            link.crash()
            link.boot()
    flow(sim, 150)
    assert {link.target.name for link in links} == {"c4"}
    sim.clusters["c3"].store.disk.full = False
    settle(sim)
    assert not sim.anomalies()


@pytest.mark.sim
def test_a_cluster_that_comes_back_with_a_new_disk_is_filled():
    sim = four(2)
    flow(sim)
    settle(sim)
    heads = dict(sim.clusters["c1"].store.log.heads())
    sim.empty("c3")
    settle(sim)
    assert dict(sim.clusters["c3"].store.log.heads()) == heads


@pytest.mark.sim
def test_what_nobody_has_any_more_is_counted():
    sim = four(3)
    flow(sim)
    for link in sim.links:
        if link.link.source == "c1":
            link.crash()
    sim.clusters["c1"].producers[0].send("flights", 7)
    sim.world.run_until(sim.world.now_ms + 1_000)
    sim.lose("c1")
    settle(sim)
    assert sum(sim.rpo().values()) == 7


def test_the_command_line_runs_every_loss_of_a_size(monkeypatch, capsys):
    monkeypatch.setattr("sys.argv", ["losses", "--size", "3"])
    assert losses.main() == 0
    assert "6 of 6 losses converge" in capsys.readouterr().out
