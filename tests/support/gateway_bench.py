"""A gateway's machine on a bench: one store in memory, and a clock that is set."""

from __future__ import annotations

from itertools import count
from uuid import UUID

from dafka.gateway.broker import KafkaPartition, Topic
from dafka.gateway.effects import (
    Answer,
    AppendBatch,
    LedgersRead,
    ReadLedger,
)
from dafka.gateway.events import StoreRead
from dafka.gateway.lines import (
    LEDGER,
    chain_name,
    chain_of,
    mark_of_partition,
)
from dafka.gateway.machine import GatewayMachine
from dafka.groups.acceptor import Registers
from dafka.groups.commit_table import fold
from dafka.groups.events import Answered, Ask
from dafka.groups.membership import Accept, Beat, Prepare
from dafka.model import Batch, Partition, range_of, slot_of
from dafka.protocol.effects import Publish
from dafka.protocol.events import Received, TurnEnded, Woke
from dafka.records.batch import BatchBuilder, values_of
from dafka.storage.memory import MemoryLog
from dafka.wire import messages

STORE = "S0"
ORDERS = Topic("orders", 2, UUID(int=7), {})
FIRST = KafkaPartition("orders", 0)


def sent(*values, producer=-1, sequence=-1):
    builder = BatchBuilder(10_000)
    for value in values:
        builder.append(1_000, None, value, ())
    builder._builder.set_producer_state(producer, 0, sequence)
    return bytes(builder.build())


class StoreInMemory:
    """The one store: it keeps what is published, and says so when it is let."""

    def __init__(self):
        self.logs = {}
        self._table = MemoryLog(STORE)
        self.registers = Registers(self._table, -60_000)
        self.refused = None
        """The topic whose records it is not sent."""

    def take(self, message):
        place = Partition(message.topic, message.address)
        batch = Batch(place, message.sequence, message.count, message.content)
        self.logs.setdefault(place, []).append(batch)
        self._table.append((), entries=fold(self._table, [batch]).entries)
        return messages.Ack(*place, STORE, batch.end - 1)

    def kept(self, topic):
        return {
            place: range(batches[-1].end)
            for place, batches in self.logs.items()
            if place.topic == topic
        }

    def values(self, place):
        return [value for batch in self.logs[place] for value in values_of(batch)]

    def read(self, wanted, numbers):
        lines = {}
        for place in self.kept(LEDGER):
            name = chain_name(place.address)
            if name.mark == mark_of_partition(wanted.partition):
                values = enumerate(self.values(place))
                chain = chain_of(values, wanted.partition, name.epoch)
                lines[name.epoch] = chain
        kept = {
            place.address: there
            for place, there in self.kept(wanted.partition.topic).items()
            if range_of(slot_of(place.address), numbers) == wanted.partition.number
        }
        return StoreRead(wanted.token, STORE, lines, kept)

    def answer(self, request, now_ms):
        match request:
            case Prepare():
                return self.registers.prepare(request, now_ms)
            case Accept():
                return self.registers.accept(request, now_ms)
            case Beat():
                return self.registers.beat(request, now_ms)


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
