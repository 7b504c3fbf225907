"""Stores that share the slots of the ring: what one does, and real ones with their publishers."""

from __future__ import annotations

import shutil
from contextlib import closing

import pytest

from dafka.cli.store_disk import KEPT_TABLES
from dafka.cluster import Cluster
from dafka.errors import MisuseError
from dafka.model import ALL_SLOTS, SLOTS, Partition, Slots, address_in, slot_of
from dafka.node.consumer import Consumer
from dafka.node.store import Store
from dafka.node.store_settings import StoreSettings
from dafka.process.metrics import DROPPED
from dafka.protocol.effects import Append, Dropped, Listen, Publish, ReadRange, Unlisten
from dafka.protocol.events import (
    Appended,
    PeerListened,
    Received,
    SlotsMoved,
    TurnEnded,
    Woke,
)
from dafka.protocol.keeping import Keeping
from dafka.protocol.store import StoreMachine
from dafka.query.client import StoreClient
from dafka.query.cluster_client import ClusterClient
from dafka.storage.backup import back_up, restore
from dafka.storage.kept_slots import KeptSlots
from dafka.storage.lmdb_log import LmdbLog
from dafka.storage.memory import MemoryLog
from dafka.testing.nodes import SimProducer, SimStore
from dafka.testing.world import Faults, SimMesh, World
from dafka.wire import messages
from dafka.wire.messages import MessageId
from tests.support.batches import make_batch
from tests.support.shares import HIGH, LOW

KEPT, OTHERS = (address_in("AB" * 16, half, 2) for half in (0, 1))


def machine():
    """One that keeps half of them, and what it has begun with."""
    machine = StoreMachine("ME", {}, keeping=Keeping(LOW))
    return machine, machine.handle(Woke(), 0)


def told(machine, *heard):
    """What it does when it hears messages and its writes succeed."""
    effects = [one for message in heard for one in machine.handle(Received(message), 0)]
    for write in machine.handle(TurnEnded(), 0):
        assert isinstance(write, Append)
        effects += machine.handle(Appended(write.token), 0)
    machine.check()
    return effects


def live(one, kind=messages.Records):
    return kind(*one.partition, one.sequence, one.count, one.content)


def heard_by(effects):
    return {(one.id, one.key) for one in effects if isinstance(one, Listen)}


def test_it_listens_for_its_slots_and_for_what_the_cluster_says_of_itself():
    heard = heard_by(machine()[1])
    everything = heard_by(StoreMachine("ME", {}).handle(Woke(), 0))
    assert heard - everything == {(MessageId.SLOT_RECORDS, "0"), (MessageId.RECORDS, "_")}
    assert everything - heard == {(MessageId.RECORDS, "")}


def test_it_stores_and_acknowledges_what_is_of_them():
    store, _ = machine()
    one = make_batch([b"1"], 0, Partition("flights", KEPT))
    own = make_batch([b"1"], 0, Partition("__consumer_offsets", OTHERS))
    effects = told(store, live(one, messages.SlotRecords), live(own))
    assert effects == [
        Publish(messages.Ack(*batch.partition, "ME", 0, None)) for batch in (one, own)
    ]
    assert store.heads.keys() == {one.partition, own.partition}


def test_of_others_it_takes_asks_and_says_nothing():
    store, _ = machine()
    due_ms = store.wakeup_ms()
    one = make_batch([b"1"], 0, Partition("flights", OTHERS))
    place = one.partition
    live_ones = [
        live(one),
        live(one, messages.SlotRecords),
        messages.RecordMessage(*place, 1, b"bare"),
    ]
    answers = [
        messages.DirectRecords("ME", *place, 0, 1, one.content),
        messages.Head(*place, 5),
        messages.DirectHead("ME", *place, 5, "S2"),
        messages.LogStart("ME", *place, 3, "S2"),
        messages.Fetch(*place, "CC", 0, 9),
    ]
    assert told(store, *live_ones) == [Dropped("not for this store")] * 3
    assert told(store, *answers) == []
    assert store.heads == {}
    assert store.wakeup_ms() == due_ms


def test_it_says_what_it_keeps_to_whoever_listens_for_that():
    store, began = machine()
    assert (MessageId.STORE_HELLO, "ME") in heard_by(began), "of other stores it wants to know it"
    greeting = store.handle(PeerListened(MessageId.STORE_HELLO, "CC"), 0)
    assert greeting == [Publish(messages.StoreHello("CC", "ME", LOW))]


def test_another_store_is_told_the_heads_that_it_may_have_a_use_for():
    store, _ = machine()
    slots = slot_of(KEPT), slot_of(address_in("CD" * 16, 0, 2))
    kept, other = (Partition("flights", one) for one in (KEPT, address_in("CD" * 16, 0, 2)))
    own = Partition("__consumer_offsets", OTHERS)
    told(store, *(live(make_batch([b"1"], 0, one)) for one in (kept, other, own)))
    assert len(told(store, messages.GetHeads("", "S2"))) == 3, "who names none is told of all"
    asked = messages.GetHeads("", "S2", Slots.of([range(slots[0], slots[0] + 1)]))
    heads = [effect.message for effect in told(store, asked)]
    assert {Partition(head.topic, head.address) for head in heads} == {kept, own}


