"""The simulated processes of a group: stores that keep it, and consumers with their commits.

The machines and the `Hand` of a real consumer, with an application that takes a while for each
record. See `dafka.testing.groups`.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING

from dafka.groups.acceptor import Registers
from dafka.groups.commit import TOPIC as COMMITS_TOPIC
from dafka.groups.commit import Commit, CommitKey, checked_group, decode, encode
from dafka.groups.commit_table import commits_of
from dafka.groups.consumer import GroupMachine, GroupSettings
from dafka.groups.events import (
    Answered,
    Ask,
    AskOffsets,
    Closing,
    Collect,
    Collected,
    Committed,
    Expelled,
    Handed,
    Left,
    OffsetsAnswered,
    PartitionAssigned,
    PublishCommits,
    Revoke,
    Revoked,
)
from dafka.groups.member import MemberMachine
from dafka.groups.membership import Member
from dafka.model import Partition
from dafka.node.progress import Hand
from dafka.protocol.consumer import ConsumerMachine, ConsumerSettings, Start
from dafka.protocol.effects import Stored
from dafka.protocol.events import Consumed, Submitted
from dafka.protocol.producer import ProducerMachine, ProducerSettings
from dafka.records.batch import BatchBuilder, records_of
from dafka.testing.membership import Owners, reply
from dafka.testing.nodes import SimStore
from dafka.testing.world import OneSided, SimMesh, SimNode, World

if TYPE_CHECKING:
    from collections.abc import Callable

    from dafka.model import Record

GROUP = checked_group("billing")
TOPIC = "orders"

PAGE = 3
"""Commits in one answer: few, so that there are several pages."""


class GroupStore(SimStore):
    """A store that keeps groups."""

    registers: Registers | None = None

    def build(self) -> OneSided:
        """Start, knowing what is on disk and nothing else."""
        self.registers = Registers(self.log)
        return super().build()

    def answer(self, effect: Ask | AskOffsets) -> Answered | OffsetsAnswered | None:
        """What its query port says."""
        if isinstance(effect, Ask):
            assert self.registers is not None
            found = reply(self.registers, effect.request, self.world.now_ms)
            return None if found is None else Answered(effect.store, effect.token, found)
        page = commits_of(self.log, GROUP, PAGE, effect.after)
        commits = tuple(decode(*record) for record in page)
        return OffsetsAnswered(effect.store, effect.token, commits, len(page) == PAGE)


class CommitProducer(SimNode[None]):
    """The producer of a member's commits."""

    def __init__(self, world: World, name: str, mesh: SimMesh) -> None:
        super().__init__(world, name, {None: mesh})
        self._ends: deque[tuple[int, Callable[[], None]]] = deque()
        self._end = 0

    def build(self) -> OneSided:
        """A producer under a new address."""
        self._ends.clear()
        self._end = 0
        return OneSided(ProducerMachine(f"{self.name}.{self.incarnation}", ProducerSettings()))

    def publish(self, effect: PublishCommits, stored: Callable[[], None]) -> None:
        """Publish positions, and call when a store has them."""
        builder = BatchBuilder(1 << 20)
        for partition, position in effect.positions.items():
            commit = Commit(position, effect.epoch, self.world.now_ms)
            builder.append(0, *encode(CommitKey(GROUP, partition), commit), ())
        self._end += builder.count
        self._ends.append((self._end, stored))
        self.feed(None, Submitted(COMMITS_TOPIC, builder.count, builder.build()))

    def perform(self, side: None, effect: object) -> None:
        """Note what is stored."""
        if isinstance(effect, Stored):
            while self._ends and self._ends[0][0] <= effect.end:
                self._ends.popleft()[1]()


@dataclass(slots=True)
class Settings:
    """What the members of a run are told."""

    session_ms: int
    auto_commit_ms: int
    record_ms_max: int
    """How long the application takes for a record at most."""


class Processed:
    """What the group has processed, and whether it had to be repeated."""

    def __init__(self) -> None:
        self.times: dict[tuple[Partition, int], list[tuple[int, str]]] = {}
        """For each record when it was processed, and by whom."""
        self.ends: dict[str, int] = {}
        """When members died or were expelled."""

    def repeated(self, within_ms: int) -> int:
        """How many were processed again, after their member's end; all in time before that."""
        count = 0
        for place, times in self.times.items():
            for (first_ms, name), _ in pairwise(times):
                assert name in self.ends, f"{place} was repeated though {name} lives"
                assert self.ends[name] - first_ms <= within_ms, f"{place}: {times}, {self.ends}"
                count += 1
        return count


