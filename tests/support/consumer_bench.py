"""A consumer with a hand on its events and its clock, for the tests of its machine."""

from __future__ import annotations

from dafka.model import Partition
from dafka.protocol.consumer import ConsumerMachine, ConsumerSettings
from dafka.protocol.effects import Deliver, Dropped, Publish
from dafka.protocol.events import Received, Woke
from dafka.wire import messages

P = Partition("flights", "AA")


class Bench:
    """A consumer with a hand on its events and its clock."""

    def __init__(self, **settings) -> None:
        settings.setdefault("topics", ("flights",))
        self.machine = ConsumerMachine("ME", ConsumerSettings(**settings))
        self.now_ms = 0

    def give(self, *events) -> list:
        effects = []
        for event in events:
            effects += self.machine.handle(event, self.now_ms)
            self.machine.check()
        return effects

    def wait(self, ms) -> list:
        self.now_ms += ms
        return self.give(Woke())

    def hear(self, *heard) -> list:
        return self.give(*(Received(message) for message in heard))


def live(one):
    return messages.Records(
        one.partition.topic, one.partition.address, one.sequence, one.count, one.content
    )


def direct(one):
    topic, address = one.partition
    return messages.DirectRecords("ME", topic, address, one.sequence, one.count, one.content)


def head(sequence, address="AA", topic="flights"):
    return messages.Head(topic, address, sequence)


def stored_head(sequence, address="AA", store="S1", run=None):
    return messages.DirectHead("ME", "flights", address, sequence, store, run)


def ack(sequence, run=None):
    return messages.Ack("flights", "AA", "S1", sequence, run)


def delivered(effects):
    return [
        (max(e.start, e.batch.sequence), e.batch.end) for e in effects if isinstance(e, Deliver)
    ]


def fetched(effects):
    return [
        (e.message.sequence, e.message.count)
        for e in effects
        if isinstance(e, Publish) and isinstance(e.message, messages.Fetch)
    ]


def reasons(effects):
    return [e.reason for e in effects if isinstance(e, Dropped)]
