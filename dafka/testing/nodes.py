"""The simulated processes of one cluster: producer, store, consumer.

Each writes what its application sees into the world's history.
"""

from __future__ import annotations

from collections import deque
from contextlib import suppress
from typing import TYPE_CHECKING, NamedTuple, Never, Protocol

from dafka.errors import StorageError
from dafka.model import Partition, replace
from dafka.node.consumer_role import ConsumerRole
from dafka.node.producer_role import ProducerRole
from dafka.node.store import StoreRole
from dafka.node.store_settings import STORE_SETTINGS, StoreSettings
from dafka.protocol.consumer import ConsumerMachine, ConsumerSettings, Start
from dafka.protocol.effects import Deliver, Disputed, HoleFound, Lost, Stored
from dafka.protocol.events import Consumed, Received, ReceivedTogether, Submitted
from dafka.protocol.keeping import NO_SLOTS
from dafka.protocol.producer import ProducerMachine, ProducerSettings
from dafka.query.service import answer
from dafka.records.batch import BatchBuilder, Run, values_of
from dafka.storage.holds import Holds
from dafka.storage.kept_slots import KeptSlots
from dafka.storage.log import ChangeOrder, extent_of
from dafka.storage.memory import MemoryLog
from dafka.storage.retention import Retainer
from dafka.storage.spool import MemorySpool
from dafka.testing.disk import SettledTables, SimDisk, SimLog, SimSpool
from dafka.testing.history import (
    Began,
    DiskLost,
    Durable,
    Ended,
    Erased,
    HeadTold,
    Polled,
    Positioned,
    ReadBack,
    Reopened,
    Settled,
    SkippedOver,
    SlotsKept,
    Trimmed,
)
from dafka.testing.queries import SimQueryServer
from dafka.testing.world import SimMesh, SimNode, World
from dafka.wire import messages

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence
    from random import Random

    from dafka.model import Batch, Slots
    from dafka.protocol.events import Event
    from dafka.protocol.store import StoreMachine
    from dafka.storage.log import RecordLog
    from dafka.storage.retention import Retention
    from dafka.wire.messages import Message

READ_ALL = 1 << 40


class _UnackedSend(NamedTuple):
    op: int
    sequence: int
    end: int


class SimProducer(SimNode[None, Never]):
    """A producer and its application.

    Without a spool it comes back from a crash under a new address, with one under its old one.

    Args:
        world: Where it lives.
        name: Its name, and with a spool its address.
        mesh: Its cluster.
        spooled: Whether it has a spool.
        min_acks: How many distinct stores must have a record.
        address: That of another one, whose twin it is.
    """

    def __init__(
        self,
        world: World,
        name: str,
        mesh: SimMesh,
        *,
        spooled: bool = False,
        min_acks: int = 1,
        address: str = "",
    ) -> None:
        super().__init__(world, name, {None: mesh})
        self._address = address
        self.partitions: set[Partition] = set()
        """All it has ever sent to."""
        self.spool = MemorySpool(name) if spooled else None
        """What is on disk."""
        self._settings = ProducerSettings(min_acks=min_acks, spooled=spooled)
        self._disk = SimDisk(self)
        self._ends: dict[str, int] = {}
        self._awaited: dict[str, deque[_UnackedSend]] = {}
        """By topic, the sends of this life, or those in the spool, that are not stored yet."""
        self._made = 0
        self._run = 0
        self._begun: dict[str, int] = {}
        """By topic, the sequence at which this life began."""
        self._owner = SimOwner(self)

    @property
    def address(self) -> str:
        """Its present identity."""
        own = self.name if self.spool else f"{self.name}.{self.incarnation}"
        return self._address or own

    @property
    def disputed(self) -> set[Partition]:
        """Partitions it was told another producer publishes in, in this life."""
        return self._owner.rivalled

    @property
    def waiting(self) -> bool:
        """Whether something it has sent is not stored yet."""
        return any(self._awaited.values())

    def build(self) -> tuple[ProducerRole, ProducerMachine]:
        """A producer without records, or with those of its spool."""
        self._run = self.world.random.getrandbits(63)
        self._owner = SimOwner(self)
        spool = None
        if self.spool is None:
            self._ends, self._begun, self._awaited = {}, {}, {}
            machine = ProducerMachine(self.address, self._settings)
        else:
            spool = SimSpool(self.spool, self._disk)
            self._ends = spool.ends()
            self._begun = dict(self._ends)
            for topic, awaited in self._awaited.items():
                while awaited and awaited[-1].end > self._ends.get(topic, 0):
                    awaited.pop()  # never spooled: what becomes of it is unknown for ever
            machine = ProducerMachine(self.address, self._settings, self._ends, spool.batches())
        return ProducerRole(self._owner, machine, 0, spool, self.clock), machine

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
            builder.append(self.clock.wall_ms(), self.name.encode(), values[-1], ())
        op = self.world.history.sent(self.name, topic, values, self.world.now_ms)
        end = self._ends[topic] = sequence + count
        self.partitions.add(Partition(topic, self.address))
        self._awaited.setdefault(topic, deque()).append(_UnackedSend(op, sequence, end))
        self.post(None, Submitted(topic, builder.count, builder.build()))

    def stored(self, effect: Stored) -> None:
        """Enough stores have these."""
        topic, address = effect.partition
        awaited = self._awaited.get(topic, deque())
        while awaited and awaited[0].end <= effect.end:
            op, sequence, _ = awaited.popleft()
            self.world.history.acknowledged(
                op, address, sequence, self.world.now_ms, self._settings.min_acks
            )