@pytest.fixture
def pair(make_cluster):
    """A tower and two stores that keep a half each."""
    cluster = make_cluster(stores=2)
    cluster.start_tower()
    for number, slots in enumerate((LOW, HIGH)):
        cluster.store(number, slots=slots)
    return cluster


@pytest.mark.net
def test_records_are_stored_by_who_keeps_their_slot_and_read_by_all(pair):
    place = Cluster(pair.endpoint, pair.queries)
    producers = [pair.producer() for _ in range(12)]
    for producer in producers:
        for value in (b"1", b"2"):
            producer.send("orders", value)
    for producer in producers:
        producer.flush(20)
    partitions = {Partition("orders", producer.address) for producer in producers}
    kept = [{one for one in partitions if slots.has(slot_of(one.address))} for slots in (LOW, HIGH)]
    for endpoint, own in zip(pair.queries, kept, strict=True):
        with StoreClient(endpoint) as store:
            store.part = store.health().slots
            assert set(store.partitions("orders")) == own
    with ClusterClient(place) as stores:
        ranges = dict.fromkeys(partitions, range(2))
        assert stores.all(lambda store: store.ranges("orders")).given == dict.fromkeys(
            pair.queries, ranges
        )
    with Consumer(place, ["orders"], start="earliest", isolation="stored") as consumer:
        read = [consumer.poll(120) for _ in range(2 * len(partitions))]
    assert {(record.address, record.sequence) for record in read if record} == {
        (one.address, sequence) for one in partitions for sequence in (0, 1)
    }


@pytest.mark.net
@pytest.mark.slow
def test_a_group_goes_on_where_it_was_in_both_shares(pair):
    place = Cluster(pair.endpoint, pair.queries)
    producers = [pair.producer() for _ in range(8)]
    for number in range(2):
        for producer in producers:
            producer.send("orders", str(number).encode())
            producer.flush(20)
        with Consumer(place, ["orders"], group="billing", session_timeout_ms=2_000) as consumer:
            read = [consumer.poll(120) for _ in producers]
            consumer.commit()
        assert {(one.address, one.sequence) for one in read if one} == {
            (producer.address, number) for producer in producers
        }


@pytest.mark.net
@pytest.mark.slow
def test_a_disk_that_comes_back_from_a_backup_is_of_its_slots(make_cluster, tmp_path, until):
    """And has what it lacks from who keeps the same."""
    cluster = make_cluster(stores=3)
    cluster.start_tower()
    _, lost, _ = (cluster.store(number, slots=one) for number, one in enumerate((LOW, LOW, HIGH)))
    producers = [cluster.producer(min_acks=1) for _ in range(8)]

    def send(value):
        for producer in producers:
            producer.send("orders", value)
            producer.flush(20)

    def held(number):
        with StoreClient(cluster.queries[number]) as store:
            store.part = store.health().slots
            return store.ranges("orders")

    def due(records):
        kept = (one.address for one in producers if LOW.has(slot_of(one.address)))
        return {Partition("orders", address): range(records) for address in kept}

    send(b"before")
    until(lambda: held(0) == held(1) == due(1))
    lost.close()
    backup, done = tmp_path / "backup", {"progress": lambda *_: None}
    back_up(cluster.data(1), backup, program="test", wall_ms=0, **done)
    send(b"since")
    shutil.rmtree(cluster.data(1))
    restore(backup, cluster.data(1), keeps=KEPT_TABLES, **done)
    cluster.store(1, slots=LOW)
    until(lambda: held(0) == held(1) == due(2))


@pytest.mark.net
def test_publishers_send_a_store_nothing_of_other_slots(pair):
    """Not filtered by who receives it: the store would count what it drops."""
    dropped = DROPPED.labels("store", "not for this store")
    before = dropped._value.get()
    producers = [pair.producer() for _ in range(6)]
    for _ in range(3):
        for producer in producers:
            producer.send("orders", b"x")
            producer.flush(20)
    assert dropped._value.get() == before


JOINING = Keeping(HIGH, LOW)
"""Of a store that comes to keep what the tests' partition is of."""


def test_what_it_joins_it_stores_and_says_nothing_of():
    store = StoreMachine("ME", {}, keeping=JOINING)
    store.handle(Woke(), 0)
    one = make_batch([b"1"], 0, Partition("flights", KEPT))
    assert told(store, live(one, messages.SlotRecords)) == []
    assert store.heads == {one.partition: 0}
    asked = [messages.Fetch(*one.partition, "C", 0, 1), messages.GetHeads("flights", "C")]
    assert told(store, *asked, messages.Head(*one.partition, 0)) == []
    assert store.handle(SlotsMoved(Keeping(ALL_SLOTS)), 0) == []
    ack = Publish(messages.Ack(*one.partition, "ME", 0, None))
    assert ack in told(store, messages.Head(*one.partition, 0))


