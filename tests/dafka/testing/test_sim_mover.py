"""Who moves slots in the simulator does it, and is seen doing it too early."""

from __future__ import annotations

import random

import pytest

from dafka.model import ALL_SLOTS, SLOTS, Slots
from dafka.node.store_settings import StoreSettings
from dafka.query import slot_mover
from dafka.storage.memory import MemoryLog
from dafka.testing.checker import Name
from dafka.testing.nodes import SimProducer, SimStore
from dafka.testing.sim_mover import SimMover, SlotPlan, declare
from dafka.testing.world import Faults, SimMesh, World

LOW, HIGH = (Slots.of([one]) for one in (range(SLOTS // 2), range(SLOTS // 2, SLOTS)))


class Cluster:
    """Two stores that change places, and a producer on each half of the ring."""

    def __init__(self):
        self.world = World(1, Faults())
        mesh = SimMesh(self.world)
        self.stores = [
            SimStore(self.world, name, mesh, MemoryLog(name), StoreSettings(slots=kept))
            for name, kept in (("S0", LOW), ("S1", HIGH))
        ]
        self.producers = [SimProducer(self.world, f"P{number}", mesh) for number in range(4)]
        for node in (*self.stores, *self.producers):
            node.boot()
        self.cut = []
        self.mover = SimMover(self.world, self.stores, 1, self.apart)

    def apart(self, store):
        pairs = {("P0", other.name) for other in self.stores if other is not store}
        self.cut.append((store.name, pairs))
        return pairs

    def run(self, milliseconds):
        self.world.run_until(self.world.now_ms + milliseconds)


@pytest.fixture
def cluster():
    cluster = Cluster()
    cluster.run(2_000)
    for producer in cluster.producers:
        producer.send("t", 3)
    cluster.run(2_000)
    yield cluster
    cluster.mover.crash()


def test_slots_change_places_and_nothing_is_found(cluster):
    for store, slots in zip(cluster.stores, (HIGH, LOW), strict=True):
        declare(store, slots, 100)
    assert not any(store.alive for store in cluster.stores)
    assert {one.name for one in cluster.mover.found((HIGH, LOW))} == {Name.REPLICAS_DIFFER}
    cluster.run(1_000)
    cluster.mover.boot()
    cluster.run(60_000)
    assert cluster.mover.done
    assert cluster.mover.found((HIGH, LOW)) == []
    assert sum(len(store.log.heads()) for store in cluster.stores) == len(cluster.producers)
    assert {name for name, _ in cluster.cut} == {"S0", "S1"}
    assert not cluster.world.cuts


def test_what_a_store_is_told_to_keep_too_early_is_found(cluster, monkeypatch):
    monkeypatch.setattr(slot_mover, "_lacks", lambda *_: "")
    declare(cluster.stores[1], ALL_SLOTS, 1)
    cluster.world.cut("S0", "S1", both=True)
    cluster.run(100)
    cluster.mover.boot()
    cluster.run(5_000)
    assert {one.name for one in cluster.mover.found((LOW, ALL_SLOTS))} == {Name.GAP}


def test_a_plan_keeps_each_slot_as_often_as_it_says():
    for seed in range(100):
        plan = SlotPlan.drawn(random.Random(seed))
        assert plan.coming == plan.after[len(plan.before) :]
        for kept in (plan.before, plan.after):
            assert all(kept), "each keeps something"
            for slot in range(0, SLOTS, 512):
                assert sum(one.has(slot) for one in kept) >= plan.copies
