"""Slots that move between stores of which one lacks what another has."""

from __future__ import annotations

import pytest

from dafka.model import ALL_SLOTS, Partition, slot_of
from dafka.node.store_settings import StoreSettings
from dafka.protocol.effects import Publish, Recall, Remember
from dafka.protocol.events import PartitionsEnded, PartitionsForgotten, Recalled, Received, Woke
from dafka.protocol.store import StoreMachine
from dafka.storage.memory import MemoryLog
from dafka.testing.nodes import SimProducer, SimStore
from dafka.testing.sim_mover import SimMover, declare
from dafka.testing.world import Faults, SimMesh, World
from dafka.wire import messages
from tests.support.shares import HIGH, LOW

pytestmark = pytest.mark.sim

AWAY_MS = 60_000
"""After that nobody waits for a store that is not there."""

FORGOTTEN_MS = 2_000


class Cluster:
    """A keeps all, B did and is to keep half, C is new and is to keep the other half."""

    def __init__(self, copies=2):
        self.world = World(1, Faults())
        self.mesh, self.copies = SimMesh(self.world), copies
        self.producer = SimProducer(self.world, "AB", self.mesh)
        while not HIGH.has(slot_of(self.producer.address)):
            self.producer = SimProducer(self.world, f"{self.producer.name}0", self.mesh)
        self.a, self.b = (self.store(name, ALL_SLOTS) for name in "AB")
        self.mover = None
        for node in (self.a, self.b, self.producer):
            node.boot()
        self.run(2_000)

    def store(self, name, slots, *, joins=False):
        settings = StoreSettings(slots=slots, joins=joins, forget_after_ms=FORGOTTEN_MS)
        return SimStore(self.world, name, self.mesh, MemoryLog(name), settings)

    def run(self, milliseconds):
        self.world.run_until(self.world.now_ms + milliseconds)

    def send(self, count=10):
        self.producer.send("t", count)
        self.run(2_000)

    @property
    def place(self):
        (place,) = self.producer.partitions
        return place

    def c_joins(self):
        self.c = self.store("C", HIGH, joins=True)
        self.c.boot()
        self.mover = SimMover(self.world, [self.a, self.b, self.c], self.copies, lambda _: set())
        self.mover.boot()

    def b_moves(self):
        running = self.b.alive
        declare(self.b, LOW, 1)
        if not running:
            self.b.boot()

    def has(self, store, sequence):
        return any(one.sequence <= sequence for one in store.log.read(self.place, sequence, 1, 0))


@pytest.fixture
def cluster():
    made = Cluster()
    yield made
    if made.mover is not None:
        made.mover.crash()


def test_what_retention_has_taken_elsewhere_comes_from_who_was_away(cluster):
    """C must not go on behind it as long as B, of which the file says that it is there, may have
    it: when B is back, it gives it up."""
    for _ in range(3):
        cluster.send()
    cluster.a.trim(cluster.place, 10)  # it keeps all, so its bound in bytes is reached first
    cluster.b.crash()
    cluster.c_joins()
    cluster.run(AWAY_MS)
    cluster.b_moves()
    cluster.run(AWAY_MS)
    assert cluster.mover.done
    assert cluster.b.slots == LOW
    assert cluster.place not in cluster.b.log.extents()
    assert [cluster.has(cluster.c, sequence) for sequence in (5, 15, 25)] == [True] * 3


def test_what_the_operator_went_on_without_comes_from_who_was_away(cluster):
    cluster.send()
    cluster.a.crash()
    cluster.send()
    cluster.b.crash()
    cluster.a.log.append((), skips={cluster.place: 20})  # `dafka holes --skip`
    cluster.a.boot()
    cluster.run(2_000)
    cluster.send()
    cluster.c_joins()
    cluster.run(AWAY_MS)
    cluster.b_moves()
    cluster.run(AWAY_MS)
    assert cluster.mover.done
    assert cluster.place not in cluster.b.log.extents()
    assert [cluster.has(cluster.c, sequence) for sequence in (5, 15, 25)] == [True] * 3


def test_what_nobody_has_any_more_is_passed_over_by_what_joins(cluster):
    for _ in range(3):
        cluster.send()
    for store in (cluster.a, cluster.b):
        store.trim(cluster.place, 10)
    cluster.c_joins()
    cluster.b_moves()
    cluster.run(AWAY_MS)
    assert cluster.mover.done
    assert cluster.c.log.extents()[cluster.place].start == 10


@pytest.mark.parametrize("heard", [False, True], ids=["first at the new store", "waiting there"])
def test_a_producer_goes_on_behind_what_all_that_kept_it_have_forgotten(cluster, heard):
    cluster.copies = 1
    cluster.send()
    for store in (cluster.a, cluster.b):
        store.trim(cluster.place, 10)
    cluster.run(2 * FORGOTTEN_MS + 10_000)
    assert cluster.a.log.forgotten == cluster.b.log.forgotten == 1
    if heard:  # C hears a record and not who could tell it what was before
        cluster.world.cut("C", "A", both=True)
        cluster.world.cut("C", "B", both=True)
    cluster.c_joins()
    if heard:
        cluster.send(1)
        cluster.run(2_000)
        for store in (cluster.a, cluster.b):
            store.trim(cluster.place, 11)
        cluster.run(2 * FORGOTTEN_MS + 10_000)
        cluster.world.cuts.clear()
    for store in (cluster.a, cluster.b):
        declare(store, LOW, 1)
    cluster.run(AWAY_MS)
    assert cluster.mover.done
    assert cluster.a.log.forgotten == cluster.b.log.forgotten == 0, "nothing of it is left"
    cluster.send(1)
    cluster.run(5_000)
    assert not cluster.producer.waiting
    assert cluster.has(cluster.c, 11 if heard else 10)


def test_slots_come_back_to_who_had_forgotten_some_of_them(cluster):
    """What it kept of them as to where it ended would be taken for what retention took."""
    cluster.copies = 1
    cluster.send()
    cluster.a.trim(cluster.place, 10)
    cluster.run(2 * FORGOTTEN_MS + 10_000)
    cluster.c_joins()
    declare(cluster.a, LOW, 1)
    cluster.run(AWAY_MS)
    assert cluster.mover.done
    declare(cluster.a, ALL_SLOTS, 1)
    cluster.run(AWAY_MS)
    assert cluster.mover.done
    assert cluster.has(cluster.a, 5)


def test_where_others_ended_is_remembered_unless_there_is_something():
    new, begun, whole = (Partition("flights", name) for name in ("A1", "B2", "C3"))
    machine = StoreMachine("ME", {begun: 4, whole: 9})
    machine.handle(Woke(), 0)
    machine.handle(Received(messages.Head(*new, 9)), 0)
    effects = machine.handle(PartitionsEnded(((new, 9), (begun, 10), (whole, 10))), 0)
    assert Remember(((new, 9),)) in effects
    (fetch,) = fetches(effects)
    assert (fetch.address, fetch.sequence) == ("B2", 5), "who has the rest says where that begins"
    machine.handle(PartitionsForgotten((new,)), 0)
    (recall,) = machine.handle(Received(messages.Head(*new, 9)), 0)
    assert isinstance(recall, Recall)
    (fetch,) = fetches(machine.handle(Recalled(recall.messages, {new: 9}), 0))
    assert (fetch.address, fetch.sequence) == ("A1", 9)


def fetches(effects):
    sent = [one.message for one in effects if isinstance(one, Publish)]
    return [one for one in sent if isinstance(one, messages.Fetch)]
