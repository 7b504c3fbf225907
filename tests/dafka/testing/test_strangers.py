"""Peers of other makes, and such as lie."""

from __future__ import annotations

from dafka.model import Partition
from dafka.storage.memory import MemoryLog
from dafka.testing.nodes import SimProducer, SimStore
from dafka.testing.strangers import SimBareProducer, SimBareTwin, SimLiar
from dafka.testing.world import Faults, SimMesh, World
from dafka.wire.messages import LogStart


def test_a_producer_of_bare_values_is_stored_whatever_gets_lost():
    world = World(1, Faults(loss=0.3))
    mesh = SimMesh(world)
    store = SimStore(world, "S", mesh, MemoryLog("S"))
    bare = SimBareProducer(world, "BARE", mesh)
    for node in (store, bare):
        node.boot()
    for _ in range(5):
        bare.send("t", 3)
        world.run_until(world.now_ms + 500)
    world.heal()
    world.run_until(60_000)
    assert not bare.waiting
    assert store.log.heads() == {Partition("t", "BARE"): 14}


def test_a_liar_answers_for_others_and_no_store_believes_it():
    world = World(3, Faults(delay_ms_max=20))
    mesh = SimMesh(world)
    stores = [SimStore(world, name, mesh, MemoryLog(name)) for name in ("S0", "S1")]
    liar, producer = SimLiar(world, "L", mesh, 1.0), SimProducer(world, "P", mesh)
    said = []
    liar.published = said.append
    for node in (stores[0], liar, producer):
        node.boot()
    for _ in range(10):
        producer.send("t", 1)
        world.run_until(world.now_ms + 100)
    stores[1].boot()
    world.run_until(60_000)
    assert any(isinstance(message, LogStart) for message in said)
    partition = Partition("t", producer.address)
    for store in stores:
        assert (store.log.extents()[partition].start, store.log.heads()[partition]) == (0, 9)


def test_two_of_another_make_under_one_address_are_told_apart_by_their_values_alone():
    world = World(4, Faults(loss=0.3))
    mesh, partition = SimMesh(world), Partition("t", "BARE")
    store = SimStore(world, "S", mesh, MemoryLog("S"))
    one, other = (SimBareTwin(world, name, mesh, partition) for name in ("B0", "B1"))
    store.boot()
    one.boot()
    world.run_until(10_000)
    assert store.log.heads() == {partition: 0}
    assert store.disputed == set(), "it repeats itself"
    other.boot()
    world.run_until(20_000)
    assert store.disputed == {partition}