class SimApplication(Protocol):
    """Who sends through a producer's role."""

    def stored(self, effect: Stored) -> None:
        """Enough stores have these."""


class SimOwner:
    """The port `Owner` of an application whose batches are full when they are begun."""

    def __init__(self, application: SimApplication) -> None:
        self.stored = application.stored
        self.rivalled: set[Partition] = set()
        """Partitions that another producer publishes in."""

    def seal_older(self, _opened_ms: int) -> None:
        """None is open."""

    def oldest_open_ms(self) -> None:
        """None is open."""

    def spooled(self, _batches: Sequence[Batch]) -> None:
        """Nobody waits for that."""

    def disputed(self, effect: Disputed) -> None:
        """Another producer publishes under this one's address."""
        self.rivalled.add(effect.partition)

    def hole_found(self, effect: HoleFound) -> None:
        """It goes on: what is lacking may still come."""

    def abandon(self) -> None:
        """The process has ended, and its application."""


class SimStore(SimNode[None, Never]):
    """A store.

    Args:
        world: Where it lives.
        name: Its name.
        mesh: Its cluster.
        log: What is on its disk: it outlives the process.
        settings: See there.
        retention: What need not be kept.
    """

    keeps = True

    def __init__(
        self,
        world: World,
        name: str,
        mesh: SimMesh,
        log: MemoryLog,
        settings: StoreSettings = STORE_SETTINGS,
        retention: Sequence[Retention] = (),
    ) -> None:
        super().__init__(world, name, {None: mesh})
        self.log = log
        self.server = SimQueryServer(self)
        self.settings = settings
        """What it is told when it is started."""
        self._retainer = Retainer(retention)
        self.disk = SimDisk(self)
        self._view: RecordLog = SimLog(log, self.disk, self.written)
        self._holds = Holds(log)
        self._kept = NO_SLOTS
        self.disputed: set[Partition] = set()
        """Partitions it has found two producers of."""
        self.forbidden: set[str] = set()
        """Topics of which it takes nothing from anybody, as where keys do not permit it."""

    @property
    def kept_slots(self) -> KeptSlots:
        """What of the ring its disk is of."""
        return KeptSlots(self.log, self.settings.slots, joins=self.settings.joins)

    @property
    def slots(self) -> Slots:
        """Which of the ring it keeps."""
        return self.kept_slots.keeping.kept

    def build(self) -> tuple[StoreRole, StoreMachine]:
        """A store that has just opened its log."""
        self._kept = self.slots
        self.world.history.record(SlotsKept(self.world.now_ms, self.name, self._kept.bits))
        for partition, end in self.log.ends().items():
            self.world.history.record(Reopened(self.world.now_ms, self.name, partition, end))
        self.log.changes = ChangeOrder(f"{self.name}.{self.incarnation}")
        self.server = SimQueryServer(self)
        self._view = self.opened()
        self._holds = Holds(SettledTables(self.log, self._view))
        role = StoreRole(
            self._view,
            self.server,
            self._retainer,
            settings=self.settings,
            clock=self.clock,
            holds=self._holds,
        )
        return role, role.machine

    def opened(self) -> RecordLog:
        """Its log, as a process that opens it has it."""
        return SimLog(self.log, self.disk, self.written)

    def hold(self, question: bytes) -> bytes:
        """Answer who says what clusters have of what is here."""
        return answer(question, self._view, hold_words=self._holds, kept_slots=self.kept_slots)

    def crash(self) -> None:
        """Die as by kill -9, at any moment of a write."""
        self.disk.crash()
        super().crash()

    @property
    def address(self) -> str:
        """That of its disk."""
        return self.log.identity

    def lose_disk(self) -> None:
        """Die, and have an empty disk from then on."""
        if self.alive:
            self.crash()
        self.log = MemoryLog(f"{self.log.identity}-new")
        self.world.note("new disk", self.name)
        self.world.history.record(DiskLost(self.world.now_ms, self.name))

    def arrive(self, side: None, event: Event) -> None:
        """Something has come from a mesh, maybe damaged."""
        if self.forbidden and _topics(event) & self.forbidden:
            return
        faults, chance = self.world.faults, self.world.random
        if isinstance(event, Received) and faults.corruption > chance.random():
            event = _corrupted(event, chance)
        super().arrive(side, event)

    def published(self, message: Message) -> None:
        """Note what it says of its heads."""
        if isinstance(message, messages.DirectHead):
            partition = Partition(message.topic, message.address)
            self.world.history.record(
                HeadTold(self.world.now_ms, self.name, partition, message.sequence)
            )

    def performed(self, _side: None, effect: object, _completed: object) -> None:
        """Note disputes."""
        if isinstance(effect, Disputed):
            self.disputed.add(effect.partition)

    def trim(self, partition: Partition, sequence: int) -> None:
        """Keep nothing of what lies before `sequence`, as retention does, if the disk takes it."""
        if partition in self._view.extents():  # the disk may not know yet that it is forgotten
            with suppress(StorageError):
                self._view.append((), trims={partition: sequence})

    def written(
        self,
        batches: Sequence[Batch],
        trimmed: Iterable[Partition],
        skipped: Mapping[Partition, range],
        erased: Iterable[Partition],
    ) -> None:
        """A transaction is on disk: what it appended, dropped some of, passed over and erased."""
        now_ms, history = self.world.now_ms, self.world.history
        for partition in erased:
            history.record(Erased(now_ms, self.name, partition))
        for partition in trimmed:
            extent = extent_of(self.log, partition)
            assert extent is not None
            given_up = self.kept_slots.dropped.keeps(*partition)
            history.record(Trimmed(now_ms, self.name, partition, extent.start, given_up))
        for partition, gap in skipped.items():
            history.record(SkippedOver(now_ms, self.name, partition, gap.start, gap.stop))
        if self._kept != self.slots:
            self._kept = self.slots
            history.record(SlotsKept(now_ms, self.name, self._kept.bits))
        for batch in batches:
            history.record(Durable(now_ms, self.name, batch.partition, batch.end))


