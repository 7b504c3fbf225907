"""One cluster in the simulator, after something went wrong: everybody gets everything."""

from __future__ import annotations

import pytest

from dafka.limits import FETCH_ANSWER_BYTES_MAX
from dafka.model import Partition
from dafka.protocol.consumer import CONSUMER_STATES, ConsumerSettings
from dafka.protocol.machine import Lifecycle
from dafka.records.batch import values_of
from dafka.storage.memory import MemoryLog
from dafka.testing.checker import check
from dafka.testing.history import Polled, Positioned
from dafka.testing.nodes import SimConsumer, SimProducer, SimStore, read_stores
from dafka.testing.world import Faults, SimMesh, World
from dafka.wire import messages

pytestmark = pytest.mark.sim

SEEDS = range(10)


class Cluster:
    """A mesh with nodes made as the test wants them."""

    def __init__(self, seed: int, **faults) -> None:
        self.world = World(seed, Faults(**faults))
        self.mesh = SimMesh(self.world)

    def store(self, name: str) -> SimStore:
        node = SimStore(self.world, name, self.mesh, MemoryLog(name))
        node.boot()
        return node

    def producer(self, name: str = "P") -> SimProducer:
        node = SimProducer(self.world, name, self.mesh)
        node.boot()
        return node

    def consumer(self, **settings) -> SimConsumer:
        node = SimConsumer(self.world, "C", self.mesh, ConsumerSettings(**settings))
        node.boot()
        return node

    def run(self, time_ms: int) -> None:
        self.world.run_until(self.world.now_ms + time_ms)

    def settle(self, *stores: SimStore) -> None:
        """End the run; the history of all of it must show no anomaly."""
        read_stores(self.world, stores)
        assert check(self.world.history) == []

    def skips(self) -> dict[Partition, int]:
        """Where consumers were told that nothing is kept before."""
        return {
            event.partition: event.sequence
            for event in self.world.history
            if isinstance(event, Positioned)
        }

    def delivered(self, partition: Partition) -> list[int]:
        """Sequences that consumers were given."""
        return [
            sequence
            for event in self.world.history
            if isinstance(event, Polled) and event.partition == partition
            for sequence in range(event.sequence, event.sequence + len(event.values))
        ]

    def published(self, producer: SimProducer, batches: int, count: int = 10) -> Partition:
        """Let it send, wait until all is stored; returns the partition."""
        for _ in range(batches):
            producer.send("flights", count)
        partition = Partition("flights", producer.address)
        for _ in range(100):
            self.run(200)
            if not producer.waiting:
                return partition
        raise AssertionError("not stored")


def values(log: MemoryLog, partition: Partition) -> list[bytes]:
    """The contents a store has, to be compared with those of another."""
    standing = log.extents()[partition]
    return [b.content for b in log.read(partition, standing.start, 1 << 40, 1 << 40)]


@pytest.mark.parametrize("seed", SEEDS)
def test_two_stores_with_different_holes_repair_each_other(seed):
    cluster = Cluster(seed, loss=0.05, delay_ms_max=20, disk_ms_max=20)
    one, other = cluster.store("S1"), cluster.store("S2")
    partitions = []
    for number, down in enumerate((one, other, one, other)):
        producer = cluster.producer(f"P{number}")
        partitions.append(cluster.published(producer, 3))
        cluster.run(5_000)  # one ACK is enough to forget a record; the other store needs a moment
        down.crash()
        cluster.published(producer, 3)
        producer.crash()
        down.boot()
    cluster.run(200_000)
    assert one.log.heads() == other.log.heads() == dict.fromkeys(partitions, 59)
    cluster.settle(one, other)


@pytest.mark.parametrize("seed", SEEDS)
def test_a_store_that_was_down_while_producers_died_gets_their_records(seed):
    cluster = Cluster(seed, delay_ms_max=20)
    one, late = cluster.store("S1"), cluster.store("S2")
    late.crash()
    producer = cluster.producer()
    partition = cluster.published(producer, 5)
    producer.crash()
    late.boot()
    cluster.run(5_000)
    assert late.log.heads() == {partition: 49}
    cluster.settle(one, late)


