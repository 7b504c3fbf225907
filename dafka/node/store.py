"""The public store: a log on disk in a cluster's mesh, with its query port."""

from __future__ import annotations

import logging
from contextlib import ExitStack
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Protocol

from dafka.cluster import Cluster, cluster_of
from dafka.errors import MisuseError, StorageError, WireError
from dafka.groups.acceptor import Registers
from dafka.groups.commit import GATEWAYS
from dafka.groups.commit_table import anybody, fold
from dafka.groups.lag import GroupLags
from dafka.groups.link_sync import LinkSync
from dafka.groups.writers import Writers
from dafka.limits import (
    BATCH_BYTES_MAX,
    FORGOTTEN_AT_ONCE_MAX,
    PENDING_READS_MAX,
    PENDING_READS_PEER_MAX,
)
from dafka.model import ALL_SLOTS, Partition, Shape
from dafka.node.loop import Node
from dafka.node.store_retention import StoreRetention
from dafka.node.store_settings import (
    COMMITS_KEPT,
    CONTROLLERS_KEPT,
    GATEWAYS_KEPT,
    STAGED_KEPT,
    STORE_SETTINGS,
    StoreSettings,
)
from dafka.node.store_slots import StoreSlots
from dafka.process import metrics
from dafka.process.clock import CLOCK
from dafka.protocol.effects import Append, Compare, Disputed, Forget, ReadRange, Recall, Remember
from dafka.protocol.events import (
    Appended,
    AppendFailed,
    Compared,
    Emptied,
    Event,
    HoleSkipped,
    PartitionsForgotten,
    RangeRead,
    Recalled,
    TurnEnded,
)
from dafka.protocol.fair_queue import FairQueue
from dafka.protocol.store import StoreMachine
from dafka.query.service import answer
from dafka.storage.clocks import SeenClocks
from dafka.storage.forgetting import Forgetter
from dafka.storage.holds import Holds
from dafka.storage.kept_slots import KeptSlots
from dafka.storage.lmdb_log import Durability, LmdbLog
from dafka.storage.log import beside, extent_of, goes_on
from dafka.storage.passed_over import parting, passing
from dafka.storage.retention import Retainer
from dafka.transport.access import ANYBODY, Rights
from dafka.transport.curve import checked_infrastructure
from dafka.transport.mesh import Mesh
from dafka.transport.request import QueryServer

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence
    from pathlib import Path
    from typing import Never, Self, Unpack

    from dafka.model import Batch, Slots
    from dafka.node.store_settings import StoreOptions
    from dafka.node.turn import Role
    from dafka.process.clock import Clock
    from dafka.reasons import Reason
    from dafka.storage.log import RecordLog
    from dafka.storage.retention import Retention
    from dafka.transport.access import Access
    from dafka.transport.request import QueryServerPort
    from dafka.transport.sockets import Pollable

log = logging.getLogger(__name__)

REQUESTS_PER_TURN_MAX = 64
"""Questions answered before the mesh gets its turn: answering must not hold up acknowledging."""

REQUESTS_S_MAX = 0.005
"""After so long no further question is begun in that turn, for the same reason: some take long."""

READS_S_MAX = 0.003
"""After so long no further FETCH is answered in that turn, for the same reason."""

RETENTION_START_MS = 15_000
"""Nothing is dropped so soon after the start: what comes meanwhile shows whether this machine's
clock is right."""

RETENTION_INTERVAL_MS = 5_000
"""How often to look for what need not be kept, and to tell how things are."""

COMMITS_LOOKED_AT = 500
"""So many positions are looked at each time for how far groups are: some milliseconds."""

HOLES_TOLD_MAX = 10
"""So many are named in the log at once; `dafka holes` has them all."""

RETENTION_PAUSE_MS = 50
"""Between the steps while there is some: most of the time is for storing."""


