"""One cluster in the simulator: consumers see each stored record once, in order."""

from __future__ import annotations

import pytest

from dafka.errors import StorageError
from dafka.protocol.consumer import ConsumerSettings
from dafka.storage.memory import MemoryLog
from dafka.testing.nodes import SimConsumer, SimProducer, SimStore
from dafka.testing.world import Faults, Mesh, World


def cluster(seed, faults):
    world = World(seed, faults)
    mesh = Mesh(world)
    producers = [SimProducer(world, f"P{number}", mesh) for number in range(2)]
    stores = [SimStore(world, f"S{number}", mesh, MemoryLog(f"S{number}")) for number in range(2)]
    consumer = SimConsumer(world, "C", mesh, ConsumerSettings(topics=("flights",)))
    for node in (*producers, *stores, consumer):
        node.boot()
    return world, producers, stores, consumer


def trouble(seed):
    """A run with crashes of everything, then peace; returns the nodes."""
    faults = Faults(loss=0.2, duplication=0.1, delay_ms_max=20, disk_ms_max=30)
    world, producers, stores, consumer = cluster(seed, faults)
    for turn in range(40):
        world.run_until(turn * 50 + world.random.randint(0, 49))
        producer = world.random.choice(producers)
        if producer.alive:
            producer.send("flights", world.random.randint(1, 4))
        node = world.random.choice([*producers, *stores, consumer])
        if node.alive and world.random.random() < 0.3:
            node.crash()
            world.after(world.random.randint(1, 1_500), node.boot)
    faults.loss = faults.duplication = 0.0
    world.run_until(world.now_ms + 60_000)
    return producers, stores, consumer


@pytest.mark.sim
@pytest.mark.parametrize("seed", range(30))
def test_every_stored_record_is_delivered_once_and_in_order(seed):
    producers, stores, consumer = trouble(seed)
    sent = {part: values for producer in producers for part, values in producer.sent.items()}
    heads: dict = {}
    for store in stores:
        for partition, head in store.log.heads().items():
            heads[partition] = max(head, heads.get(partition, -1))
    assert heads
    for partition, head in heads.items():
        values = [record.value for record in consumer.delivered[partition]]
        assert values[: head + 1] == sent[partition][: head + 1], f"seed {seed}"
    for producer in producers:
        for partition, end in producer.stored.items():
            assert heads[partition] >= end - 1, f"seed {seed}"


def test_a_crash_undoes_what_the_disk_had_not_finished():
    kept = set()
    for seed in range(20):
        world, (producer, _), (store, _), _ = cluster(seed, Faults(disk_ms_max=10_000))
        world.run_until(1_000)
        producer.send("flights", 1)
        world.run_until(1_010)
        store.crash()
        kept.add(bool(store.log.heads()))
        assert not producer.stored
    assert kept == {True, False}, "both happen: the write was whole, or it was not at all"


def test_a_producer_that_comes_back_is_another_partition():
    world, (producer, _), _, _ = cluster(1, Faults())
    world.run_until(100)
    producer.send("flights", 1)
    producer.crash()
    producer.boot()
    producer.send("flights", 1)
    assert {partition.address for partition in producer.sent} == {"P0.1", "P0.3"}


def test_a_disk_that_refuses_is_asked_again():
    world, (producer, _), (store, other), _ = cluster(1, Faults())
    other.crash()
    world.run_until(100)
    producer.send("flights", 1)
    producer.send("flights", 1)
    original = store.log.append
    refusals = iter([True, True, False])

    def refusing(batches):
        if next(refusals, False):
            raise StorageError("disk full")
        original(batches)

    store.log.append = refusing
    world.run_until(20_000)
    assert next(iter(producer.stored.values())) == 2
