"""Consumers that are behind: they get everything, reach the live edge, and hold nobody up."""

from __future__ import annotations

import pytest

from dafka.limits import BATCH_RECORDS_MAX, REORDER_BYTES_MAX
from dafka.model import Batch, Partition
from dafka.protocol.consumer import ConsumerSettings, Start
from dafka.protocol.events import Consumed, Submitted
from dafka.records.batch import BatchBuilder, enclosed
from dafka.storage.memory import MemoryLog
from dafka.testing.nodes import SimConsumer, SimProducer, SimStore
from dafka.testing.world import Faults, SimMesh, World
from dafka.wire import messages

pytestmark = pytest.mark.sim


class Counting(SimConsumer):
    """A consumer that counts what it receives, and takes its time over it.

    Args:
        pause_ms: How long its application takes over one batch.
    """

    def __init__(self, world, name, mesh, settings, pause_ms=0):
        super().__init__(world, name, mesh, settings)
        self.received = 0
        self.taken = 0
        self.next = {}
        self._pause_ms = pause_ms
        self._free_ms = 0

    def arrive(self, side, event):
        message = getattr(event, "message", None)
        if isinstance(message, messages.Records | messages.DirectRecords):
            self.received += message.count
        super().arrive(side, event)

    def take(self, delivered):
        batch = delivered.batch
        assert delivered.start == self.next.get(batch.partition, 0)
        self.next[batch.partition] = batch.end
        self._free_ms = max(self._free_ms, self.world.now_ms) + self._pause_ms
        consumed = Consumed(len(batch.content))
        self.later(self._free_ms - self.world.now_ms, lambda: self.post(None, consumed))

    @property
    def delivered(self):
        return sum(self.next.values())


def filled(batches, count, size):
    """A log with a partition of a producer that is gone, and the partition."""
    partition = Partition("flights", "GONE")
    builder = BatchBuilder(8 << 20)
    builder.extend(1_000, [bytes(size)] * count, 0)
    assert builder.count == count
    records = builder.build()
    log = MemoryLog("S")
    for number in range(batches):
        content = enclosed(records, number * count)
        log.append([Batch(partition, number * count, count, content)])
    return log, partition


def test_five_million_records_of_a_dead_producer_are_read_to_their_end():
    log, partition = filled(50, BATCH_RECORDS_MAX, 1)
    world = World(1, Faults())
    mesh = SimMesh(world)
    SimStore(world, "S", mesh, log).boot()
    consumer = Counting(world, "C", mesh, ConsumerSettings(topics=("flights",)))
    consumer.boot()
    world.run_until(60_000)
    assert consumer.next == {partition: 5_000_000}
    assert consumer.received == 5_000_000


@pytest.mark.parametrize("seed", range(5))
def test_a_late_consumer_under_load_reaches_the_live_edge_and_stays_there(seed):
    log, old = filled(300, 100, 1_000)
    world = World(seed, Faults(delay_ms_max=0))
    mesh = SimMesh(world)
    stores = [SimStore(world, "S", mesh, log), SimStore(world, "T", mesh, MemoryLog("T"))]
    producer = SimProducer(world, "P", mesh)
    for node in (*stores, producer):
        node.boot()
    for _ in range(100):
        producer.send("flights", 100)
        world.run_until(world.now_ms + 50)
    consumer = Counting(world, "C", mesh, ConsumerSettings(topics=("flights",)))
    consumer.boot()
    lags = []
    for _ in range(200):
        producer.send("flights", 100)
        world.run_until(world.now_ms + 50)
        live = Partition("flights", producer.address)
        lags.append(30_000 - consumer.next.get(live, 0))
    assert consumer.next[old] == 30_000
    # From five seconds on it has each batch before the next one is sent.
    behind = [30_000 - 100 * (101 + number) for number in range(200)]
    assert lags[100:] == behind[100:]
    assert consumer.received <= 1.1 * consumer.delivered


