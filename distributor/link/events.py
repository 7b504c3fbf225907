"""What a link is told and what it asks for, beside the events and effects of `dafka.protocol`."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum
from typing import TYPE_CHECKING

from dafka.model import Value
from dafka.protocol.effects import Effect
from dafka.protocol.events import Event

if TYPE_CHECKING:
    from collections.abc import Mapping

    from dafka.model import Partition
    from distributor.link.stops import Stop


class Side(Enum):
    """Which mesh an event came from or an effect is for."""

    SOURCE = "source"
    TARGET = "target"


@dataclass(frozen=True, slots=True)
class HeadsRead:
    """Event: the stores said what they hold, the last sequence of each partition.

    Attributes:
        target: Of the target's stores.
        source: Of the source's; empty if none of them answered.
        diverged: Partitions of which the two hold other records under the same name, each with
            the first sequence that is known to differ.
        waiting: Partitions of which it is not known yet whether they do.
        begins: Log starts of the source, where they are above 0.
        empty: Partitions of which the target keeps nothing any more.
    """

    target: Mapping[Partition, int]
    source: Mapping[Partition, int] = field(default_factory=dict)
    diverged: Mapping[Partition, int] = field(default_factory=dict)
    waiting: frozenset[Partition] = frozenset()
    begins: Mapping[Partition, int] = field(default_factory=dict)
    empty: frozenset[Partition] = frozenset()


@dataclass(frozen=True, slots=True)
class HeadsUnread:
    """Event: no store of the target answered."""


@dataclass(frozen=True, slots=True)
class Hold:
    """Event: copy nothing more; only what is under way is still brought to its end."""


@dataclass(frozen=True, slots=True)
class AskHeads:
    """Effect: ask both ends' stores for their heads; answered by one of the two events."""


@dataclass(frozen=True, slots=True)
class Held:
    """Effect, answers `Hold`: everything that was sent, the end of each partition."""

    sent: Mapping[Partition, int]


class Hopped(Value, frozen=True):
    """Effect, for the metrics: a batch is durable at the target.

    Attributes:
        records: How many.
        size: Bytes of the batch.
        latency_ms: From its delivery at the source.
        pulled: Whether it was copied because nobody brought it, against its flags.
    """

    records: int
    size: int
    latency_ms: int
    pulled: bool = False


class Skipped(Value, frozen=True):
    """Effect, for the metrics: these records' flags say that this level is done."""

    records: int


@dataclass(frozen=True, slots=True)
class Stopped:
    """Effect, for log and metrics: a partition is not copied any more.

    Attributes:
        partition: Which.
        stop: Why, and where.
    """

    partition: Partition
    stop: Stop


@dataclass(frozen=True, slots=True)
class Resumed:
    """Effect, for the log: a partition that was stopped is copied again."""

    partition: Partition


LinkEvent = Event | HeadsRead | HeadsUnread | Hold
LinkEffect = Effect | AskHeads | Held | Hopped | Resumed | Skipped | Stopped
Sided = tuple[Side, LinkEffect]
