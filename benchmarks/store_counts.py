"""What stores that share slots get and say as they become more, by count in the simulator."""

from __future__ import annotations

from collections import Counter
from functools import cache
from typing import TYPE_CHECKING

from benchmarks.stores import parts_of
from dafka.node.store_settings import StoreSettings
from dafka.protocol.events import Received
from dafka.storage.memory import MemoryLog
from dafka.testing.nodes import SimProducer, SimStore
from dafka.testing.world import Faults, SimMesh, World
from dafka.wire.messages import DirectHead, GetHeads, Records

if TYPE_CHECKING:
    from dafka.model import Slots
    from dafka.protocol.events import Event
    from dafka.wire.messages import Message

STORES = (1, 2, 4, 8, 16, 32, 64)

PRODUCERS = 256
A_BATCH = 100
"""Records, of one batch of each producer."""

SETTLE_MS = 3_000
"""Until all have found each other; and until all is stored."""

QUIET_MS = 60_000
"""Stores ask each other several times meanwhile."""


class CountingStore(SimStore):
    """Counts what it hears and says."""

    def __init__(self, world: World, name: str, mesh: SimMesh, slots: Slots) -> None:
        super().__init__(world, name, mesh, MemoryLog(name), StoreSettings(slots=slots))
        self.heard: Counter[type[Message]] = Counter()
        self.said: Counter[type[Message]] = Counter()
        self.batches = 0
        """That publishers have sent it."""
        self.live_bytes = 0
        """Of these."""

    def arrive(self, side: None, event: Event) -> None:
        """See there."""
        if isinstance(event, Received):
            message = event.message
            self.heard[type(message)] += 1
            if isinstance(message, Records):
                self.batches += 1
                self.live_bytes += len(message.content)
        super().arrive(side, event)

    def published(self, message: Message) -> None:
        """See there."""
        self.said[type(message)] += 1
        super().published(message)


class CountingProducer(SimProducer):
    """Counts the messages with records that it sends."""

    sent = 0

    def published(self, message: Message) -> None:
        """See there."""
        self.sent += isinstance(message, Records)


@cache
def store_costs() -> dict[str, list[tuple[float, float]]]:
    """By quantity, its value for each number of stores, where it is not 0.

    One copy of each record for what comes of records; two for what stores say to each other, as
    with one nobody has anything for another.
    """
    costs: dict[str, list[tuple[float, float]]] = {}
    for stores in STORES:
        counted = records_counted(stores)
        if stores > 1:
            counted |= heads_counted(stores)
        for name, value in counted.items():
            costs.setdefault(name, []).append((stores, value))
    return costs


def records_counted(stores: int) -> dict[str, float]:
    """What comes to each of so many stores, and what publishers send."""
    _, counting, producers = _settled(stores, 1)
    stored = sum(extent.size for one in counting for extent in one.log.extents().values())
    received = [one.live_bytes for one in counting]
    assert sum(received) == stored, "each record comes once, to who keeps it"
    batches = sum(one.batches for one in counting)
    return {
        "bytes of records, mean store, of all": sum(received) / stores / stored,
        "the same, busiest store": max(received) / stored,
        "batches, mean store, of all": batches / stores / PRODUCERS,
        "messages that a publisher sends for a batch": sum(one.sent for one in producers)
        / PRODUCERS,
    }


def heads_counted(stores: int) -> dict[str, float]:
    """What stores say to each other while nothing is published."""
    world, counting, _ = _settled(stores, 2)
    for one in counting:
        one.heard, one.said = Counter(), Counter()
    world.run_until(world.now_ms + QUIET_MS)
    questions = sum(one.said[GetHeads] for one in counting)
    heads = sum(one.said[DirectHead] for one in counting)
    asked = sum(one.heard[GetHeads] for one in counting)
    return {
        "heads that stores tell one that asks, two copies": heads / questions,
        "stores that are asked": asked / questions,
    }


def _settled(stores: int, copies: int) -> tuple[World, list[CountingStore], list[CountingProducer]]:
    """A world in which a batch of each producer is stored."""
    world = World(1, Faults())
    mesh = SimMesh(world)
    counting = [
        CountingStore(world, f"S{number}", mesh, slots)
        for number, slots in enumerate(parts_of(stores, copies))
    ]
    producers = [
        CountingProducer(world, f"P{number}", mesh, min_acks=copies) for number in range(PRODUCERS)
    ]
    for node in (*counting, *producers):
        node.boot()
    world.run_until(SETTLE_MS)
    for producer in producers:
        producer.send("bench", A_BATCH)
    world.run_until(world.now_ms + SETTLE_MS)
    assert not any(one.waiting for one in producers), "not all is stored"
    return world, counting, producers