def test_what_is_stopped_it_answers_for_and_takes_nothing_in_of():
    store, _ = machine()
    one, other = (make_batch([b"1"], n, Partition("flights", KEPT)) for n in range(2))
    told(store, live(one))
    store.handle(SlotsMoved(Keeping(LOW, stopped=LOW)), 0)
    assert all(isinstance(each, Dropped) for each in told(store, live(other), live(one)))
    assert store.heads == {one.partition: 0}
    (read,) = told(store, messages.Fetch(*one.partition, "C", 0, 1))
    assert isinstance(read, ReadRange)
    heads = told(store, messages.GetHeads("flights", "C"))
    assert heads == [Publish(messages.DirectHead("C", *one.partition, 0, "ME", None))]


def test_what_it_has_dropped_it_knows_nothing_of_and_listens_for_no_more():
    store = StoreMachine("ME", {Partition("flights", KEPT): 0, Partition("_own", KEPT): 0})
    store.handle(Woke(), 0)
    ahead = make_batch([b"1"], 5, Partition("flights", KEPT))
    store.handle(Received(live(ahead)), 0)
    effects = store.handle(SlotsMoved(Keeping(HIGH)), 0)
    assert heard_by(effects) == {(MessageId.RECORDS, "_"), (MessageId.SLOT_RECORDS, "1")}
    assert Unlisten(MessageId.RECORDS, "") in effects
    assert store.heads == {Partition("_own", KEPT): 0}
    assert told(store, messages.Fetch(*ahead.partition, "C", 0, 1)) == []
    store.check()


def test_a_store_keeps_what_its_disk_says_and_joins_what_it_is_given(make_cluster):
    cluster = make_cluster()
    cluster.start_tower()
    cluster.store(slots=LOW).close()
    cluster.store(slots=HIGH)
    with StoreClient(cluster.queries[0]) as store:
        health = store.health()
    assert health.slots == ((0, 2_048),)
    assert str(health.moving) == "joins slots 2048-4095, gives up slots 0-2047"


def test_an_empty_store_that_is_told_to_join_keeps_nothing(make_cluster):
    cluster = make_cluster()
    cluster.start_tower()
    cluster.store(slots=LOW, joins=True)
    with StoreClient(cluster.queries[0]) as store:
        assert str(store.health().moving) == "joins slots 0-2047"


@pytest.mark.parametrize("way", [{"wire": "libdafka"}, {"classic": True}])
def test_where_records_are_published_one_by_one_stores_keep_all(way, tmp_path):
    cluster = Cluster("tcp://127.0.0.1:5556", **way)
    with pytest.raises(MisuseError, match="cannot keep slots 0-2047 only"):
        Store(tmp_path, cluster, query="tcp://127.0.0.1:5555", slots=LOW)
    with closing(LmdbLog(tmp_path)) as log:
        KeptSlots(log, HIGH)
    with pytest.raises(MisuseError, match="cannot keep slots 2048-4095 only"):
        Store(tmp_path, cluster, query="tcp://127.0.0.1:5555")


class CountingStore(SimStore):
    """Counts the bytes of live records that come to it."""

    live_bytes = 0

    def arrive(self, side, event):
        if isinstance(event, Received) and isinstance(event.message, messages.Records):
            self.live_bytes += len(event.message.content)
        super().arrive(side, event)


@pytest.mark.sim
@pytest.mark.parametrize(("stores", "copies"), [(1, 1), (2, 1), (4, 1), (8, 1), (4, 2), (16, 2)])
def test_each_of_more_stores_gets_so_much_less(stores, copies):
    """Bytes of records, counted where they arrive: all of them once for each copy, no others."""
    world = World(1, Faults())
    mesh, shares = SimMesh(world), stores // copies
    counting = []
    for number in range(stores):
        first, end = (SLOTS * (number // copies + one) // shares for one in (0, 1))
        settings = StoreSettings(slots=Slots.of([range(first, end)]))
        name = f"S{number}"
        counting.append(CountingStore(world, name, mesh, MemoryLog(name), settings))
    producers = [SimProducer(world, f"P{number}", mesh, min_acks=copies) for number in range(256)]
    for node in (*counting, *producers):
        node.boot()
    world.run_until(2_000)
    for producer in producers:
        producer.send("flights", 50)
    world.run_until(world.now_ms + 3_000)
    assert not any(producer.waiting for producer in producers)
    stored = sum(extent.size for store in counting for extent in store.log.extents().values())
    received = [store.live_bytes for store in counting]
    assert sum(received) == stored
    assert max(received) <= 1.5 * stored / stores
