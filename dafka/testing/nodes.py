"""The simulated processes of one cluster: producer, store, consumer."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dafka.errors import StorageError
from dafka.model import Partition
from dafka.protocol.consumer import ConsumerMachine, ConsumerSettings
from dafka.protocol.effects import Append, Deliver, ReadRange, Stored
from dafka.protocol.events import (
    Appended,
    AppendFailed,
    Drained,
    RangeRead,
    Received,
    Submitted,
    TurnEnded,
)
from dafka.protocol.producer import ProducerMachine, ProducerSettings
from dafka.protocol.store import StoreMachine
from dafka.records.batch import BatchBuilder, records_of
from dafka.testing.world import Mesh, Node, OneSided, World

if TYPE_CHECKING:
    from dafka.model import Record
    from dafka.storage.log import RecordLog


class SimProducer(Node[None]):
    """A producer and its application, which remembers what was stored.

    After a crash it comes back under a new address, as a process without a spool does.
    """

    def __init__(self, world: World, name: str, mesh: Mesh) -> None:
        super().__init__(world, name, {None: mesh})
        self.sent: dict[Partition, list[bytes]] = {}
        """Values by partition, in the order they were sent."""
        self.stored: dict[Partition, int] = {}
        """Sequence below which the producer was told that stores have everything."""

    @property
    def address(self) -> str:
        """Its present identity."""
        return f"{self.name}.{self.incarnation}"

    def build(self) -> OneSided:
        """A producer without records."""
        return OneSided(ProducerMachine(self.address, ProducerSettings()))

    def send(self, topic: str, count: int) -> None:
        """Send one batch of unique values."""
        partition = Partition(topic, self.address)
        values = self.sent.setdefault(partition, [])
        builder = BatchBuilder(1 << 20)
        for _ in range(count):
            value = f"{topic}/{self.address}/{len(values)}".encode()
            values.append(value)
            builder.append(1_000 + self.world.now_ms, self.name.encode(), value, ())
        self.feed(None, Submitted(topic, builder.count, builder.build()))

    def perform(self, _side: None, effect: object) -> None:
        """Remember what is stored."""
        if isinstance(effect, Stored):
            self.stored[effect.partition] = effect.end


class SimStore(Node[None]):
    """A store over a log that outlives it.

    A crash loses writes under way or keeps them, whole: what the log's contract promises of torn
    writes.
    """

    def __init__(self, world: World, name: str, mesh: Mesh, log: RecordLog) -> None:
        super().__init__(world, name, {None: mesh})
        self.log = log
        self._turn_planned = False
        self._writes: list[Append] = []

    def build(self) -> OneSided:
        """A store that has just opened its log."""
        self._turn_planned = False
        self._writes = []
        return OneSided(StoreMachine(self.log.identity, self.log.heads()))

    def crash(self) -> None:
        """Die as by kill -9, at any moment of a write."""
        kept = self.world.random.randint(0, len(self._writes))
        for write in self._writes[:kept]:
            self.log.append(write.batches)
        super().crash()

    def feed(self, side: None, event: object) -> None:
        """Hand an event over; messages make a turn, which ends a little later."""
        super().feed(side, event)
        if isinstance(event, Received) and not self._turn_planned:
            self._turn_planned = True
            self.later(self.world.random.randint(0, 1), side, TurnEnded())
        elif isinstance(event, TurnEnded):
            self._turn_planned = False

    def perform(self, side: None, effect: object) -> None:
        """Write and read."""
        if isinstance(effect, Append):
            self._writes.append(effect)
            incarnation = self.incarnation
            self.world.after(
                self.world.random.randint(0, self.world.faults.disk_ms_max),
                lambda: self._write(incarnation),
            )
        elif isinstance(effect, ReadRange):
            batches = self.log.read(
                effect.partition, effect.sequence, effect.count_max, effect.bytes_max
            )
            answer = RangeRead(effect.requester, effect.partition, tuple(batches))
            self.later(0, side, answer)

    def _write(self, incarnation: int) -> None:
        """Finish the oldest write: a disk does one after the other."""
        if incarnation != self.incarnation:
            return
        write = self._writes.pop(0)
        try:
            self.log.append(write.batches)
        except StorageError:
            self.feed(None, AppendFailed(write.token))
        else:
            self.feed(None, Appended(write.token))


class SimConsumer(Node[None]):
    """A consumer and its application, which takes a while over each batch.

    A crash makes it begin anew: `delivered` holds what the present incarnation has seen.
    """

    def __init__(self, world: World, name: str, mesh: Mesh, settings: ConsumerSettings) -> None:
        super().__init__(world, name, {None: mesh})
        self._settings = settings
        self.delivered: dict[Partition, list[Record]] = {}

    def build(self) -> OneSided:
        """A consumer that has seen nothing."""
        self.delivered = {}
        return OneSided(ConsumerMachine(f"{self.name}.{self.incarnation}", self._settings))

    def perform(self, side: None, effect: object) -> None:
        """Take records."""
        if isinstance(effect, Deliver):
            records = self.delivered.setdefault(effect.batch.partition, [])
            records += records_of(effect.batch, effect.start)
            self.later(1, side, Drained(len(effect.batch.content)))
