"""The simulated processes of one cluster: producer, store, consumer.

Each writes what its application sees into the world's history.
"""

from __future__ import annotations

from collections import deque
from contextlib import suppress
from typing import TYPE_CHECKING, NamedTuple

from dafka.errors import StorageError
from dafka.groups.commit_table import fold
from dafka.model import Partition, replace
from dafka.protocol.consumer import ConsumerMachine, ConsumerSettings, Start
from dafka.protocol.effects import Append, Compare, Deliver, Disputed, Lost, ReadRange, Stored
from dafka.protocol.events import (
    Appended,
    AppendFailed,
    Compared,
    Consumed,
    RangeRead,
    Received,
    ReceivedTogether,
    Submitted,
    TurnEnded,
)
from dafka.protocol.producer import ProducerMachine, ProducerSettings
from dafka.protocol.store import StoreMachine
from dafka.records.batch import BatchBuilder, Run, values_of
from dafka.storage.log import beside
from dafka.storage.spool import MemorySpool
from dafka.testing.history import (
    Began,
    Durable,
    Ended,
    HeadTold,
    Polled,
    Positioned,
    ReadBack,
    Reopened,
    Settled,
    Trimmed,
)
from dafka.testing.world import OneSided, SimMesh, SimNode, World
from dafka.wire import messages

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from random import Random

    from dafka.storage.log import RecordLog
    from dafka.wire.messages import Message

READ_ALL = 1 << 40


class Disk:
    """Writes one after the other; each takes a while, and may be refused.

    A crash loses writes under way or keeps them, whole: what the contracts of the storage ports
    promise of torn writes.
    """

    def __init__(self, node: SimNode[None], append: Callable[[Append], None]) -> None:
        self._node = node
        self._append = append
        self._writes: deque[Append] = deque()

    def write(self, effect: Append) -> None:
        """Begin a write; the node hears of its end."""
        self._writes.append(effect)
        world, incarnation = self._node.world, self._node.incarnation

        def finish() -> None:
            if incarnation == self._node.incarnation:
                self._finish(self._writes.popleft())

        world.after(world.random.randint(0, world.faults.disk_ms_max), finish)

    def crash(self) -> None:
        """Keep some of what is under way, from the oldest on."""
        kept = self._node.world.random.randint(0, len(self._writes))
        for _ in range(kept):
            with suppress(StorageError):  # behind one that was refused
                self._append(self._writes.popleft())
        self._writes.clear()

    def _finish(self, write: Append) -> None:
        faults, chance = self._node.world.faults, self._node.world.random
        refused = faults.refusal > chance.random()
        try:
            if not refused:
                self._append(write)
        except StorageError:
            refused = True
        done = AppendFailed(write.token) if refused else Appended(write.token)
        self._node.feed(None, done)


class _UnackedSend(NamedTuple):
    op: int
    sequence: int
    end: int


