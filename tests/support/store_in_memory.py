"""A store as the machine of a gateway sees it."""

from __future__ import annotations

from dafka.gateway.events import StoreRead
from dafka.gateway.lines import LEDGER, chain_name, chain_of, mark_of_partition
from dafka.groups.acceptor import Registers
from dafka.groups.commit_table import fold
from dafka.groups.membership import Accept, Beat, Prepare
from dafka.model import Batch, Partition, range_of, slot_of
from dafka.records.batch import values_of
from dafka.storage.memory import MemoryLog
from dafka.wire import messages

STORE = "S0"


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

    def kept(self, topic=None):
        return {
            place: range(batches[-1].end)
            for place, batches in self.logs.items()
            if topic in (None, place.topic)
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
