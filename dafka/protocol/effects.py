"""Everything a machine can ask of its node."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dafka.model import Value

if TYPE_CHECKING:
    from dafka.model import Batch, Partition
    from dafka.reasons import Reason
    from dafka.wire.messages import Message, MessageId, OfPartition


class Publish(Value, frozen=True):
    """Send a message to every peer that listens for it."""

    message: Message


class Listen(Value, frozen=True):
    """Subscribe to messages of `id` under `key`; the empty key means every key."""

    id: MessageId
    key: str


class Unlisten(Value, frozen=True):
    """Take back what `Listen` with the same id and key asked for."""

    id: MessageId
    key: str


class Append(Value, frozen=True):
    """Store, producer with a spool: write these batches in one durable transaction.

    To be completed by `Appended(token)` or `AppendFailed(token)`.
    """

    token: int
    batches: tuple[Batch, ...]
    skips: tuple[tuple[Partition, int], ...] = ()
    """Store: partitions to go on at a sequence, before the batches; see `RecordLog.append`."""


class ReadRange(Value, frozen=True):
    """Store: read batches for a requester, which may be itself, then report `RangeRead`."""

    requester: str
    partition: Partition
    sequence: int
    count_max: int
    bytes_max: int
    alone_end: int | None = None
    """Sequence behind what this store was asked for alone; None if others may answer, too."""


class Recall(Value, frozen=True):
    """Store: look up how the partitions that these are about ended, should they be forgotten."""

    messages: tuple[OfPartition, ...]


class Forget(Value, frozen=True):
    """Store: write that these are forgotten, then report `PartitionsForgotten`.

    If the disk refuses, nothing is reported, and they stay.
    """

    partitions: tuple[Partition, ...]


class Remember(Value, frozen=True):
    """Store: write of these where they ended, as if they were forgotten; then as `Forget`."""

    ends: tuple[tuple[Partition, int], ...]


class Compare(Value, frozen=True):
    """Store: read what the log has of these records, and the batch before; then `Compared`."""

    batch: Batch


class Disputed(Value, frozen=True):
    """Store, producer: two producers publish under one address.

    There are other records under one sequence, or two lives of a producer in turn.
    """

    partition: Partition
    sequence: int


class HoleFound(Value, frozen=True):
    """Producer: it is asked again and again for what it has no more, and nothing is stored.

    Attributes:
        partition: Of which.
        expected: The sequence that is asked for.
        kept: The first that it still has.
    """

    partition: Partition
    expected: int
    kept: int


class Deliver(Value, frozen=True):
    """Consumer: the next records of a partition; those below `start` were delivered before."""

    batch: Batch
    start: int


class Lost(Value, frozen=True):
    """Nobody has the records from `start` to below `end` any more; the partition goes on at `end`.

    From 0 on they are not lost to whoever has only begun: that is where the log starts by now.
    """

    partition: Partition
    start: int
    end: int


class PartitionFound(Value, frozen=True):
    """Consumer: a partition it has no position for; it waits for `Positioned`."""

    partition: Partition
    latest: int = 0
    """Behind what there was of it when it was found."""


class Stored(Value, frozen=True):
    """Producer or mirror: enough stores have every record of the partition below `end`."""

    partition: Partition
    end: int
    size: int
    """Bytes of batches that this freed."""


class Wanted(Value, frozen=True):
    """Mirror: somebody asks for records of a partition that the mirror does not hold any more."""

    partition: Partition
    sequence: int


class Dropped(Value, frozen=True):
    """Something a peer sent was not used; counted by reason."""

    reason: Reason


Effect = (
    Publish
    | Listen
    | Unlisten
    | Append
    | ReadRange
    | Recall
    | Forget
    | Remember
    | Compare
    | Disputed
    | HoleFound
    | Deliver
    | Lost
    | PartitionFound
    | Stored
    | Wanted
    | Dropped
)
