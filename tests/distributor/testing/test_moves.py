"""The slots of one cluster of a tree move while links copy."""

from __future__ import annotations

from dataclasses import replace

import pytest

from dafka.model import SLOTS, Slots
from dafka.testing.sim_mover import SlotPlan
from dafka.testing.world import Faults
from distributor.testing.checkers import settled
from distributor.testing.links import AS_USUAL
from distributor.testing.moves import SlotMoves
from distributor.testing.world import SimWorld
from topology.plan import plan
from topology.testing import topology_of, tree_of

LOW, HIGH = (Slots.of([one]) for one in (range(SLOTS // 2), range(SLOTS // 2, SLOTS)))
MOVES = SlotPlan(1, (LOW, HIGH), (LOW, LOW, HIGH))


@pytest.fixture
def sim():
    settings = replace(AS_USUAL, moves={"c2": MOVES})
    pair = plan(topology_of(tree_of((1, "c1", "c2"))))
    return SimWorld(pair, 1, Faults(), producers=4, settings=settings)


@pytest.fixture
def moving(sim):
    moving = SlotMoves(sim, "c2", MOVES, healthy=True)
    yield moving
    moving.close()


def test_links_go_on_to_and_from_stores_that_have_come(sim, moving):
    assert [len(cluster.stores) for cluster in sim.clusters.values()] == [1, 2]
    sim.world.run_until(3_000)
    for _ in range(20):
        sim.send_somewhere("flights", 2)
        sim.world.run_until(sim.world.now_ms + 200)
        moving.happen()
    moving.finish()
    sim.world.run_until(60_000)
    assert moving.done
    for _ in range(20):
        sim.send_somewhere("flights", 2)
    sim.world.run_until(70_000)
    assert settled(sim)
    assert moving.wrong() == []
    assert sim.anomalies() == []
    assert [store.slots for store in sim.clusters["c2"].stores] == [*MOVES.after]
    assert all(store.log.heads() for store in sim.clusters["c2"].stores[::2])


def test_what_has_not_moved_is_said(sim, moving):
    sim.world.run_until(1_000)
    while len(sim.clusters["c2"].stores) < len(MOVES.after):
        moving.happen()
    assert "slots have not moved" in moving.wrong()
    assert any("is to keep" in line for line in moving.wrong())


def test_what_a_store_gives_up_another_of_its_cluster_has_to_have(sim, moving):
    sim.world.run_until(3_000)
    for _ in range(20):
        sim.send_somewhere("flights", 2)
    sim.world.run_until(10_000)
    assert settled(sim), "so all of it is on the other cluster"
    store = sim.clusters["c2"].stores[1]
    assert store.log.heads()
    store.settings = replace(store.settings, slots=LOW)
    kept_slots = store.kept_slots
    kept_slots.stop(HIGH, 0)
    kept_slots.drop(kept_slots.token)
    store.crash()
    store.boot()
    assert any("keeps no more" in line or "given-up" in line for line in moving.wrong())