def a_hundred_kilobytes():
    """What an application submits as one batch: built once, for it is sent very often."""
    builder = BatchBuilder(8 << 20)
    builder.extend(1_000, [bytes(1_000)] * 100, 0)
    return Submitted("flights", 100, builder.build())


@pytest.mark.parametrize("start", [Start.EARLIEST, Start.LATEST])
def test_a_consumer_far_behind_leaves_what_it_cannot_use_and_comes_back_without_a_gap(start):
    world = World(1, Faults(delay_ms_max=0))
    mesh = SimMesh(world)
    store, producer = SimStore(world, "S", mesh, MemoryLog("S")), SimProducer(world, "P", mesh)
    # Ten milliseconds a batch: twice as fast as the producer sends.
    settings = ConsumerSettings(topics=("flights",), start=start)
    consumer = Counting(world, "C", mesh, settings, pause_ms=10)
    store.boot()
    producer.boot()
    live = Partition("flights", producer.address)
    published = a_hundred_kilobytes()
    before = 800 if start is Start.EARLIEST else 0
    for _ in range(before):
        producer.post(None, published)
        world.run_until(world.now_ms + 1)
    consumer.boot()
    if start is Start.LATEST:
        consumer._free_ms = 10_000  # its application is busy with something else for so long
    lags, away = [], []
    for number in range(before + 1, before + 1_601):
        producer.post(None, published)
        world.run_until(world.now_ms + 20)
        lags.append(100 * number - consumer.next.get(live, 0))
        away.append(consumer.machine._live.away)
    # Away once, while several times the buffer is published, and then at the live edge for good.
    changes = [number for number in range(1, 1_600) if away[number] != away[number - 1]]
    assert len(changes) == 2
    assert (changes[1] - changes[0]) * len(published.records) > 2 * REORDER_BYTES_MAX
    assert max(lags[-300:]) <= 300
    assert consumer.received <= 1.1 * consumer.delivered


def test_a_consumer_too_slow_for_ever_reads_from_stores_at_its_own_pace():
    world = World(1, Faults(delay_ms_max=0))
    mesh = SimMesh(world)
    store, producer = SimStore(world, "S", mesh, MemoryLog("S")), SimProducer(world, "P", mesh)
    settings = ConsumerSettings(topics=("flights",), buffer_bytes_max=1_000_000)
    consumer = Counting(world, "C", mesh, settings, pause_ms=40)
    for node in (store, producer, consumer):
        node.boot()
    published = a_hundred_kilobytes()
    for _ in range(1_000):
        producer.post(None, published)
        world.run_until(world.now_ms + 20)
    assert consumer.machine._live.away
    assert consumer.received <= 1.2 * consumer.delivered
    world.run_until(world.now_ms + 40_000)
    assert consumer.next == {Partition("flights", producer.address): 100_000}
    assert not consumer.machine._live.away


@pytest.mark.parametrize("seed", range(5))
def test_a_slow_consumer_loses_nothing_and_holds_nobody_up(seed):
    world = World(seed, Faults(delay_ms_max=2))
    mesh = SimMesh(world)
    store = SimStore(world, "S", mesh, MemoryLog("S"))
    producer = SimProducer(world, "P", mesh)
    settings = ConsumerSettings(topics=("flights",), buffer_bytes_max=20_000)
    slow = Counting(world, "SLOW", mesh, settings, pause_ms=200)
    fast = Counting(world, "FAST", mesh, settings)
    for node in (store, producer, slow, fast):
        node.boot()
    world.run_until(2_000)
    partition = Partition("flights", producer.address)
    for number in range(100):
        producer.send("flights", 100)
        world.run_until(world.now_ms + 20)
        assert fast.next == {partition: 100 * (number + 1)}
        assert slow.machine._buffered <= 20_000 + 8_000, "its buffer and one batch"
    assert slow.next.get(partition, 0) < 10_000
    world.run_until(world.now_ms + 60_000)
    assert slow.next == fast.next == {partition: 10_000}
    assert not producer.waiting
