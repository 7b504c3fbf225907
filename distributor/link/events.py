"""Partitions that a link does not copy at present, because what it would copy is not what is due.

`diverged`: both ends hold other records under the same name. It goes on when they were compared
again and are the same, or when no store of the target has any of it.

`overtaken`: the source keeps no more what follows at the target, as retention was faster than the
link. It goes on when another link has brought that, when the target keeps nothing of the partition
any more either, when the source has it again, or behind the hole when an operator says so. Where a
declared store of the source has not said what it keeps, that is waited for before anything.

`refused`: the target acknowledges nothing of it, though it answers and takes others, or though what
it does not take leaves no room for others. It is tried again after a while, and after twice that.

All other partitions go on. Copying on behind a hole would keep another link from bringing what is
missing there; copying on behind another history would mix the two.
"""

from __future__ import annotations

from enum import Enum
from typing import TYPE_CHECKING, NamedTuple

from dafka.model import Value
from dafka.protocol.effects import Effect
from dafka.protocol.events import Event

if TYPE_CHECKING:
    from collections.abc import Mapping

    from dafka.model import Partition
    from dafka.records.sampling import SampledRecord


class StopReason(Enum):
    """Why a partition is not copied."""

    DIVERGED = "diverged"
    OVERTAKEN = "overtaken"
    REFUSED = "refused"


class Stop(NamedTuple):
    """One partition that is not copied.

    Attributes:
        reason: Why.
        first: The first sequence that differs, that the source keeps no more, or that is refused.
        end: The sequence after the last one that is known to.
        until_ms: When it is tried again; None if something else has to happen first.
        unsure: Of an overtaken one, whether a store of the source may have what the others lack.
    """

    reason: StopReason
    first: int
    end: int
    until_ms: int | None = None
    unsure: bool = False


class Hole(NamedTuple):
    """What the source of a link keeps no more, which somebody wants passed over.

    Attributes:
        partition: Of which.
        first: The first sequence that is missing at the target.
        end: The sequence after the last one that is: from where the source keeps it.
    """

    partition: Partition
    first: int
    end: int

    def has(self, first: int, end: int) -> bool:
        """Whether all that is missing was known to be."""
        return self.first <= first and end <= self.end


REFUSED_REST_MS = 10_000
"""When a partition that was refused is tried again, at first."""

REFUSED_REST_MS_MAX = 320_000


class Stops:
    """Those of one link."""

    def __init__(self) -> None:
        self.by_partition: dict[Partition, Stop] = {}
        self._rests_ms: dict[Partition, int] = {}
        """How long partitions rest that were refused: until something of them is stored."""

    def __contains__(self, partition: Partition) -> bool:
        return partition in self.by_partition

    def differs(self, partition: Partition) -> bool:
        """Whether it stands still as both ends hold other records."""
        stop = self.by_partition.get(partition)
        return stop is not None and stop.reason is StopReason.DIVERGED

    def counts(self) -> Mapping[StopReason, int]:
        """How many there are, by reason."""
        reasons = [stop.reason for stop in self.by_partition.values()]
        return {reason: reasons.count(reason) for reason in StopReason}

    def overtaken(self, partition: Partition, first: int, end: int, *, unsure: bool) -> Stop:
        """The source keeps a partition only from `end` on, and the target has it up to `first`.

        What stands still already is missing from there on.
        """
        known = self.by_partition.get(partition)
        first = first if known is None else min(first, known.first)
        stop = Stop(StopReason.OVERTAKEN, first, end, unsure=unsure)
        self.by_partition[partition] = stop
        return stop

    def refused(self, partition: Partition, first: int, end: int, now_ms: int) -> Stop:
        """The target takes nothing of a partition, from `first` on."""
        rest_ms = self._rests_ms.get(partition, REFUSED_REST_MS)
        self._rests_ms[partition] = min(2 * rest_ms, REFUSED_REST_MS_MAX)
        stop = Stop(StopReason.REFUSED, first, end, now_ms + rest_ms)
        self.by_partition[partition] = stop
        return stop

    def stored(self, partition: Partition) -> None:
        """The target has taken something of a partition."""
        self._rests_ms.pop(partition, None)

    def pass_over(self, topic: str) -> Mapping[Partition, Stop]:
        """What of a topic is overtaken goes on behind the holes; returns what stood still."""
        passed = overtaken_of(topic, self.by_partition)
        for partition in passed:
            del self.by_partition[partition]
        return passed

    def take(self, heads: HeadsRead, now_ms: int) -> tuple[list[Partition], list[Partition]]:
        """Take in what a survey has found; returns the partitions that stop and that go on."""
        begun: list[Partition] = []
        for partition, first in heads.diverged.items():
            if not self.differs(partition):
                self.by_partition[partition] = Stop(StopReason.DIVERGED, first, first + 1)
                begun.append(partition)
        ended = [
            partition
            for partition, stop in self.by_partition.items()
            if _is_over(partition, stop, heads, now_ms)
        ]
        for partition in ended:
            del self.by_partition[partition]
        return begun, ended