class SimProducer(SimNode[None]):
    """A producer and its application.

    Without a spool it comes back from a crash under a new address, with one under its old one.

    Args:
        world: Where it lives.
        name: Its name, and with a spool its address.
        mesh: Its cluster.
        spooled: Whether it has a spool.
        min_acks: How many distinct stores must have a record.
    """

    def __init__(
        self, world: World, name: str, mesh: SimMesh, *, spooled: bool = False, min_acks: int = 1
    ) -> None:
        super().__init__(world, name, {None: mesh})
        self.partitions: set[Partition] = set()
        """All it has ever sent to."""
        self.spool = MemorySpool(name) if spooled else None
        self._settings = ProducerSettings(min_acks=min_acks, spooled=spooled)
        self._disk = Disk(self, self._spool_batches)
        self._ends: dict[str, int] = {}
        self._awaited: dict[str, deque[_UnackedSend]] = {}
        """By topic, the sends of this life, or those in the spool, that are not stored yet."""
        self._made = 0
        self._run = 0
        self._begun: dict[str, int] = {}
        """By topic, the sequence at which this life began."""
        self.disputed: set[Partition] = set()
        """Partitions it was told another producer publishes in, in this life."""

    @property
    def address(self) -> str:
        """Its present identity."""
        return self.name if self.spool else f"{self.name}.{self.incarnation}"

    @property
    def waiting(self) -> bool:
        """Whether something it has sent is not stored yet."""
        return any(self._awaited.values())

    def build(self) -> OneSided:
        """A producer without records, or with those of its spool."""
        self._run = self.world.random.getrandbits(63)
        self.disputed = set()
        if self.spool is None:
            self._ends, self._begun, self._awaited = {}, {}, {}
            return OneSided(ProducerMachine(self.address, self._settings))
        self._ends = self.spool.ends()
        self._begun = dict(self._ends)
        for topic, awaited in self._awaited.items():
            while awaited and awaited[-1].end > self._ends.get(topic, 0):
                awaited.pop()  # never spooled: what becomes of it is unknown for ever
        kept = self.spool.batches()
        return OneSided(ProducerMachine(self.address, self._settings, self._ends, kept))

    def crash(self) -> None:
        """Die as by kill -9, at any moment of a write."""
        self._disk.crash()
        super().crash()

    def send(self, topic: str, count: int) -> None:
        """Send one batch of unique values."""
        sequence = self._ends.get(topic, 0)
        builder = BatchBuilder(1 << 20, Run(self._run, sequence - self._begun.get(topic, 0)))
        values = []
        for _ in range(count):
            self._made += 1
            values.append(f"{self.name}-{self._made}".encode())
            builder.append(1_000 + self.world.now_ms, self.name.encode(), values[-1], ())
        op = self.world.history.sent(self.name, topic, values, self.world.now_ms)
        end = self._ends[topic] = sequence + count
        self.partitions.add(Partition(topic, self.address))
        self._awaited.setdefault(topic, deque()).append(_UnackedSend(op, sequence, end))
        self.feed(None, Submitted(topic, builder.count, builder.build()))
        if self.spool is not None:
            self.later(self.world.random.randint(0, 1), None, TurnEnded())

    def perform(self, _side: None, effect: object) -> None:
        """Spool, and note what is stored."""
        if isinstance(effect, Append):
            self._disk.write(effect)
        elif isinstance(effect, Stored):
            self._stored(effect)
        elif isinstance(effect, Disputed):
            self.disputed.add(effect.partition)

    def _spool_batches(self, write: Append) -> None:
        assert self.spool is not None
        self.spool.append(write.batches)

    def _stored(self, effect: Stored) -> None:
        topic, address = effect.partition
        if self.spool is not None:
            self.spool.forget(topic, effect.end)
        awaited = self._awaited.get(topic, deque())
        while awaited and awaited[0].end <= effect.end:
            op, sequence, _ = awaited.popleft()
            self.world.history.acknowledged(
                op, address, sequence, self.world.now_ms, self._settings.min_acks
            )


