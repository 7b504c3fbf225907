"""Everything that can happen to a machine."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from dafka.model import Batch, Partition
    from dafka.wire.messages import Message, MessageId


@dataclass(frozen=True, slots=True)
class Received:
    """A message arrived from a peer."""

    message: Message


@dataclass(frozen=True, slots=True)
class PeerListened:
    """A peer subscribed to this node's messages of `id` under `key`."""

    id: MessageId
    key: str


@dataclass(frozen=True, slots=True)
class Woke:
    """Time has passed: a `wakeup_ms` has come, or the node just started."""


@dataclass(frozen=True, slots=True)
class TurnEnded:
    """The node has handed over everything that had arrived; what was collected may be flushed."""


@dataclass(frozen=True, slots=True)
class Submitted:
    """Producer: the application hands over a built record batch, without envelope."""

    topic: str
    count: int
    records: bytes


@dataclass(frozen=True, slots=True)
class Mirrored:
    """Mirror: publish this batch of another cluster's partition here, under its own name."""

    batch: Batch


@dataclass(frozen=True, slots=True)
class Positioned:
    """Consumer: deliver `partition` from `sequence` on, whatever was delivered before."""

    partition: Partition
    sequence: int


@dataclass(frozen=True, slots=True)
class Unassigned:
    """Consumer: deliver nothing more of `partition` until it is positioned again."""

    partition: Partition


@dataclass(frozen=True, slots=True)
class Drained:
    """Consumer: the application has taken delivered batches of this many bytes."""

    size: int


@dataclass(frozen=True, slots=True)
class Appended:
    """Store, producer with a spool: the append with this token is durable."""

    token: int


@dataclass(frozen=True, slots=True)
class AppendFailed:
    """Store, producer with a spool: this append did not happen; nothing of it is on disk."""

    token: int


@dataclass(frozen=True, slots=True)
class RangeRead:
    """Store: the batches a `ReadRange` asked for.

    None if the log starts behind them by now, or, with a start of 0, if the disk failed.
    """

    requester: str
    partition: Partition
    batches: tuple[Batch, ...]
    start: int
    """The log start."""


@dataclass(frozen=True, slots=True)
class Compared:
    """Store: what the log has of the records that were to be compared, and the batch before."""

    batch: Batch
    held: tuple[Batch, ...]


Event = (
    Received
    | PeerListened
    | Woke
    | TurnEnded
    | Submitted
    | Mirrored
    | Positioned
    | Unassigned
    | Drained
    | Appended
    | AppendFailed
    | RangeRead
    | Compared
)
