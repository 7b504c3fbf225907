"""The link: one arrow of the plan, from a cluster to a target across one tree level.

On its source cluster it is a consumer, on its target a mirror; in between it decides by the copy
flags. It keeps nothing on disk: where to begin a partition it asks the target's stores.

    source mesh ─▶ ConsumerMachine ─Deliver─▶ decide ─Mirrored─▶ MirrorMachine ─▶ target mesh
                        ▲                        │skip                │Stored
                        └──────── Drained ◀──────┴────────────────────┘

What is delivered and not yet stored at the target counts as the consumer's buffer, so its bound
is the link's bound. Source: Axual distribution model, "Copy flags and algorithm".
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, replace
from enum import Enum
from typing import TYPE_CHECKING

from dafka.errors import RecordError
from dafka.protocol.effects import Deliver, Dropped, Effect, Found, Lost, Stored, Wanted
from dafka.protocol.events import Drained, Event, Mirrored, Positioned, Woke
from dafka.records.batch import without_first
from dafka.records.envelope import Envelope, stamped, unpack
from topology.copyflags import should_forward, with_copied

if TYPE_CHECKING:
    from collections.abc import Mapping

    from dafka.model import Batch, Partition
    from dafka.protocol.consumer import ConsumerMachine
    from dafka.protocol.mirror import MirrorMachine

ASK_AGAIN_MS = 500
"""Wait before the target's heads are asked for again: after no answer, and between rewinds."""


class Side(Enum):
    """Which mesh an event came from or an effect is for."""

    SOURCE = "source"
    TARGET = "target"


@dataclass(frozen=True, slots=True)
class HeadsRead:
    """Event: the target's stores said what they hold, the last sequence of each partition."""

    heads: Mapping[Partition, int]


@dataclass(frozen=True, slots=True)
class HeadsUnread:
    """Event: no store of the target answered."""


@dataclass(frozen=True, slots=True)
class AskHeads:
    """Effect: ask the target's stores for their heads; answered by one of the two events."""


@dataclass(frozen=True, slots=True)
class Hopped:
    """Effect, for the metrics: a batch is durable at the target.

    Attributes:
        records: How many.
        size: Bytes of the batch.
        latency_ms: From its delivery at the source.
    """

    records: int
    size: int
    latency_ms: int


@dataclass(frozen=True, slots=True)
class Skipped:
    """Effect, for the metrics: these records' flags say that this level is done."""

    records: int


LinkEvent = Event | HeadsRead | HeadsUnread
LinkEffect = Effect | AskHeads | Hopped | Skipped
Sided = tuple[Side, LinkEffect]


@dataclass(slots=True)
class _Hop:
    """A batch on its way."""

    end: int
    records: int
    size: int
    taken_ms: int