class SimStore(SimNode[None]):
    """A store over a log that outlives it."""

    def __init__(self, world: World, name: str, mesh: SimMesh, log: RecordLog) -> None:
        super().__init__(world, name, {None: mesh})
        self.log = log
        self._turn_planned = False
        self._disk = Disk(self, self._append)
        self.disputed: set[Partition] = set()
        """Partitions it has found two producers of."""

    def build(self) -> OneSided:
        """A store that has just opened its log."""
        self._turn_planned = False
        for partition, head in self.log.heads().items():
            self.world.history.record(Reopened(self.world.now_ms, self.name, partition, head + 1))
        return OneSided(StoreMachine(self.log.identity, self.log.heads()))

    def crash(self) -> None:
        """Die as by kill -9, at any moment of a write."""
        self._disk.crash()
        super().crash()

    def feed(self, side: None, event: object) -> None:
        """Hand an event over; messages make a turn, which ends a little later."""
        faults, chance = self.world.faults, self.world.random
        if isinstance(event, Received) and faults.corruption > chance.random():
            event = _corrupted(event, chance)
        super().feed(side, event)
        if isinstance(event, Received | ReceivedTogether) and not self._turn_planned:
            self._turn_planned = True
            self.later(self.world.random.randint(0, 1), side, TurnEnded())
        elif isinstance(event, TurnEnded):
            self._turn_planned = False

    def published(self, message: Message) -> None:
        """Note what it says of its heads."""
        if isinstance(message, messages.DirectHead):
            partition = Partition(message.topic, message.address)
            self.world.history.record(
                HeadTold(self.world.now_ms, self.name, partition, message.sequence)
            )

    def perform(self, side: None, effect: object) -> None:
        """Write and read."""
        if isinstance(effect, Append):
            self._disk.write(effect)
        elif isinstance(effect, ReadRange):
            batches = self.log.read(
                effect.partition, effect.sequence, effect.count_max, effect.bytes_max
            )
            extent = self.log.extents().get(effect.partition)
            start = extent.start if extent else 0
            read = tuple(batches)
            answer = RangeRead(effect.requester, effect.partition, read, start, effect.alone_end)
            self.later(0, side, answer)
        elif isinstance(effect, Compare):
            batch = effect.batch
            held = beside(self.log, batch, READ_ALL)
            self.later(0, side, Compared(batch, tuple(held)))
        elif isinstance(effect, Disputed):
            self.disputed.add(effect.partition)

    def trim(self, partition: Partition, sequence: int) -> None:
        """Keep nothing of what lies before `sequence`, as retention does."""
        self.log.append([], trims={partition: sequence})
        self._trimmed(partition)

    def _append(self, write: Append) -> None:
        entries = fold(self.log, write.batches).entries
        self.log.append(write.batches, trims=dict(write.trims), entries=entries)
        for partition, _ in write.trims:
            self._trimmed(partition)
        for batch in write.batches:
            self.world.history.record(
                Durable(self.world.now_ms, self.name, batch.partition, batch.end)
            )

    def _trimmed(self, partition: Partition) -> None:
        start = self.log.extents()[partition].start
        self.world.history.record(Trimmed(self.world.now_ms, self.name, partition, start))


def _corrupted(event: Received, chance: Random) -> Received:
    """The same with one bit of its content changed, if it has content."""
    message = event.message
    if not isinstance(message, messages.Records | messages.DirectRecords):
        return event
    content = bytearray(message.content)
    content[chance.randrange(len(content))] ^= 1 << chance.randrange(8)
    return Received(replace(message, content=bytes(content)))


class SimConsumer(SimNode[None]):
    """A consumer and its application, which takes a while over each batch.

    A crash makes it begin anew.
    """

    def __init__(self, world: World, name: str, mesh: SimMesh, settings: ConsumerSettings) -> None:
        super().__init__(world, name, {None: mesh})
        self._settings = settings

    def build(self) -> OneSided:
        """A consumer that has seen nothing."""
        earliest = self._settings.start is Start.EARLIEST
        self.world.history.record(
            Began(self.world.now_ms, self.name, self._settings.topics, earliest)
        )
        return OneSided(ConsumerMachine(f"{self.name}.{self.incarnation}", self._settings))

    def crash(self) -> None:
        """Die; nothing is expected of it until it comes back."""
        self.world.history.record(Ended(self.world.now_ms, self.name))
        super().crash()

    def perform(self, side: None, effect: object) -> None:
        """Take records."""
        if isinstance(effect, Deliver):
            batch, start = effect.batch, max(effect.start, effect.batch.sequence)
            values = tuple(value or b"" for value in values_of(batch, start))
            self.world.history.record(
                Polled(self.world.now_ms, self.name, batch.partition, start, values)
            )
            self.later(1, side, Consumed(len(batch.content)))
        elif isinstance(effect, Lost):
            self.world.history.record(
                Positioned(self.world.now_ms, self.name, effect.partition, effect.end)
            )


def read_stores(world: World, stores: Iterable[SimStore]) -> None:
    """End the world's history: what every store holds."""
    stores = list(stores)
    world.history.record(Settled(world.now_ms, tuple(store.name for store in stores)))
    for store in stores:
        for partition, extent in store.log.extents().items():
            for batch in store.log.read(partition, extent.start, READ_ALL, READ_ALL):
                values = tuple(value or b"" for value in values_of(batch))
                world.history.record(
                    ReadBack(world.now_ms, store.name, partition, batch.sequence, values)
                )
