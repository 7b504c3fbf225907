"""What 46/DAFKA asks of several nodes: its subscriptions, its conversations, its towers."""

from __future__ import annotations

import pytest

from dafka.cluster import Cluster
from dafka.errors import MisuseError
from dafka.model import Partition
from dafka.node.producer import Producer
from dafka.node.tower import Tower
from dafka.protocol.consumer import ConsumerMachine, ConsumerSettings
from dafka.protocol.effects import Append, Deliver, Listen, Publish, ReadRange, Stored
from dafka.protocol.events import (
    Appended,
    PeerListened,
    RangeRead,
    Received,
    Submitted,
    TurnEnded,
    Woke,
)
from dafka.protocol.producer import ProducerMachine, ProducerSettings
from dafka.protocol.store import StoreMachine
from dafka.records.batch import BatchBuilder
from dafka.wire import messages, rfc46
from dafka.wire.messages import MessageId

P = Partition("flights", "PP")
EXTENSIONS = {
    MessageId.RECORDS,
    MessageId.DIRECT_RECORDS,
    MessageId.LOG_START,
    MessageId.SLOT_RECORDS,
}


def producer() -> ProducerMachine:
    return ProducerMachine("PP", ProducerSettings())


def consumer() -> ConsumerMachine:
    return ConsumerMachine("CC", ConsumerSettings(topics=("flights",)))


def store() -> StoreMachine:
    return StoreMachine("SS", {})


def submitted(count: int) -> Submitted:
    builder = BatchBuilder(1 << 20)
    for number in range(count):
        builder.append(0, None, str(number).encode(), ())
    return Submitted("flights", count, builder.build())


def told(machine, *sent):
    """What a machine does when it hears messages, through their bytes."""
    effects = []
    for message in sent:
        effects += machine.handle(Received(rfc46.decode(rfc46.encode(message))), 0)
    return effects


def published(effects):
    return [effect.message for effect in effects if isinstance(effect, Publish)]


@pytest.mark.parametrize(
    ("make", "octets"),
    [
        (producer, {b"KPP", b"FPP", b"G"}),
        (consumer, {b"DCC", b"ECC", b"LCC", b"Mflights", b"Hflights"}),
        # DIRECT-HEAD and STORE-HELLO are ours: stores repair each other, and say what they keep.
        (store, {b"M", b"H", b"DSS", b"F", b"G", b"WSS", b"ESS", b"LSS"}),
    ],
)
def test_each_role_subscribes_to_the_octets_of_the_rfc(make, octets):
    listened = [effect for effect in make().handle(Woke(), 0) if isinstance(effect, Listen)]
    assert {rfc46.prefix(one.id, one.key) for one in listened if one.id not in EXTENSIONS} == octets


def test_a_record_is_published_as_the_grammar_says():
    # publish = P:RECORD [ store-fetch S:ACK ]
    sender, keeper, reader = producer(), store(), consumer()
    (records,) = published(sender.handle(submitted(3), 0))
    assert told(keeper, records) == []
    assert [type(effect) for effect in told(reader, records)] == [Deliver]
    (write,) = keeper.handle(TurnEnded(), 0)
    assert isinstance(write, Append)
    (ack,) = published(keeper.handle(Appended(write.token), 0))
    assert ack == messages.Ack("flights", "PP", "SS", 2)
    (stored,) = told(sender, ack)
    assert isinstance(stored, Stored)
    assert stored.end == 3


def test_a_head_leads_to_what_was_missed():
    # offsets = P:HEAD [ consumer-fetch ], consumer-fetch = C:FETCH 1*( P:DIRECT-RECORD )
    sender, reader = producer(), consumer()
    sender.handle(submitted(2), 0)
    sender.handle(submitted(1), 0)
    (head,) = published(sender.handle(PeerListened(MessageId.HEAD, "flights"), 0))
    (fetch,) = published(told(reader, head))
    assert fetch == messages.Fetch("flights", "PP", "CC", 0, 3)
    *answers, end = published(told(sender, fetch))
    assert [answer.sequence for answer in answers] == [0, 2]
    delivered = [one for one in told(reader, *answers, end) if isinstance(one, Deliver)]
    assert [one.batch.end for one in delivered] == [2, 3]


def test_a_consumer_joins_as_the_grammar_says():
    # join-consumer = [ S:STORE-HELLO C:CONSUMER-HELLO ] *( S:DIRECT-HEAD [ consumer-fetch ] )
    sender, keeper, reader = producer(), store(), consumer()
    told(keeper, *published(sender.handle(submitted(3), 0)))
    (write,) = keeper.handle(TurnEnded(), 0)
    keeper.handle(Appended(write.token), 0)
    (hello,) = published(keeper.handle(PeerListened(MessageId.STORE_HELLO, "CC"), 0))
    assert hello == messages.StoreHello("CC", "SS")
    (answer,) = published(told(reader, hello))
    assert answer == messages.ConsumerHello("SS", "CC", ("flights",))
    (head,) = published(told(keeper, answer))
    assert head == messages.DirectHead("CC", "flights", "PP", 2, "SS")
    (fetch,) = published(told(reader, head))
    (read,) = told(keeper, fetch)
    assert isinstance(read, ReadRange)
    assert (read.partition, read.sequence) == (P, 0)
    found = RangeRead(read.requester, read.partition, write.batches, 0)
    *records, end = published(keeper.handle(found, 0))
    (delivered,) = (one for one in told(reader, *records, end) if isinstance(one, Deliver))
    assert delivered.batch == write.batches[0]


def test_a_node_needs_a_tower():
    with pytest.raises(MisuseError, match="at least one tower is needed"):
        Producer(Cluster([]))


@pytest.mark.net
def test_a_node_announces_itself_to_every_tower(free_ports, until):
    first = free_ports(4)
    endpoints = [f"tcp://127.0.0.1:{port}" for port in (first, first + 2)]
    with (
        Tower(endpoints[0]) as one,
        Tower(endpoints[1]) as other,
        Producer(Cluster(endpoints)),
    ):
        until(lambda: (one.nodes, other.nodes) == (1, 1))