def _topics(event: Event) -> set[str]:
    """Which topics an event from a mesh tells of."""
    if isinstance(event, Received):
        return {getattr(event.message, "topic", "")}
    if isinstance(event, ReceivedTogether):
        return {getattr(message, "topic", "") for message in event.messages}
    return set()


def _corrupted(event: Received, chance: Random) -> Received:
    """The same with one bit of its content changed, if it has content."""
    message = event.message
    if not isinstance(message, messages.Records | messages.DirectRecords):
        return event
    content = bytearray(message.content)
    content[chance.randrange(len(content))] ^= 1 << chance.randrange(8)
    return Received(replace(message, content=bytes(content)))


class SimConsumer(SimNode[None, Never]):
    """A consumer and its application, which takes a while over each batch.

    A crash makes it begin anew.
    """

    def __init__(self, world: World, name: str, mesh: SimMesh, settings: ConsumerSettings) -> None:
        super().__init__(world, name, {None: mesh})
        self.guest = settings.guest
        self._settings = settings
        self._role: ConsumerRole | None = None

    @property
    def machine(self) -> ConsumerMachine:
        """That of its present life."""
        assert self._role is not None
        return self._role.machine

    def build(self) -> tuple[ConsumerRole, ConsumerMachine]:
        """A consumer that has seen nothing."""
        earliest = self._settings.start is Start.EARLIEST
        self.world.history.record(
            Began(
                self.world.now_ms,
                self.name,
                self._settings.topics,
                earliest,
                self._settings.committed or self._settings.guest,
            )
        )
        machine = ConsumerMachine(f"{self.name}.{self.incarnation}", self._settings)
        self._role = ConsumerRole(machine)
        return self._role, machine

    def crash(self) -> None:
        """Die; nothing is expected of it until it comes back."""
        self.world.history.record(Ended(self.world.now_ms, self.name))
        super().crash()

    def performed(self, _side: None, effect: object, _completed: object) -> None:
        """Note where it goes on behind what nobody has any more."""
        if isinstance(effect, Lost):
            self.world.history.record(
                Positioned(self.world.now_ms, self.name, effect.partition, effect.end)
            )

    def turned(self) -> None:
        """Take what was delivered."""
        assert self._role is not None
        while (delivered := self._role.next(0, whole=True)) is not None:
            self.take(delivered)

    def take(self, delivered: Deliver) -> None:
        """Note the records, and give the room back a little later."""
        batch, start = delivered.batch, max(delivered.start, delivered.batch.sequence)
        values = tuple(value or b"" for value in values_of(batch, start))
        self.world.history.record(
            Polled(self.world.now_ms, self.name, batch.partition, start, values)
        )
        self.later(1, lambda: self.post(None, Consumed(len(batch.content))))


def read_stores(world: World, stores: Iterable[SimStore]) -> None:
    """End the world's history: what every store holds."""
    stores = list(stores)
    names, slots = zip(*((store.name, store.slots.bits) for store in stores), strict=True)
    world.history.record(Settled(world.now_ms, names, slots))
    for store in stores:
        for partition in store.log.extents():
            for batch in kept(store.log, partition):
                values = tuple(value or b"" for value in values_of(batch))
                world.history.record(
                    ReadBack(world.now_ms, store.name, partition, batch.sequence, values)
                )


def kept(log: RecordLog, partition: Partition) -> Iterator[Batch]:
    """Yield all that a log has of a partition, also behind gaps."""
    sequence = log.extents()[partition].start
    while batches := log.read(partition, sequence, READ_ALL, READ_ALL):
        yield from batches
        sequence = batches[-1].end