def overtaken_of(topic: str, stops: Mapping[Partition, Stop]) -> dict[Partition, Stop]:
    """Return the partitions of a topic of which the source keeps no more what follows."""
    return {
        partition: stop
        for partition, stop in stops.items()
        if partition.topic == topic and stop.reason is StopReason.OVERTAKEN
    }


def _is_over(partition: Partition, stop: Stop, heads: HeadsRead, now_ms: int) -> bool:
    if stop.until_ms is not None:
        return now_ms >= stop.until_ms or heads.target.get(partition, -1) >= stop.first
    if stop.reason is StopReason.DIVERGED:
        return partition not in heads.diverged and partition not in heads.waiting
    if stop.unsure and heads.certain:
        return True  # where the source begins is now found out
    bare = partition not in heads.target and partition not in heads.kept
    if not stop.unsure and (bare or partition in heads.empty):
        return True
    end = heads.target.get(partition, -1) + 1
    if end >= stop.end:
        return True
    return partition in heads.source and heads.begins.get(partition, 0) <= end


class Side(Enum):
    """Which mesh an event came from or an effect is for."""

    SOURCE = "source"
    TARGET = "target"


class HeadsRead(Value, frozen=True):
    """Event: the stores said what they hold, the last sequence of each partition.

    Attributes:
        target: Of the target's stores.
        source: Of the source's; empty if none of them answered.
        diverged: Partitions of which the two hold other records under the same name, each with
            the first sequence that is known to differ.
        waiting: Partitions of which it is not known yet whether they do.
        hidden: Whether that is so because the target's stores do not show their records.
        begins: Log starts of the source, where they are above 0.
        certain: Whether no declared store of the source may keep more that the target lacks.
        empty: Partitions of which the target keeps nothing any more.
        kept: Partitions that the store which spoke for the target does not list, and another one
            keeps something of, or may: of those of which that matters.
    """

    target: Mapping[Partition, int]
    source: Mapping[Partition, int] = {}
    diverged: Mapping[Partition, int] = {}
    waiting: frozenset[Partition] = frozenset()
    hidden: bool = False
    begins: Mapping[Partition, int] = {}
    certain: bool = True
    empty: frozenset[Partition] = frozenset()
    kept: frozenset[Partition] = frozenset()


class HeadsUnread(Value, frozen=True):
    """Event: no store of the target answered."""


class Hold(Value, frozen=True):
    """Event: copy nothing more; only what is under way is still brought to its end."""


class Permit(Value, frozen=True):
    """Event: a link that was only to be ready may write from now on."""


class PassOver(Value, frozen=True):
    """Event: the operator wants a topic copied on behind what the source keeps no more."""

    topic: str


class AskHeads(Value, frozen=True):
    """Effect: ask both ends' stores for their heads; answered by one of the two events.

    What was `found` and has no position yet is asked about by name: both may have forgotten it.
    """

    found: frozenset[Partition] = frozenset()


class Held(Value, frozen=True):
    """Effect, answers `Hold`: everything that was sent, the end of each partition."""

    sent: Mapping[Partition, int]


class Hopped(Value, frozen=True):
    """Effect, for the metrics: a batch is durable at the target.

    Attributes:
        records: How many.
        size: Bytes of the batch.
        latency_ms: From its delivery at the source.
        pulled: Whether it was copied because nobody brought it, against its flags.
        sampled: The records whose senders want to see it, where that is looked for.
        internal: Whether its topic is the clusters' own, as that of heartbeats: no traffic.
    """

    records: int
    size: int
    latency_ms: int
    pulled: bool = False
    sampled: tuple[SampledRecord, ...] = ()
    internal: bool = False


class Skipped(Value, frozen=True):
    """Effect, for the metrics: these records' flags say that this level is done."""

    records: int


class Stopped(Value, frozen=True):
    """Effect, for log and metrics: a partition is not copied any more.

    Attributes:
        partition: Which.
        stop: Why, and where.
    """

    partition: Partition
    stop: Stop


class Resumed(Value, frozen=True):
    """Effect, for the log: a partition that was stopped is copied again."""

    partition: Partition


LinkEvent = Event | HeadsRead | HeadsUnread | Hold | PassOver | Permit
LinkEffect = Effect | AskHeads | Held | Hopped | Resumed | Skipped | Stopped
SidedEvent = tuple[Side, LinkEvent]
SidedEffect = tuple[Side, LinkEffect]