@pytest.mark.parametrize("seed", SEEDS)
def test_a_store_that_joins_late_gets_everything(seed):
    cluster = Cluster(seed, delay_ms_max=20, loss=0.1)
    one = cluster.store("S1")
    producer = cluster.producer()
    partition = cluster.published(producer, 20)
    late = cluster.store("S2")
    for _ in range(20):
        producer.send("flights", 5)
        cluster.run(50)
    cluster.run(70_000)
    assert late.log.heads() == one.log.heads() == {partition: 299}
    cluster.settle(one, late)


@pytest.mark.parametrize("seed", SEEDS)
def test_a_lost_last_ack_is_said_again(seed):
    cluster = Cluster(seed)
    store = cluster.store("S1")
    producer = cluster.producer()
    cluster.run(100)
    producer.send("flights", 3)
    cluster.world.run_until(cluster.world.now_ms + 1)
    cluster.world.faults.loss = 1.0  # from here on, also the ACK
    cluster.run(200)
    cluster.world.faults.loss = 0.0
    cluster.run(20_000)
    assert not producer.waiting
    cluster.settle(store)


@pytest.mark.parametrize("seed", SEEDS)
def test_two_live_producers_under_one_address_are_reported_and_never_mixed(seed):
    cluster = Cluster(seed, delay_ms_max=10, disk_ms_max=10)
    stores = [cluster.store("S1"), cluster.store("S2")]
    first = SimProducer(cluster.world, "P", cluster.mesh, spooled=True)
    second = SimProducer(cluster.world, "P", cluster.mesh, spooled=True)
    first.boot()
    partition = cluster.published(first, 3)
    cluster.run(2_000)
    second.boot()
    second._made = 1_000_000  # its values are its own
    for _ in range(5):
        second.send("flights", cluster.world.random.randint(1, 20))
        first.send("flights", 10)
        cluster.run(100)
    cluster.run(20_000)
    for store in stores:
        assert store.disputed == {partition}
        # The first goes on from where it was; nothing of the second has come between.
        made = [
            int(value.split(b"-")[1])
            for one in store.log.read(partition, 0, 1 << 40, 1 << 40)
            for value in values_of(one)
        ]
        assert len(made) >= 30
        assert made == [*range(1, len(made) + 1)]
    assert second.disputed == {partition}
    assert second.waiting
    apart = cluster.published(cluster.producer("Q"), 2)
    assert stores[0].log.heads()[apart] == 19


def two_lives(seed: int) -> tuple[Cluster, SimStore, SimProducer, SimProducer]:
    """A store with 30 records of one producer, and a second one with a copy of its spool."""
    cluster = Cluster(seed, delay_ms_max=10, disk_ms_max=10)
    store = cluster.store("S1")
    first = SimProducer(cluster.world, "P", cluster.mesh, spooled=True)
    second = SimProducer(cluster.world, "P", cluster.mesh, spooled=True)
    first.boot()
    cluster.published(first, 3)
    return cluster, store, first, second


def unheard(cluster: Cluster, producer: SimProducer, batches: int) -> None:
    """Let it send batches that get lost, all of them."""
    for _ in range(batches):
        producer.send("flights", 10)
    cluster.world.faults.loss = 1.0
    cluster.run(500)
    cluster.world.faults.loss = 0.0


@pytest.mark.parametrize("restarted", [False, True])
@pytest.mark.parametrize("seed", SEEDS)
def test_a_second_producer_whose_first_records_are_lost_is_found_by_those_behind(seed, restarted):
    cluster, store, first, second = two_lives(seed)
    second.boot()
    unheard(cluster, second, 3)
    if restarted:
        store.crash()
        store.boot()
    second.send("flights", 10)
    cluster.run(20_000)
    partition = Partition("flights", "P")
    assert second.disputed == {partition}
    assert second.waiting
    # After a restart the second one may be told, at its HEAD, before it can send.
    assert restarted or store.disputed == {partition}
    assert not first.disputed
    assert store.log.heads() == {partition: 29}


@pytest.mark.parametrize("seed", SEEDS)
def test_a_head_of_a_second_producer_is_not_acknowledged_as_its_own(seed):
    cluster, store, first, second = two_lives(seed)
    second.boot()
    unheard(cluster, second, 3)
    # All that is left of it to be heard is HEAD, which says what the store has anyway.
    cluster.run(5_000)
    assert second.disputed == {Partition("flights", "P")}
    assert second.waiting
    first.send("flights", 10)
    cluster.run(5_000)
    assert not first.waiting
    assert not store.disputed, "nothing of the second one has ever come"