class Store:
    """Keeps every record of one cluster.

    Args:
        data: Directory of the log; made if it is not there.
        cluster: Which, with its own key where it has keys; or its tower, `tcp://host:port`.
        query: Endpoint of the query port, `tcp://host:port`.
        durability: What an ACK promises to survive.
        retention: What need not be kept; the first rule that matches a topic counts.
        settings: See `StoreSettings`.

    Raises:
        StorageError: The directory cannot be used.
        MisuseError: An endpoint cannot be used, or slots cannot be told in this cluster.
    """

    def __init__(
        self,
        data: Path,
        cluster: Cluster | str,
        *,
        query: str,
        durability: Durability = Durability.FSYNC,
        retention: Sequence[Retention] = (),
        **settings: Unpack[StoreOptions],
    ) -> None:
        cluster, told = cluster_of(cluster), StoreSettings(**settings)
        _refuse_single_records(cluster, told.slots)
        credentials = cluster.credentials
        checked_infrastructure(query, credentials, insecure=cluster.insecure)
        with ExitStack() as opened:
            record_log = LmdbLog(data, durability=durability)
            opened.callback(record_log.close)
            kept_slots = KeptSlots(record_log, told.slots, joins=told.joins)
            _refuse_single_records(cluster, kept_slots.keeping.kept)
            record_log.settle()  # the node's thread goes on with it
            server = QueryServer(query, credentials)
            opened.callback(server.close)
            self.address = record_log.identity
            mesh = Mesh(cluster, self.address, store=True)
            opened.pop_all()  # all there: from here on the node's thread closes them
        access = None if credentials is None else credentials.access
        retainer = Retainer(
            (*GATEWAYS_KEPT, CONTROLLERS_KEPT, *retention, COMMITS_KEPT, STAGED_KEPT)
        )
        self._role = StoreRole(
            record_log,
            server,
            retainer,
            access,
            settings=told,
            audience=mesh,
        )
        role: Role[None, Never] = self._role
        self._node = Node(role, self.address, {None: mesh})
        self._node.start()

    def join(self, timeout: float) -> bool:
        """See `LongRunning`."""
        ended = self._node.join(timeout)
        self._node.check()
        return ended

    def unwell(self) -> str:
        """See `LongRunning`."""
        return self._node.unwell()

    def unready(self) -> str:
        """Why it takes nothing in, for people; empty if it does."""
        return self._role.refusal

    def close(self) -> None:
        """Finish the write under way and leave the cluster."""
        self._node.stop()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def _refuse_single_records(cluster: Cluster, slots: Slots) -> None:
    if slots != ALL_SLOTS and cluster.shape() is not Shape.BATCHES:
        raise MisuseError(
            f"a store cannot keep slots {slots} only where records are published one by one "
            "(wire: libdafka, classic): let it keep all"
        )


def _drop(reason: Reason) -> None:
    metrics.count_dropped("store", reason)


@dataclass(frozen=True, slots=True)
class _Due:
    """Answer a FETCH whose turn it is."""

    read: ReadRange


class Audience(Protocol):
    """Who is there to be answered: `dafka.transport.mesh.Mesh` knows."""

    def takes(self, requester: str) -> bool:
        """Whether one has room for the answer to a FETCH: else nothing is read for it."""

    def listens(self, requester: str) -> bool:
        """Whether one listens for heads: else none are looked for."""


class _Everybody:
    def takes(self, _requester: str) -> bool:
        return True

    listens = takes


EVERYBODY: Audience = _Everybody()


