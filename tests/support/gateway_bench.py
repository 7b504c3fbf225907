"""A gateway's machine on a bench: one store in memory, and a clock that is set."""

from __future__ import annotations

from itertools import count
from uuid import UUID

from dafka.gateway.broker import KafkaPartition, Topic
from dafka.gateway.effects import (
    Answer,
    AppendBatch,
    LedgersRead,
    LookSoon,
    ReadLedger,
    StoreTold,
)
from dafka.gateway.machine import GatewayMachine
from dafka.groups.events import Answered, Ask
from dafka.protocol.effects import Publish
from dafka.protocol.events import Received, TurnEnded, Woke
from dafka.records.batch import BatchBuilder
from dafka.wire import messages
from tests.support.store_in_memory import STORE

ORDERS = Topic("orders", 2, UUID(int=7), {})
FIRST = KafkaPartition("orders", 0)


def sent(*values, producer=-1, sequence=-1):
    builder = BatchBuilder(10_000)
    for value in values:
        builder.append(1_000, None, value, ())
    builder._begun().set_producer_state(producer, 0, sequence)
    return bytes(builder.build())


class Bench:
    """A gateway, and what it has asked for; the store answers at once."""

    addresses = count(1)

    def __init__(self, store, now_ms=0):
        self.store, self.now_ms = store, now_ms
        self.tokens = count(1)
        self.told = []
        self.drawn = 0
        self.deaf = False
        """Whether no ACK arrives."""
        address = f"{next(self.addresses):032X}"
        self.machine = GatewayMachine(address, "127.0.0.1:9092", 1, self.draw)
        self.give(Woke())

    def draw(self):
        self.drawn += 1
        return f"{next(self.addresses):016X}{0:016X}"

    def give(self, event):
        """Let it happen; what the gateway tells its clients and others.

        Two turns: what is heard of at the end of one is gone into in the next.
        """
        before = len(self.told)
        for one in (event, TurnEnded(), TurnEnded()):
            self._handle(one)
            self.machine.check()
        return self.told[before:]

    def _handle(self, event):
        for effect in self.machine.handle(event, self.now_ms):
            match effect:
                case Publish(messages.Records(topic=self.store.refused)):
                    pass
                case Publish(messages.Records() as message):
                    ack = self.store.take(message)
                    if not self.deaf:
                        self._handle(Received(ack))
                case Ask(store, token, request):
                    self._handle(Answered(store, token, self.store.answer(request, self.now_ms)))
                case LookSoon():
                    self._handle(StoreTold(STORE, self.store.kept()))
                case ReadLedger():
                    numbers = self.machine.catalog.numbers(effect.partition.topic)
                    found = self.store.read(effect, numbers)
                    self._handle(LedgersRead({(effect.partition, effect.epoch): found}))
                case _:
                    self.told.append(effect)

    def settle(self, until, ms_max=20_000):
        """Let time pass until something has been told."""
        end_ms = self.now_ms + ms_max
        while not any(map(until, self.told)):
            assert self.now_ms < end_ms
            self.now_ms += 20
            self.give(Woke())

    def own(self, *partitions):
        for partition in partitions:
            self.settle(lambda one, which=partition: getattr(one, "partition", None) == which)

    def append(self, batch, partition=FIRST, acks=-1):
        token = next(self.tokens)
        told = self.give(AppendBatch(token, partition, batch, acks))
        return next((one.placed for one in told if isinstance(one, Answer)), None)

    def ask(self, event):
        (answer,) = [one for one in self.give(event) if getattr(one, "token", None) is not None]
        return answer