@pytest.mark.parametrize("seed", SEEDS)
def test_an_old_copy_of_a_spool_is_told_that_more_is_stored_than_it_knows(seed):
    cluster, store, _, second = two_lives(seed)
    second.boot()
    unheard(cluster, second, 1)
    cluster.run(5_000)
    assert second.disputed == {Partition("flights", "P")}
    assert store.log.heads() == {Partition("flights", "P"): 29}


@pytest.mark.parametrize("seed", SEEDS)
def test_a_new_store_begins_where_the_logs_of_the_others_start(seed):
    cluster = Cluster(seed, delay_ms_max=10, loss=0.02)
    one = cluster.store("S1")
    producer = cluster.producer()
    partition = cluster.published(producer, 10)
    one.trim(partition, 47)
    late = cluster.store("S2")
    cluster.run(5_000)
    cluster.published(producer, 2)
    cluster.run(20_000)
    assert late.log.extents()[partition][:2] == (40, 119)
    assert values(late.log, partition) == values(one.log, partition)


@pytest.mark.parametrize("seed", SEEDS)
def test_an_earliest_consumer_begins_at_the_log_start(seed):
    cluster = Cluster(seed, delay_ms_max=10, loss=0.02)
    stores = [cluster.store("S1"), cluster.store("S2")]
    producer = cluster.producer()
    partition = cluster.published(producer, 10)
    gone = Partition("flights", cluster.published(cluster.producer("Q"), 2).address)
    cluster.run(5_000)
    for store in stores:
        store.trim(partition, 47)
        store.trim(gone, 20)
    cluster.consumer(topics=("flights",))
    cluster.run(20_000)
    assert cluster.delivered(partition) == [*range(40, 100)]
    assert cluster.delivered(gone) == []
    assert cluster.skips() == {partition: 40, gone: 20}
    cluster.settle(*stores)


@pytest.mark.parametrize("seed", SEEDS)
def test_a_store_that_still_has_the_records_is_heard_before_one_that_has_not(seed):
    cluster = Cluster(seed, delay_ms_max=20, loss=0.05)
    short, whole = cluster.store("S1"), cluster.store("S2")
    producer = cluster.producer()
    partition = cluster.published(producer, 10)
    producer.crash()
    cluster.run(70_000)
    short.trim(partition, 90)
    cluster.consumer(topics=("flights",))
    cluster.run(30_000)
    assert whole.log.heads() == {partition: 99}
    assert cluster.delivered(partition) == [*range(100)]
    assert cluster.skips() == {}


def test_a_consumer_overtaken_by_retention_goes_on_and_counts_the_gap():
    cluster = Cluster(1, delay_ms_max=10)
    store = cluster.store("S1")
    producer = cluster.producer()
    partition = cluster.published(producer, 2)
    consumer = cluster.consumer(topics=("flights",), positions={partition: 15})
    cluster.run(3_000)
    cluster.mesh.leave(consumer.ports[None])
    cluster.published(producer, 5)
    store.trim(partition, 60)
    cluster.mesh.join(consumer.ports[None])
    cluster.published(producer, 1)
    # A socket that comes back subscribes again.
    consumer.machine._lifecycle = Lifecycle(CONSUMER_STATES)
    cluster.run(20_000)
    assert cluster.delivered(partition) == [*range(15, 20), *range(60, 80)]
    assert cluster.skips() == {partition: 60}


@pytest.mark.parametrize("seed", SEEDS)
def test_one_store_of_several_serves_a_late_consumer(seed):
    # Without delays, which reorder here: a connection does not.
    cluster = Cluster(seed, delay_ms_max=0)
    store, *_ = [cluster.store(name) for name in ("S1", "S2", "S3")]
    producer = cluster.producer()
    count = 1_000
    partition = cluster.published(producer, 300, count)
    cluster.run(5_000)
    received = []
    consumer = cluster.consumer(topics=("flights",))
    port = consumer.ports[None]
    arrive = port.arrive

    def counting(event):
        message = getattr(event, "message", None)
        if isinstance(message, messages.DirectRecords):
            received.append(message.count)
        arrive(event)

    port.arrive = counting
    cluster.run(20_000)
    assert len(cluster.delivered(partition)) == 300 * count
    # The first window comes from all three, what follows from one.
    (first,) = store.log.read(partition, 0, 1, 0)
    window = FETCH_ANSWER_BYTES_MAX // len(first.content) + 1
    assert sum(received) <= (300 + 2 * window) * count