class StoreRole:
    """A store's machine in its node.

    Args:
        record_log: Closed with the role.
        server: Its query port; closed with the role.
        retainer: Says what need not be kept.
        access: Who may ask what, in a cluster with keys.
        settings: See there.
        audience: Who is there to be answered.
        clock: Its clock.
        holds: What clusters have of it that must have it; by default as the log says.
    """

    name = "store"

    def __init__(
        self,
        record_log: RecordLog,
        server: QueryServerPort,
        retainer: Retainer,
        access: Access | None = None,
        *,
        settings: StoreSettings = STORE_SETTINGS,
        audience: Audience = EVERYBODY,
        clock: Clock = CLOCK,
        holds: Holds | None = None,
    ) -> None:
        self.refusal = ""
        """What the disk says while it refuses to write; empty otherwise."""
        self._access = access
        self._may_commit = anybody if access is None else access.commit_rule()
        self._log = record_log
        self._server = server
        self._holds = Holds(record_log) if holds is None else holds
        self._retention = StoreRetention(record_log, retainer, self._holds)
        self._retention_due_ms = clock.now_ms() + RETENTION_START_MS
        self._forgetter = Forgetter(settings.forget_after_ms)
        self._forget_every_ms = min(settings.forget_after_ms, RETENTION_INTERVAL_MS)
        self._forget_due_ms = clock.now_ms()
        self._told_due_ms = 0
        self._settings = settings
        self._takes = audience.takes
        self._reads: FairQueue[ReadRange] = FairQueue(PENDING_READS_PEER_MAX, PENDING_READS_MAX)
        self._reading_until_s: float | None = None
        """When no further one is answered in this turn; None before the first."""
        self._clock = clock
        self._clocks = SeenClocks(settings.number)
        self._registers = Registers(record_log, clock.now_ms())
        self._link_sync = LinkSync(record_log, clock.now_ms())
        self._writers = Writers()
        self._slots = StoreSlots(record_log, settings, self._holds, clock.now_ms())
        self._skipped: list[HoleSkipped] = []
        """What the operator wants to go on without, asked for in this turn."""
        self._lags = GroupLags(record_log)
        self._metered: set[str] = set()
        """Groups of which the lag is told."""
        self._told_of: set[Partition] = set()
        """Partitions with holes that the log has."""
        self.machine = StoreMachine(
            record_log.identity,
            record_log.heads(),
            remembers=record_log.forgotten > 0,
            keeping=self._slots.keeping,
            listens=audience.listens,
        )
        self._observe()

    def handle(self, side: None, event: Event, now_ms: int) -> Iterable[tuple[None, object]]:
        """Pass an event to the machine; at the end of a turn, see what is not needed any more."""
        if now_ms >= self._told_due_ms and isinstance(event, TurnEnded):
            self._told_due_ms = now_ms + RETENTION_INTERVAL_MS
            self._tell_of_holes()
            self._tell_of_groups()
            self._retention.tell()
            skew_ms = self._clocks.skew_ms(self._clock.wall_ms(), now_ms)
            metrics.CLOCK_SKEW.labels(self._log.identity).set(skew_ms / 1_000)
        if now_ms >= self._retention_due_ms and isinstance(event, TurnEnded):
            dropped = self._retain()
            self._retention_due_ms = now_ms + (
                RETENTION_PAUSE_MS if dropped else RETENTION_INTERVAL_MS
            )
        effects = self.machine.handle(event, now_ms)
        if now_ms >= self._slots.due_ms and isinstance(event, TurnEnded):
            for moved in self._slots.clear(now_ms):
                effects += self.machine.handle(moved, now_ms)
        if now_ms >= self._forget_due_ms and isinstance(event, TurnEnded):
            emptied = self._forgetter.due(self._log, now_ms, FORGOTTEN_AT_ONCE_MAX)
            more = len(emptied) == FORGOTTEN_AT_ONCE_MAX
            self._forget_due_ms = now_ms + (RETENTION_PAUSE_MS if more else self._forget_every_ms)
            effects += self.machine.handle(Emptied(tuple(emptied)), now_ms)
        performed: list[object] = [*effects, *self._due_reads(event)]
        return [(side, effect) for effect in performed]

    def _due_reads(self, event: Event) -> list[_Due]:
        """The next FETCH to answer, if there is time for one in this turn: one after the other.

        What its requester has not taken yet is known when the answer before has been sent.
        """
        if isinstance(event, TurnEnded):
            self._reading_until_s = None
        elif not isinstance(event, RangeRead) or (
            self._reading_until_s is None or self._clock.seconds() >= self._reading_until_s
        ):
            return []
        while (read := self._reads.pop()) is not None:
            if read.partition in self.machine.heads and self._takes(read.requester):
                return [_Due(read)]
            _drop("not read")
        return []

    def wakeup_ms(self) -> int | None:
        """When the machine wants to be woken, or something may not be needed any more."""
        if self._reads:
            return self._clock.now_ms()
        own_ms = min(self._retention_due_ms, self._forget_due_ms, self._slots.due_ms)
        due_ms = self.machine.wakeup_ms()
        return own_ms if due_ms is None else min(due_ms, own_ms)

    def perform(self, _side: None, effect: object) -> Event | None:
        """Write and read; report two producers under one address."""
        match effect:
            case Append():
                return self._append(effect)
            case ReadRange() | _Due():
                return self._asked(effect)
            case Recall():
                return self._recall(effect)
            case Forget() | Remember():
                return self._forget(effect)
            case Compare():
                return self._compare(effect.batch)
            case Disputed():
                self._report(effect)
                return None
            case _:
                raise AssertionError(effect)

    def pollable(self) -> Mapping[Pollable, Callable[[], Iterable[tuple[None, Event]]]]:
        """The query port."""
        return {self._server.socket: self._serve}

    def close(self) -> None:
        """Release the query port and the log."""
        self._server.close()
        self._retention.close()
        for gauge in (
            metrics.PARTITIONS,
            metrics.HOLES,
            metrics.STORED_BYTES,
            metrics.HEADS,
            metrics.CLOCK_SKEW,
        ):
            gauge.remove(self._log.identity)  # they hold on to all that it kept
        for group in self._metered:
            metrics.STORE_GROUP_LAG.remove(self._log.identity, group)
        self._log.close()

    def _append(self, effect: Append) -> Event:
        began = self._clock.seconds()
        try:
            folded = fold(self._log, effect.batches, self._may_commit)
            entries = [*folded.entries, *passing(self._log, dict(effect.skips))]
            self._log.append(effect.batches, skips=dict(effect.skips), entries=entries)
        except StorageError as error:
            # Not acknowledged, so nothing is lost: it is asked for again, and may fit then.
            self._refused(error)
            return AppendFailed(effect.token)
        self._written()
        self._clocks.seen(effect.batches, self._clock.now_ms())
        metrics.APPEND_SECONDS.observe(self._clock.seconds() - began)
        metrics.count_commits(folded.commits, folded.refused)
        return Appended(effect.token)

    def _asked(self, effect: ReadRange | _Due) -> Event | None:
        """Read what this store wants itself, or what is due; others wait for the turn's end."""
        if isinstance(effect, _Due):
            if self._reading_until_s is None:
                self._reading_until_s = self._clock.seconds() + READS_S_MAX
            return self._read(effect.read)
        if effect.requester == self._log.identity:
            return self._read(effect)
        if not self._reads.add(effect.requester, effect.partition, effect):
            _drop("not read")
        return None

    def _read(self, effect: ReadRange) -> Event:
        partition = effect.partition
        try:
            batches = self._log.read(partition, effect.sequence, effect.count_max, effect.bytes_max)
        except StorageError as error:
            return self._unread(effect, error)
        extent = extent_of(self._log, partition)
        assert extent is not None
        skipped_to = goes_on(extent, effect.sequence, batches)
        return RangeRead(effect.requester, partition, tuple(batches), skipped_to, effect.alone_end)

    def _recall(self, effect: Recall) -> Event | None:
        named = {Partition(one.topic, one.address) for one in effect.messages}
        try:
            recalled = self._log.recall(named)
        except StorageError as error:
            # Nothing was taken in: it is said again.
            metrics.READ_FAILURES.inc()
            log.warning("cannot see whether partitions are forgotten: %s", error)
            return None
        ends = {partition: extent.start for partition, extent in recalled.items()}
        return Recalled(effect.messages, ends)

    def _forget(self, effect: Forget | Remember) -> Event | None:
        try:
            if isinstance(effect, Remember):
                return self._slots.remember(effect.ends)
            rows = self._holds.forgetting(effect.partitions)
            rows += parting(self._log, effect.partitions)
            self._log.append((), forgets=effect.partitions, entries=rows)
        except StorageError as error:
            self._refused(error)
            return None
        self._written()
        self._holds.forgotten(effect.partitions)
        metrics.FORGOTTEN.labels(self._log.identity).inc(len(effect.partitions))
        log.info("emptied partitions are forgotten", extra={"partitions": len(effect.partitions)})
        return PartitionsForgotten(effect.partitions)

    def _compare(self, batch: Batch) -> Event | None:
        try:
            return Compared(batch, tuple(beside(self._log, batch, 2 * BATCH_BYTES_MAX)))
        except StorageError as error:
            # Not acknowledged: the producer keeps it, and says so again.
            log.warning("cannot compare with what is stored: %s", error)
            return None

    def _report(self, disputed: Disputed) -> None:
        metrics.DISPUTED.inc()
        log.error(
            "partition is disputed, two producers publish under its address; nothing more of it is "
            "stored: end one of them, then start this store again",
            extra={
                "topic": disputed.partition.topic,
                "address": disputed.partition.address,
                "sequence": disputed.sequence,
            },
        )

    def _unread(self, effect: ReadRange, error: StorageError) -> Event:
        """Another store may have them; the rest of this one may be whole."""
        metrics.READ_FAILURES.inc()
        topic, address = effect.partition
        place = {"topic": topic, "address": address, "sequence": effect.sequence}
        log.error("%s", error, extra=place)
        return RangeRead(effect.requester, effect.partition, (), None, effect.alone_end)

    def _written(self) -> None:
        if self.refusal:
            log.warning("writing again")
            self.refusal = ""

    def _refused(self, error: StorageError) -> None:
        """Say once what is wrong, not at every try."""
        metrics.APPEND_FAILURES.inc()
        if str(error) != self.refusal:
            log.error("nothing is taken in until this is mended: %s", error)
        self.refusal = str(error)

    def _retain(self) -> bool:
        """Drop a bounded part of what need not be kept; whether there may be more."""
        time_ms = self._clocks.time_ms(self._clock.wall_ms(), self._clock.now_ms())
        try:
            generation = self._registers.generation(GATEWAYS, self._clock.now_ms())
            if not self._retention.step(time_ms, generation):
                return self._retention.behind
        except StorageError as error:
            self._refused(error)
            return False
        self._written()
        return True

    def _serve(self) -> Iterable[tuple[None, Event]]:
        began = self._clock.seconds()
        for _ in range(REQUESTS_PER_TURN_MAX):
            try:
                request = self._server.receive()
            except WireError as error:
                _drop(error.reason)
                continue
            if request is None:
                break
            client, question = request
            rights = ANYBODY if self._access is None else self._access.of(client.key) or Rights()
            room = min(self._settings.bounds.read_bytes, self._server.room(client))
            reply = answer(
                question,
                self._log,
                rights,
                deletable=self._settings.deletable,
                registers=self._registers,
                link_sync=self._link_sync,
                hold_words=self._holds,
                writers=self._writers,
                bounds=replace(self._settings.bounds, read_bytes=room),
                holes=self,
                kept_slots=self._slots.kept,
                now_ms=self._clock.now_ms(),
                dropped=_drop,
            )
            if not self._server.reply(client, reply):
                _drop("not read")
            if self._clock.seconds() - began > REQUESTS_S_MAX:
                break
        skipped, self._skipped = self._skipped, []
        events: list[Event] = [*self._slots.moved(), *skipped]
        return [(None, event) for event in events]

    def holes(self) -> Mapping[Partition, range]:
        """See `Holes`."""
        return self.machine.holes()

    def skip(self, partition: Partition, end: int) -> None:
        """See `Holes`."""
        self._skipped.append(HoleSkipped(partition, end))

    def _tell_of_groups(self) -> None:
        address = self._log.identity
        try:
            for group, lag in self._lags.step(COMMITS_LOOKED_AT):
                if lag is not None:
                    metrics.STORE_GROUP_LAG.labels(address, group).set(lag)
                    self._metered.add(group)
                elif group in self._metered:
                    metrics.STORE_GROUP_LAG.remove(address, group)
                    self._metered.remove(group)
        except StorageError as error:
            metrics.READ_FAILURES.inc()
            log.warning("cannot tell how far groups are: %s", error)

    def _tell_of_holes(self) -> None:
        """Say once of each partition that it stands still; how many there are, every time."""
        holes = self.machine.holes()
        metrics.HOLES.labels(self._log.identity).set(len(holes))
        for partition in [one for one in holes if one not in self._told_of][:HOLES_TOLD_MAX]:
            hole = holes[partition]
            log.error(
                "partition waits for records that nobody has: `dafka holes` goes on without them",
                extra={
                    "topic": partition.topic,
                    "address": partition.address,
                    "first": hole.start,
                    "end": hole.stop,
                },
            )
        self._told_of = set(holes)

    def _observe(self) -> None:
        address = self._log.identity
        heads = self.machine.heads
        metrics.PARTITIONS.labels(address).set_function(lambda: len(heads))
        metrics.HOLES.labels(address).set(0)
        extents = self._log.extents()
        metrics.STORED_BYTES.labels(address).set_function(
            lambda: sum(one.size for one in list(extents.values()))
        )
        metrics.HEADS.labels(address).set_function(
            lambda: sum(head + 1 for head in list(heads.values()))
        )
