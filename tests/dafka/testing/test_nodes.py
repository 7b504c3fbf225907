"""The nodes of one cluster: what a crash does to them, and what they write into the history."""

from __future__ import annotations

from dafka.model import Partition
from dafka.protocol.consumer import ConsumerSettings
from dafka.storage.memory import MemoryLog
from dafka.testing.history import Acknowledged, Polled
from dafka.testing.nodes import SimConsumer, SimProducer, SimStore, read_stores
from dafka.testing.world import Faults, SimMesh, World


def cluster(seed, faults):
    world = World(seed, faults)
    mesh = SimMesh(world)
    producers = [SimProducer(world, f"P{number}", mesh) for number in range(2)]
    stores = [SimStore(world, f"S{number}", mesh, MemoryLog(f"S{number}")) for number in range(2)]
    consumer = SimConsumer(world, "C", mesh, ConsumerSettings(topics=("flights",)))
    for node in (*producers, *stores, consumer):
        node.boot()
    return world, producers, stores, consumer


def test_a_crash_undoes_what_the_disk_had_not_finished():
    kept = set()
    for seed in range(20):
        world, (producer, _), (store, _), _ = cluster(seed, Faults(disk_ms_max=10_000))
        world.run_until(1_000)
        producer.send("flights", 1)
        world.run_until(1_010)
        store.crash()
        kept.add(bool(store.log.heads()))
        assert producer.waiting
    assert kept == {True, False}, "both happen: the write was whole, or it was not at all"


def test_a_producer_that_comes_back_is_another_partition():
    world, (producer, _), _, _ = cluster(1, Faults())
    world.run_until(100)
    producer.send("flights", 1)
    producer.crash()
    producer.boot()
    producer.send("flights", 1)
    assert {partition.address for partition in producer.partitions} == {"P0.1", "P0.3"}


def test_with_a_spool_it_is_the_same_one_and_goes_on():
    world = World(1, Faults())
    mesh = SimMesh(world)
    producer = SimProducer(world, "P", mesh, spooled=True)
    producer.boot()
    producer.send("flights", 2)
    world.run_until(100)
    producer.crash()
    producer.boot()
    producer.send("flights", 1)
    assert producer.waiting
    store = SimStore(world, "S", mesh, MemoryLog("S"))
    store.boot()
    world.run_until(60_000)
    assert not producer.waiting
    assert store.log.heads() == {Partition("flights", "P"): 2}
    sequences = [one.sequence for one in world.history if isinstance(one, Acknowledged)]
    assert sequences == [0, 2]


def test_a_store_is_told_damaged_content_as_often_as_said():
    world, (producer, _), (store, other), _ = cluster(1, Faults(corruption=1.0))
    other.crash()
    producer.send("flights", 3)
    world.run_until(10_000)
    assert store.log.heads() == {}
    world.faults.heal()
    world.run_until(60_000)
    assert not producer.waiting


def test_the_end_of_a_history_is_what_the_stores_hold():
    world, (producer, _), stores, _ = cluster(1, Faults())
    world.run_until(100)
    producer.send("flights", 2)
    world.run_until(5_000)
    read_stores(world, stores)
    settled, *held = list(world.history)[-3:]
    assert settled.stores == ("S0", "S1")
    assert [(one.node, one.sequence, one.values) for one in held] == [
        ("S0", 0, (b"P0-1", b"P0-2")),
        ("S1", 0, (b"P0-1", b"P0-2")),
    ]
    polled = [one.values for one in world.history if isinstance(one, Polled)]
    assert polled == [(b"P0-1", b"P0-2")]


def test_a_disk_that_refuses_is_asked_again():
    world, (producer, _), (_, other), _ = cluster(1, Faults())
    other.crash()
    world.run_until(100)
    producer.send("flights", 1)
    producer.send("flights", 1)
    world.faults.refusal = 1.0
    world.run_until(5_000)
    assert producer.waiting
    world.faults.heal()
    world.run_until(60_000)
    assert not producer.waiting