class GroupConsumer(SimNode[None]):
    """A consumer in a group, its commits, and its application."""

    def __init__(
        self,
        world: World,
        name: str,
        mesh: SimMesh,
        stores: list[GroupStore],
        owners: Owners,
        processed: Processed,
        settings: Settings,
    ) -> None:
        super().__init__(world, name, {None: mesh})
        self._committer = CommitProducer(world, f"{name}-commits", mesh)
        self._stores = stores
        self._owners = owners
        self._processed = processed
        self._settings = settings
        self._hand = Hand(lambda _: None)
        self._queue: deque[Handed] = deque()
        self._records: deque[Record] = deque()
        self._drained = 0
        self._machine_: GroupMachine | None = None
        self._owned: set[Partition] = set()
        self.unreachable: set[str] = set()
        self.left = False

    @property
    def life(self) -> str:
        """Which of its lives it is in."""
        return f"{self.name}.{self.incarnation}"

    def build(self) -> OneSided:
        """A consumer that has seen nothing."""
        settings = ConsumerSettings(topics=(TOPIC,), start=Start.ASSIGNED)
        member = MemberMachine(
            GROUP,
            self.life,
            Member((TOPIC.encode(),), self._settings.session_ms),
            len(self._stores),
        )
        told = GroupSettings(
            stores=len(self._stores),
            latest=False,
            auto_commit_ms=self._settings.auto_commit_ms,
            hold_ms_max=600_000,
        )
        self._machine_ = GroupMachine(ConsumerMachine(self.life, settings), member, told)
        self._hand = Hand(self._returned)
        self._queue.clear()
        self._records.clear()
        self._drained = 0
        self.left = False
        return OneSided(self._machine_)  # type: ignore[arg-type]

    def boot(self) -> None:
        """Start, and let the application ask for records."""
        self._committer.boot()
        super().boot()
        self._go_on()

    def crash(self) -> None:
        """Die."""
        self._processed.ends[self.life] = self.world.now_ms
        self._drop(self._owned)
        self._committer.crash()
        super().crash()

    def close(self) -> None:
        """End in order."""
        self._records.clear()
        self.left = True
        self._drop(self._owned)
        self.feed(None, Closing(self._hand.vouch()[0]))

    def perform(self, side: None, effect: object) -> None:
        """Do what is not the network's."""
        match effect:
            case Handed():
                self._queue.append(effect)
            case Ask() | AskOffsets():
                self._ask(effect)
            case PartitionAssigned(partition):
                assert partition not in self._owned
                assert self._machine_ is not None
                self._owners.take(self._machine_.generation, partition, self.life)
                self._owned.add(partition)
                self._hand.begin(effect)
            case Revoke():
                revoked = self._hand.revoke(effect)
                if revoked is not None:
                    self._returned(revoked)
            case Collect():
                self.later(0, None, Collected(self._hand.processed()))
            case PublishCommits():
                incarnation = self.incarnation
                self._committer.publish(effect, lambda: self._stored(effect, incarnation))
            case Expelled():
                self._processed.ends[self.life] = self.world.now_ms
                self._hand.expel()
                self._drop(self._owned)
            case Left():
                self.world.after(0, self._end)
            case _:
                pass

    def _end(self) -> None:
        if self.alive and self.left:
            self._committer.crash()
            super().crash()

    def _stored(self, effect: PublishCommits, incarnation: int) -> None:
        if incarnation == self.incarnation:
            self.later(0, None, Committed(effect.token))

    def _returned(self, revoked: Revoked) -> None:
        # What the application holds is not anybody else's before that is committed.
        self._drop(self._owned & revoked.positions.keys())
        self.later(0, None, revoked)

    def _drop(self, partitions: set[Partition]) -> None:
        for partition in list(partitions):
            self._owned.discard(partition)
            self._owners.drop(partition, self.life)

    def _go_on(self) -> None:
        """The application's loop: a record, then a while."""
        incarnation = self.incarnation

        def turn() -> None:
            if incarnation == self.incarnation and not self.left:
                self._turn()
                self._go_on()

        self.world.after(self.world.random.randint(1, self._settings.record_ms_max), turn)

    def _turn(self) -> None:
        """Be done with a record, and take the next."""
        if self._records and not self._hand.stopped:
            record = self._records.popleft()
            self._hand.record = record
            place = Partition(record.topic, record.address), record.sequence
            assert place[0] in self._owned
            times = self._processed.times.setdefault(place, [])
            times.append((self.world.now_ms, self.life))
            return
        self._records.clear()
        self._hand.put()
        if self._drained:
            self.feed(None, Consumed(self._drained))
            self._drained = 0
        while self._queue and not self._records:
            handed = self._queue.popleft()
            self._drained += len(handed.batch.content)
            if self._hand.take(handed):
                self._records.extend(records_of(handed.batch, handed.start))

    def _ask(self, effect: Ask | AskOffsets) -> None:
        store, incarnation = self._stores[effect.store], self.incarnation
        chance, faults = self.world.random, self.world.faults

        def put() -> None:
            found = store.answer(effect) if store.alive else None
            if found is not None and chance.random() >= faults.loss:
                self.world.after(self.world.delay_ms(), lambda: arrive(found))

        def arrive(found: Answered | OffsetsAnswered) -> None:
            if incarnation == self.incarnation and store.name not in self.unreachable:
                self.feed(None, found)

        if store.name not in self.unreachable and chance.random() >= faults.loss:
            self.world.after(self.world.delay_ms(), put)
