"""A consumer of a group in the simulator: the real role, and an application that takes its time.

See `dafka.testing.groups`; stores and producers are those of all simulations.
"""

from __future__ import annotations

from collections import deque
from concurrent.futures import Future
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Never

from dafka.cluster import Cluster
from dafka.groups.commit import TOPIC as OFFSETS
from dafka.groups.commit import checked_group, decode
from dafka.groups.commit_table import commits_of
from dafka.groups.events import (
    Committed,
    Expelled,
    GroupEvent,
    PartitionAssigned,
    PublishCommits,
    Rebalanced,
    Revoked,
)
from dafka.groups.membership import blocking_of
from dafka.model import Partition
from dafka.node.delivery import Delivery
from dafka.node.group import GroupOptions, GroupRole
from dafka.node.producer_role import ProducerRole
from dafka.protocol.consumer import ConsumerMachine, ConsumerSettings, Start
from dafka.protocol.events import Consumed, Event, Submitted
from dafka.protocol.producer import ProducerMachine, ProducerSettings
from dafka.records.batch import BatchBuilder, records_of
from dafka.testing.nodes import SimOwner, SimStore
from dafka.testing.queries import SimQueryLine
from dafka.testing.world import SimMesh, SimNode, World

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from dafka.groups.consumer import GroupMachine
    from dafka.model import Batch, Record
    from dafka.node.store import StoreRole
    from dafka.protocol.effects import Stored
    from dafka.protocol.store import StoreMachine
    from dafka.testing.membership import Owners
    from dafka.transport.keys import Credentials

GROUP = checked_group("billing")
TOPIC = "orders"

PAGE = 3
"""Commits in one answer: few, so that there are several pages."""


class GroupStore(SimStore):
    """A store of which it is seen that no commit takes the place of one of a later generation."""

    _epochs: dict[Partition, int]

    def build(self) -> tuple[StoreRole, StoreMachine]:
        """A store that has just opened its log."""
        self._epochs = {}
        return super().build()

    def written(
        self,
        batches: Sequence[Batch],
        trimmed: Iterable[Partition],
        skipped: Mapping[Partition, range],
        erased: Iterable[Partition],
    ) -> None:
        """Note what is on disk, and look at the commits."""
        super().written(batches, trimmed, skipped, erased)
        if not any(batch.partition.topic == OFFSETS for batch in batches):
            return
        for record in commits_of(self.log, GROUP, 1_000):
            key, commit = decode(*record)
            before = self._epochs.get(key.partition, 0)
            assert commit.epoch >= before, f"{self.name}: {commit} holds, not that of {before}"
            self._epochs[key.partition] = commit.epoch


class CommitProducer(SimNode[None, Never]):
    """The producer of a member's commits: the port `CommitPort`."""

    def __init__(self, world: World, name: str, mesh: SimMesh, min_acks: int) -> None:
        super().__init__(world, name, {None: mesh})
        self._min_acks = min_acks
        self._awaited: deque[tuple[int, Future[Delivery]]] = deque()
        self._ends: dict[str, int] = {}

    @property
    def address(self) -> str:
        """Its present identity."""
        return f"{self.name}.{self.incarnation}"

    def build(self) -> tuple[ProducerRole, ProducerMachine]:
        """A producer under a new address."""
        self._awaited.clear()
        self._ends.clear()
        machine = ProducerMachine(self.address, ProducerSettings(min_acks=self._min_acks))
        return ProducerRole(SimOwner(self), machine, 0, None, self.clock), machine

    def send(self, topic: str, value: bytes | None, *, key: bytes) -> Future[Delivery]:
        """Publish a record; the future is done when a store has it."""
        builder = BatchBuilder(1 << 20)
        builder.append(self.clock.wall_ms(), key, value, ())
        end = self._ends[topic] = self._ends.get(topic, 0) + 1
        future: Future[Delivery] = Future()
        self._awaited.append((end, future))
        self.post(None, Submitted(topic, 1, builder.build()))
        return future

    def close(self, _timeout: float) -> None:
        """It ends with its member."""

    def stored(self, effect: Stored) -> None:
        """Enough stores have these."""
        while self._awaited and self._awaited[0][0] <= effect.end:
            end, future = self._awaited.popleft()
            future.set_result(Delivery(*effect.partition, end - 1, 1))


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
        self.ends: dict[str, list[int]] = {}
        """When members died or were expelled, or did nothing from then on until they were."""
        self.committed: dict[Partition, tuple[int, int]] = {}
        """What was acknowledged to members that holds: its epoch and the position."""

    def commit(self, commits: PublishCommits) -> None:
        """Stores have acknowledged these."""
        for partition, position in commits.positions.items():
            before = self.committed.get(partition, (0, 0))
            self.committed[partition] = max(before, (commits.epoch, position))

    def repeated(self, within_ms: int) -> int:
        """How many were processed again, after their member's end; all in time before that."""
        count = 0
        for place, times in self.times.items():
            for (first_ms, name), _ in pairwise(times):
                ends_ms = [end_ms for end_ms in self.ends.get(name, ()) if end_ms >= first_ms]
                assert ends_ms, f"{place} was repeated though {name} lives"
                assert ends_ms[0] - first_ms <= within_ms, f"{place}: {times}, {self.ends}"
                count += 1
        return count


