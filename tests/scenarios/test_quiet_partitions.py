"""The last record of a partition that is quiet then, and that a guest was not passed on: it hears
of it within 10 s; and what that costs, counted in the simulator."""

from __future__ import annotations

from collections import Counter

import pytest

from dafka.protocol.consumer import ConsumerSettings
from dafka.protocol.events import Received
from dafka.storage.memory import MemoryLog
from dafka.testing.history import Polled
from dafka.testing.nodes import SimConsumer, SimProducer, SimStore
from dafka.testing.world import Faults, SimMesh, World
from dafka.wire import messages

BOUND_MS = 10_000
"""GET-HEADS is repeated so often at most."""

QUIET_MS = 60_000
PARTITIONS, STORES = 5, 2


class Guest(SimConsumer):
    """Counts what it says and hears."""

    said: Counter[type[messages.Message]]
    heard: Counter[type[messages.Message]]

    def arrive(self, side, event):
        if isinstance(event, Received):
            self.heard[type(event.message)] += 1
        super().arrive(side, event)

    def published(self, message):
        self.said[type(message)] += 1


def quiet(*, guest, seed=1):
    """A world in which all is stored and read, and then nothing is sent for a while."""
    world = World(seed, Faults())
    mesh = SimMesh(world)
    stores = [SimStore(world, f"S{one}", mesh, MemoryLog(f"S{one}")) for one in range(STORES)]
    producers = [SimProducer(world, f"P{one}", mesh) for one in range(PARTITIONS)]
    reader = Guest(world, "C", mesh, ConsumerSettings(topics=("flights",), guest=guest))
    reader.said, reader.heard = Counter(), Counter()
    for node in (*stores, *producers, reader):
        node.boot()
    world.run_until(3_000)
    for producer in producers:
        producer.send("flights", 1)
    world.run_until(2 * QUIET_MS)
    reader.said.clear()
    reader.heard.clear()
    return world, stores, producers, reader


def polled(world):
    return [one for one in world.history if isinstance(one, Polled)]


@pytest.mark.parametrize("seed", range(10))
def test_a_last_record_that_was_not_passed_on_is_heard_of_within_10_s(seed):
    world, stores, producers, _ = quiet(guest=True, seed=seed)
    world.run_until(world.now_ms + seed * 1_000)
    before = len(polled(world))
    assert before == PARTITIONS
    world.cuts = {(store.name, "C") for store in stores}
    producers[0].send("flights", 1)
    world.run_until(world.now_ms + 500)
    assert not producers[0].waiting, "it is stored"
    assert len(polled(world)) == before, "and was not heard of"
    world.cuts = set()
    world.run_until(world.now_ms + BOUND_MS)
    assert len(polled(world)) == before + 1


@pytest.mark.parametrize("guest", [True, False])
def test_what_is_said_while_nothing_is_new_is_counted(guest):
    """A question each 10 s, and from each store an answer for each partition: what all ask."""
    world, _, _, reader = quiet(guest=guest)
    world.run_until(world.now_ms + QUIET_MS)
    questions = QUIET_MS // BOUND_MS
    assert reader.said == {messages.GetHeads: questions}
    heads = reader.heard.pop(messages.Head, 0)
    assert reader.heard == {messages.DirectHead: questions * STORES * PARTITIONS}
    # Where producers are heard, they say themselves how far they are, each 32 s.
    assert heads == 0 if guest else heads in range(PARTITIONS, 3 * PARTITIONS)