class LinkMachine:
    """One link.

    Args:
        level: Level of the tree node it crosses.
        origin: Number of the source cluster, written into records that were published there.
        source: A consumer of the source mesh: all topics, assigned positions, committed only.
        mirror: A mirror on the target mesh.
    """

    def __init__(
        self, *, level: int, origin: int, source: ConsumerMachine, mirror: MirrorMachine
    ) -> None:
        self._level = level
        self._origin = origin
        self._source = source
        self._mirror = mirror
        self._hops: dict[Partition, deque[_Hop]] = {}
        self._moved_ms: dict[Partition, int] = {}
        """When each partition last came forward."""
        self._unplaced: dict[Partition, None] = {}
        """Partitions found that have no position until the heads are read."""
        self._wanted: dict[Partition, None] = {}
        """Partitions somebody at the target asks for from before what the mirror holds."""
        self._asked: dict[Partition, int] | None = None
        """While the heads are being read: the wanted partitions, and how far each was done then."""
        self._ask_due_ms = 0

    def handle(self, side: Side, event: LinkEvent, now_ms: int) -> list[Sided]:
        """Take one event in; see `dafka.protocol`."""
        match event:
            case HeadsRead():
                effects = self._place(event.heads, now_ms)
            case HeadsUnread():
                self._wanted |= dict.fromkeys(self._asked or {})
                self._asked = None
                self._ask_due_ms = now_ms + ASK_AGAIN_MS
                effects = []
            case Woke():
                # A wake-up is nobody's in particular: whoever is due takes it.
                effects = self._from_source(self._source.handle(event, now_ms), now_ms)
                effects += self._from_target(self._mirror.handle(event, now_ms), now_ms)
            case _ if side is Side.SOURCE:
                effects = self._from_source(self._source.handle(event, now_ms), now_ms)
            case _:
                effects = self._from_target(self._mirror.handle(event, now_ms), now_ms)
        return effects + self._ask(now_ms)

    def wakeup_ms(self) -> int | None:
        """When any of the three has something to do because time has passed."""
        dues = [self._source.wakeup_ms(), self._mirror.wakeup_ms()]
        if (self._unplaced or self._wanted) and self._asked is None:
            dues.append(self._ask_due_ms)
        return min((due for due in dues if due is not None), default=None)

    def check(self) -> None:
        """Assert the invariants of the parts and of the whole."""
        self._source.check()
        self._mirror.check()
        for hops in self._hops.values():
            ends = [hop.end for hop in hops]
            assert ends == sorted(ends)

    def lag(self) -> dict[Partition, int]:
        """Records per partition that the source has and this link has not finished with."""
        return {
            partition: max(0, head + 1 - self._done(partition))
            for partition, head in self._source.heads.items()
        }

    def lag_ms(self, now_ms: int) -> int:
        """Age of the oldest batch in hand; with none in hand, how long ago a late one moved."""
        ages = [now_ms - hops[0].taken_ms for hops in self._hops.values() if hops]
        ages += [
            now_ms - self._moved_ms.get(partition, now_ms)
            for partition, records in self.lag().items()
            if records and not self._hops.get(partition)
        ]
        return max(ages, default=0)

    def _done(self, partition: Partition) -> int:
        """Sequence below which the link has nothing left to do."""
        low = self._mirror.low(partition)
        return self._source.next(partition) if low is None else low

    def _ask(self, now_ms: int) -> list[Sided]:
        if self._asked is not None or now_ms < self._ask_due_ms:
            return []
        if not (self._unplaced or self._wanted):
            return []
        self._asked = {partition: self._done(partition) for partition in self._wanted}
        self._wanted = {}
        return [(Side.TARGET, AskHeads())]

    def _place(self, heads: Mapping[Partition, int], now_ms: int) -> list[Sided]:
        """Begin each new partition behind what the target has; go back where it lost something."""
        asked, self._asked = self._asked or {}, None
        effects: list[Sided] = []
        unplaced, self._unplaced = self._unplaced, {}
        for partition in unplaced:
            self._moved_ms[partition] = now_ms
            position = Positioned(partition, heads.get(partition, -1) + 1)
            effects += self._from_source(self._source.handle(position, now_ms), now_ms)
        for partition, done in asked.items():
            # A consumer that reads from the beginning asks the mirror too. Only what the stores
            # really lack is a reason to go back; what was stored while they were asked is not.
            end = heads.get(partition, -1) + 1
            if end < done:
                effects += self._rewind(partition, end, now_ms)
        if asked:
            self._ask_due_ms = now_ms + ASK_AGAIN_MS
        return effects

    def _rewind(self, partition: Partition, sequence: int, now_ms: int) -> list[Sided]:
        self._hops.pop(partition, None)
        freed = Drained(self._mirror.forget(partition))
        effects = self._from_source(self._source.handle(freed, now_ms), now_ms)
        position = Positioned(partition, sequence)
        return effects + self._from_source(self._source.handle(position, now_ms), now_ms)

    def _from_source(self, effects: list[Effect], now_ms: int) -> list[Sided]:
        sided: list[Sided] = []
        for effect in effects:
            match effect:
                case Deliver():
                    sided += self._decide(effect, now_ms)
                case Found():
                    self._unplaced[effect.partition] = None
                case Lost():
                    self._mirror.begins(effect.partition, effect.end)
                    sided.append((Side.SOURCE, effect))
                case _:
                    sided.append((Side.SOURCE, effect))
        return sided

    def _from_target(self, effects: list[Effect], now_ms: int) -> list[Sided]:
        sided: list[Sided] = []
        for effect in effects:
            match effect:
                case Stored():
                    sided += self._stored(effect, now_ms)
                case Wanted():
                    self._wanted[effect.partition] = None
                case _:
                    sided.append((Side.TARGET, effect))
        return sided

    def _decide(self, delivered: Deliver, now_ms: int) -> list[Sided]:
        """Forward a batch or not: the algorithm, once per batch."""
        batch = delivered.batch
        partition = batch.partition
        self._moved_ms[partition] = now_ms
        size = len(batch.content)
        envelope = unpack(batch.content)
        if envelope is None:
            return [(Side.SOURCE, Dropped("envelope")), *self._drain(size, now_ms)]
        if not should_forward(envelope.copy_flags, self._level):
            return [(Side.SOURCE, Skipped(batch.count)), *self._drain(size, now_ms)]
        effects: list[Sided] = []
        if batch.sequence < delivered.start:
            try:
                batch = without_first(batch, delivered.start - batch.sequence)
            except RecordError as error:
                return [(Side.SOURCE, Dropped(error.reason)), *self._drain(size, now_ms)]
            effects += self._drain(size - len(batch.content), now_ms)
        mirrored = Mirrored(self._copied(batch, envelope))
        hop = _Hop(batch.end, batch.count, len(batch.content), now_ms)
        self._hops.setdefault(partition, deque()).append(hop)
        return effects + self._from_target(self._mirror.handle(mirrored, now_ms), now_ms)

    def _copied(self, batch: Batch, envelope: Envelope) -> Batch:
        """The batch as it stands in the target: the same records under new flags."""
        envelope = Envelope(
            origin=envelope.origin or self._origin,
            copy_flags=with_copied(envelope.copy_flags, self._level),
            epoch=envelope.epoch,
        )
        return replace(batch, content=stamped(batch.content, envelope))

    def _stored(self, stored: Stored, now_ms: int) -> list[Sided]:
        sided: list[Sided] = []
        hops = self._hops.get(stored.partition)
        while hops and hops[0].end <= stored.end:
            hop = hops.popleft()
            self._moved_ms[stored.partition] = now_ms
            sided.append((Side.TARGET, Hopped(hop.records, hop.size, now_ms - hop.taken_ms)))
        return sided + self._drain(stored.size, now_ms)

    def _drain(self, size: int, now_ms: int) -> list[Sided]:
        """Give room back to the consumer, which may go on fetching."""
        return self._from_source(self._source.handle(Drained(size), now_ms), now_ms)