class GroupConsumer(SimNode[None, GroupEvent]):
    """A consumer in a group, its commits, and its application."""

    def __init__(
        self,
        world: World,
        name: str,
        mesh: SimMesh,
        stores: Sequence[SimStore],
        owners: Owners,
        processed: Processed,
        settings: Settings,
    ) -> None:
        super().__init__(world, name, {None: mesh})
        min_acks = blocking_of(len(stores))
        self._committer = CommitProducer(world, f"{name}-commits", mesh, min_acks)
        self._stores = stores
        self._owners = owners
        self._processed = processed
        self._settings = settings
        self._role: GroupRole | None = None
        self._records: deque[Record] = deque()
        self._working: Record | None = None
        """What the application has been handed and is not done with."""
        self._drained = 0
        self._publishing: dict[int, PublishCommits] = {}
        """By their tokens, the commits that are not acknowledged yet."""
        self._known: dict[Partition, tuple[int, int]] = {}
        """What was acknowledged to anybody when it began to ask what the group has committed."""
        self._owned: set[Partition] = set()
        self._told: set[Partition] = set()
        """Those of them that it may work on, as far as `Owners` know: not while it is suspended."""
        self._stopped_ms: int | None = None
        """Since when it has done nothing, having been suspended."""
        self.unreachable: set[str] = set()
        self.left = False

    @property
    def life(self) -> str:
        """Which of its lives it is in."""
        return f"{self.name}.{self.incarnation}"

    def build(self) -> tuple[GroupRole, GroupMachine]:
        """A consumer that has seen nothing."""
        options = GroupOptions(
            GROUP,
            tuple(store.name for store in self._stores),
            auto_commit_ms=self._settings.auto_commit_ms,
            session_timeout_ms=self._settings.session_ms,
            max_hold_ms=600_000,
        )
        machine = ConsumerMachine(
            self.life, ConsumerSettings(topics=(TOPIC,), start=Start.ASSIGNED)
        )
        self._role = GroupRole(
            options,
            machine,
            Start.EARLIEST,
            self._committer,
            Cluster(stores=options.stores),
            self._connect,
            self.clock,
        )
        self._role.attach(self.post)
        self._records.clear()
        self._working = None
        self._drained = 0
        self._stopped_ms = None
        self._publishing = {}
        self.left = False
        return self._role, self._role.machine

    def boot(self) -> None:
        """Start, and let the application ask for records."""
        self._committer.boot()
        super().boot()
        self._go_on()

    def crash(self) -> None:
        """Die."""
        self._end()
        self._drop(self._owned)
        self._committer.crash()
        super().crash()

    def suspend(self, milliseconds: int) -> None:
        """Let its machine be suspended: what it owns, others may take once its lease is over."""
        if self._stopped_ms is None:
            self._stopped_ms = self.world.now_ms
        for partition in self._told:
            self._owners.drop(partition, self.life)
        self._told.clear()
        self._committer.suspend(milliseconds)
        super().suspend(milliseconds)

    def cut(self, stores: Iterable[SimStore]) -> None:
        """Let neither its questions nor its commits get to these stores, nor what they answer back.

        What it commits meanwhile lands once this is mended, when it may have been replaced.
        """
        self.mend()
        for store in stores:
            self.unreachable.add(store.name)
            self.world.cut(self._committer.name, store.name, both=True)

    def mend(self) -> None:
        """Let it reach all stores again."""
        self.unreachable.clear()
        cuts, name = self.world.cuts, self._committer.name
        self.world.cuts = {pair for pair in cuts if name not in pair}

    def close(self, *, failed: bool) -> None:
        """End in order, the application being done with what it has or failing at it."""
        assert self._role is not None
        if not failed and not self._role.overslept:
            self._be_done()
        self._records.clear()
        self._working = None
        self.left = True
        self._drop(self._owned)
        self._role.say_goodbye(failed=failed)

    def post(self, side: None, event: Event | GroupEvent) -> None:
        """Hand an event over."""
        if isinstance(event, Revoked):
            self._give_back(event)
        elif isinstance(event, Committed):
            self._processed.commit(self._publishing.pop(event.token))
        super().post(side, event)

    def performed(self, side: None, effect: object, completed: object) -> None:
        """Note what is its own, and what is not any more."""
        assert self._role is not None
        if isinstance(effect, PartitionAssigned):
            if self.left:
                return  # begun before its machine was told to close: nobody asks for records
            assert effect.partition not in self._owned
            _, committed = self._known.get(effect.partition, (0, 0))
            assert effect.position >= committed, f"{effect} is behind what was committed"
            self._owned.add(effect.partition)
            if not self._role.overslept:
                self._take(effect.partition)
        elif isinstance(effect, Rebalanced):
            self._known = dict(self._processed.committed)
        elif isinstance(effect, PublishCommits):
            self._publishing[effect.token] = effect
        elif isinstance(completed, Revoked):
            self._give_back(completed)
        elif isinstance(effect, Expelled):
            self._end()
            self._working = None  # somebody else's by now
            self._drop(self._owned)

    def turned(self) -> None:
        """End, once it has left the group."""
        assert self._role is not None
        if self.left and self._role.left.is_set():
            self._committer.crash()
            super().crash()

    def _connect(self, endpoint: str, _credentials: Credentials | None) -> SimQueryLine:
        (store,) = (one for one in self._stores if one.name == endpoint)
        return SimQueryLine(self, store, lambda: endpoint in self.unreachable)

    def _give_back(self, revoked: Revoked) -> None:
        # What the application holds is not anybody else's before that is committed.
        self._drop(self._owned & revoked.positions.keys())

    def _drop(self, partitions: set[Partition]) -> None:
        for partition in list(partitions):
            self._owned.discard(partition)
            if partition in self._told:
                self._told.discard(partition)
                self._owners.drop(partition, self.life)

    def _take(self, partition: Partition) -> None:
        assert self._role is not None
        self._owners.take(self._role.machine.generation, partition, self.life)
        self._told.add(partition)

    def _end(self) -> None:
        stopped_ms = self._stopped_ms
        ended_ms = self.world.now_ms if stopped_ms is None else stopped_ms
        self._processed.ends.setdefault(self.life, []).append(ended_ms)

    def _go_on(self) -> None:
        """The application's loop: a record, then a while."""

        def go_on() -> None:
            if not self.left:
                self._process()
                self._go_on()

        self.later(self.world.random.randint(1, self._settings.record_ms_max), go_on)

    def _be_done(self) -> None:
        """The application is done with what it was handed: only now it is processed."""
        record, self._working = self._working, None
        if record is not None:
            place = Partition(record.topic, record.address), record.sequence
            times = self._processed.times.setdefault(place, [])
            times.append((self.world.now_ms, self.life))

    def _process(self) -> None:
        """Be done with a record, and take the next."""
        assert self._role is not None
        if self._role.overslept:
            return
        self._stopped_ms = None
        for partition in sorted(self._owned - self._told):
            self._take(partition)
        self._be_done()
        hand = self._role.hand
        if self._records and not hand.stopped:
            self._working = hand.record = self._records.popleft()
            assert Partition(self._working.topic, self._working.address) in self._owned
            return
        self._records.clear()
        if self._drained:
            self.post(None, Consumed(self._drained))
            self._drained = 0
        handed = self._role.next(0, whole=False)
        if handed is not None:
            self._drained = len(handed.batch.content)
            self._records.extend(records_of(handed.batch, handed.start))
