"""Messages that arrive together are taken in as if each had arrived by itself; answers' ends."""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dafka.model import Batch, Partition
from dafka.protocol.consumer import ConsumerMachine, ConsumerSettings
from dafka.protocol.events import (
    Mirrored,
    RangeRead,
    Received,
    ReceivedTogether,
    Submitted,
    Woke,
)
from dafka.protocol.mirror import MirrorMachine, MirrorSettings
from dafka.protocol.producer import ProducerMachine, ProducerSettings
from dafka.protocol.store import StoreMachine
from dafka.records.batch import BatchBuilder, enclosed
from dafka.wire import messages

OWN = "AA"
TOPICS = st.sampled_from(["orders", "flights"])
SEQUENCES = st.integers(0, 5)


def records(count):
    builder = BatchBuilder(10_000)
    for _ in range(count):
        builder.append(0, None, b"x", ())
    return builder.build()


def consumer(committed):
    machine = ConsumerMachine("ME", ConsumerSettings(committed=committed))
    machine.handle(Woke(), 0)
    return machine


def store():
    machine = StoreMachine("ME", {Partition("orders", OWN): 2})
    machine.handle(Woke(), 0)
    return machine


def producer():
    machine = ProducerMachine(OWN, ProducerSettings())
    for topic in ("orders", "flights"):
        machine.handle(Submitted(topic, 3, records(3)), 0)
    return machine


def mirror():
    machine = MirrorMachine(MirrorSettings())
    for topic in ("orders", "flights"):
        content = enclosed(records(3), 0)
        machine.handle(Mirrored(Batch(Partition(topic, OWN), 0, 3, content)), 0)
    return machine


HEADS = st.builds(messages.Head, TOPICS, st.just(OWN), SEQUENCES, st.booleans())
ACKS = st.builds(messages.Ack, TOPICS, st.just(OWN), st.sampled_from(["S1", "S2"]), SEQUENCES)
DIRECT_HEADS = st.builds(
    messages.DirectHead,
    st.just("ME"),
    TOPICS,
    st.just(OWN),
    SEQUENCES,
    st.sampled_from([None, "S1", "S2"]),
)
FETCHES = st.builds(
    messages.Fetch,
    TOPICS,
    st.just(OWN),
    st.just("YOU"),
    SEQUENCES,
    st.integers(1, 3),
    st.sampled_from([None, "ME", "S1"]),
)
MACHINES = {
    "consumer": (lambda: consumer(committed=False), (HEADS, DIRECT_HEADS)),
    "consumer of what is stored": (
        lambda: consumer(committed=True),
        (HEADS, DIRECT_HEADS, ACKS),
    ),
    "store": (store, (HEADS, DIRECT_HEADS, FETCHES)),
    "producer": (producer, (ACKS, FETCHES)),
    "mirror": (mirror, (ACKS, FETCHES)),
}


@pytest.mark.parametrize(("make", "kinds"), MACHINES.values(), ids=MACHINES)
@given(data=st.data())
def test_they_lead_to_the_same(make, kinds, data):
    kind = data.draw(st.sampled_from(kinds))
    bundles = data.draw(st.lists(st.lists(kind, min_size=2, max_size=6), max_size=4))
    alone, together = make(), make()
    for bundle in bundles:
        one_by_one = [effect for one in bundle for effect in alone.handle(Received(one), 0)]
        at_once = together.handle(ReceivedTogether(tuple(bundle)), 0)
        told = [Counter(map(repr, _without_fetches(found))) for found in (one_by_one, at_once)]
        assert told[0] == told[1]
        together.check()
    # What is to be fetched may be asked for in larger pieces: all of it was known first.
    assert _reached(alone) == _reached(together)
    assert alone.wakeup_ms() == together.wakeup_ms()


def _without_fetches(effects):
    return [
        effect
        for effect in effects
        if not isinstance(getattr(effect, "message", None), messages.Fetch)
    ]


def _reached(machine):
    """How far it has heard of what."""
    inflow = getattr(machine, "_inflow", None)
    if inflow is None:
        return None
    return {partition: stream.head for partition, stream in inflow._streams.items()}


@pytest.mark.parametrize(
    ("alone_end", "durable", "found", "expected"),
    [
        (10, 9, [(6, 2), (8, 2)], True),
        (9, 9, [(8, 2)], True),
        (11, 9, [(8, 2)], False),
        (10, 11, [(8, 2)], False),
        (None, 9, [(8, 2)], False),
        (10, 9, [], False),
    ],
)
def test_batches_show_that_nothing_more_was_asked_for_or_is_there(
    batch, alone_end, durable, found, expected
):
    read = tuple(batch(*one) for one in found)
    answer = RangeRead("YOU", Partition("flights", "AA"), read, None, alone_end)
    assert answer.is_all(durable) is expected
