"""Everything that can happen to a machine."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dafka.model import Value

if TYPE_CHECKING:
    from collections.abc import Mapping

    from dafka.model import Batch, Partition
    from dafka.protocol.keeping import Keeping
    from dafka.records.batch import Built
    from dafka.wire.messages import Message, MessageId, OfPartition


class Received(Value, frozen=True):
    """A message arrived from a peer."""

    message: Message


class ReceivedTogether(Value, frozen=True):
    """Several messages of one kind arrived at once, in this order: as if each had by itself.

    Of ten thousand partitions there are many, and little is done for each.
    """

    messages: tuple[Message, ...]


class PeerListened(Value, frozen=True):
    """A peer subscribed to this node's messages of `id` under `key`."""

    id: MessageId
    key: str


class PeerLeft(Value, frozen=True):
    """The connection to a peer is gone, or somebody else is where it was.

    What it has said may hold no more: a store may come back without its disk, and as another.
    """

    address: str


class Woke(Value, frozen=True):
    """Time has passed: a `wakeup_ms` has come, or the node just started."""


class TurnEnded(Value, frozen=True):
    """The node has handed over everything that had arrived; what was collected may be flushed."""


class Submitted(Value, frozen=True):
    """Producer: the application hands over a built record batch, without envelope."""

    topic: str
    count: int
    records: Built


class Mirrored(Value, frozen=True):
    """Mirror: publish this batch of another cluster's partition here, under its own name."""

    batch: Batch


class Seek(Value, frozen=True):
    """Consumer: deliver `partition` from `sequence` on, whatever was delivered before."""

    partition: Partition
    sequence: int


class Unassigned(Value, frozen=True):
    """Consumer: deliver nothing more of `partition` until it is positioned again."""

    partition: Partition


class Consumed(Value, frozen=True):
    """Consumer: the application has taken delivered batches of this many bytes."""

    size: int


class Appended(Value, frozen=True):
    """Store, producer with a spool: the append with this token is durable."""

    token: int


class AppendFailed(Value, frozen=True):
    """Store, producer with a spool: this append did not happen; nothing of it is on disk."""

    token: int


class RangeRead(Value, frozen=True):
    """Store: the batches a `ReadRange` asked for; none if the disk failed."""

    requester: str
    partition: Partition
    batches: tuple[Batch, ...]
    skipped_to: int | None = None
    """If what was asked for is not kept, or lies in a gap: the first sequence behind it that is, or
    comes next."""
    alone_end: int | None = None
    """See `ReadRange`."""

    def is_all(self, durable: int) -> bool:
        """Whether the batches show that nothing more was asked for, or is there.

        Where others answer, too, they do not show whose they are.
        """
        if self.alone_end is None or not self.batches:
            return False
        end = self.batches[-1].end
        return end >= self.alone_end and end > durable


class Recalled(Value, frozen=True):
    """Store: messages, and the ends of those of their partitions that the log has forgotten."""

    messages: tuple[OfPartition, ...]
    ends: Mapping[Partition, int]


class Emptied(Value, frozen=True):
    """Store: of these partitions nothing is kept, and nothing has been for a while."""

    partitions: tuple[Partition, ...]


class PartitionsForgotten(Value, frozen=True):
    """Store: of these the log knows no more than where they ended."""

    partitions: tuple[Partition, ...]


class PartitionsEnded(Value, frozen=True):
    """Store: who has seen all stores says that of these nobody keeps anything, and their ends."""

    ends: tuple[tuple[Partition, int], ...]


class Compared(Value, frozen=True):
    """Store: what the log has of the records that were to be compared, and the batch before."""

    batch: Batch
    held: tuple[Batch, ...]


class HoleSkipped(Value, frozen=True):
    """Store: the operator says that nobody has what lacks of a partition below `end`."""

    partition: Partition
    end: int


class SlotsMoved(Value, frozen=True):
    """Store: it does this with slots from now on, and that is on its disk."""

    keeping: Keeping


Event = (
    Received
    | ReceivedTogether
    | PeerListened
    | PeerLeft
    | Woke
    | TurnEnded
    | Submitted
    | Mirrored
    | Seek
    | Unassigned
    | Consumed
    | Appended
    | AppendFailed
    | HoleSkipped
    | RangeRead
    | Recalled
    | Emptied
    | PartitionsForgotten
    | PartitionsEnded
    | SlotsMoved
    | Compared
)
