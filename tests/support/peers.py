"""Everybody else in a mesh, broken or hostile, drawn by a seed."""

from __future__ import annotations

import random

from dafka.errors import WireError
from dafka.model import Batch, Partition
from dafka.protocol.effects import Dropped
from dafka.protocol.events import PeerLeft, PeerListened, Received, Woke
from dafka.records.batch import BatchBuilder, enclosed
from dafka.records.envelope import Envelope
from dafka.testing.mutation import edited, random_edits
from dafka.wire import messages, rfc46
from dafka.wire.fields import SEQUENCE_MAX
from dafka.wire.messages import MessageId

OURS = "ME"
"""The node they all speak to."""

TOPICS = ("flights", "fl", "flights2", "\udcff", "x" * 249)


class Peers:
    """Everybody else in the mesh, drawn by a seed."""

    def __init__(self, seed):
        self.chance = random.Random(seed)

    def pick(self, *choices):
        return self.chance.choice(choices)

    def later_ms(self):
        return 40_000 if self.chance.random() < 0.01 else self.pick(0, 0, 1, 10, 300)

    def topic(self):
        return self.pick(*TOPICS, "flights", "flights", f"t{self.chance.randrange(10**6)}")

    def address(self):
        return self.pick("AA", "AA", "BB", OURS, "A" * 255, f"N{self.chance.randrange(10**6)}")

    def sequence(self):
        return self.pick(*range(12), 2**31, 2**40, SEQUENCE_MAX - 1, SEQUENCE_MAX)

    def count(self):
        return self.pick(1, 1, 2, 3, 1_000, 100_000)

    def batch(self, partition=None):
        sequence, count = self.chance.randrange(8), self.chance.randint(1, 3)
        builder = BatchBuilder(1 << 16)
        for number in range(count):
            value = self.pick(b"value", b"other") if self.chance.random() < 0.1 else b"same"
            builder.append(sequence + number, None, value, ())
        envelope = Envelope(self.pick(0, 1), self.pick(0, 1, 2**64 - 1))
        content = enclosed(builder.build(), sequence, envelope)
        return Batch(partition or Partition("flights", "AA"), sequence, count, content)

    def last_batch(self, count):
        """A batch that begins at the last sequence there is."""
        builder = BatchBuilder(1 << 16)
        for _ in range(count):
            builder.append(1, None, b"value", ())
        content = enclosed(builder.build(), SEQUENCE_MAX)
        return messages.Records("flights", "AA", SEQUENCE_MAX, count, content)

    def carried(self):
        """Place, count and content of a batch, sometimes of three different ones."""
        one = self.batch()
        if self.chance.random() < 0.6:
            return one.sequence, one.count, one.content
        content = b"".join(edited([one.content], random_edits(self.chance)[:1]))
        return self.sequence(), self.pick(one.count, self.count()), self.pick(content, b"")

    def message(self):
        topic, address, store = self.topic(), self.address(), self.address()
        sequence, count, content = self.carried()
        told = self.sequence()
        return self.pick(
            messages.Records(topic, address, sequence, count, content),
            messages.SlotRecords(topic, address, sequence, count, content),
            messages.DirectRecords(OURS, topic, address, sequence, count, content),
            messages.StoredRecords(store, topic, address, sequence, count, content),
            messages.RecordMessage(topic, address, sequence, content),
            messages.DirectRecord(OURS, topic, address, sequence, content),
            messages.Head(topic, address, told, self.pick(True, False)),
            messages.DirectHead(OURS, topic, address, told, self.pick(None, store)),
            messages.DirectHead(OURS, topic, address, told, store, sequence),
            messages.LogStart(OURS, topic, address, told, store),
            messages.Ack(topic, address, self.pick(None, store), told, self.pick(None, sequence)),
            messages.Fetch(
                topic,
                self.pick(address, OURS),
                store,
                told,
                self.count(),
                self.pick(None, OURS, "*"),
            ),
            messages.GetHeads(self.pick("", topic), store),
            messages.ConsumerHello(self.pick(OURS, store), address, (topic, "", topic) * 5),
            messages.StoreHello(self.pick(OURS, address), store),
        )

    def received(self):
        """As it comes off the wire: there some of it is refused already."""
        frames = rfc46.encode(self.message())
        if self.chance.random() < 0.3:
            frames = edited(frames, random_edits(self.chance))
        return arrived(frames)

    def event(self):
        if self.chance.random() < 0.1:
            key = self.pick("", self.topic(), self.address())
            return self.pick(PeerListened(self.pick(*MessageId), key), PeerLeft(self.address()))
        return self.received() if self.chance.random() < 0.8 else Woke()


def arrived(frames):
    """What the mesh makes of frames."""
    try:
        return Received(rfc46.decode(frames))
    except WireError as error:
        return Dropped(error.reason)
