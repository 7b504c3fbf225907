"""The port a store writes through, and the rules by which a log grows, whoever implements it.

Partitions of dense sequences, changed in transactions.

Contract, held by every implementation (tests/contracts/test_record_log.py):

* `append` is one transaction. When it returns, everything it was given is on disk and survives a
  power cut; when it raises, nothing of it is there. A process that dies inside it leaves all or
  nothing.
* A partition grows only at its end: a batch's sequence is the partition's head plus one, or 0.
* A partition shrinks only at its beginning, by whole batches: `trims`. What was trimmed is never
  there again; the partition remembers where it ended even if nothing of it is left.
* A partition may go on behind records that nobody has: `skips`. What lies before such a *gap* stays
  until it is trimmed, and that the gap is none of damage is on disk, too.
* What was appended is read back byte for byte, across restarts.
* `identity` is drawn once when the log is created, and never changes.
* `changes` has every partition that an append has changed, and none of an append that raised.
* A partition of which nothing is kept may be forgotten: `forgets`. It is in no list any more and
  takes no memory, also after a restart; where it ended is on disk, and found by `recall`. Whatever
  changes it brings it back, with that end. Of very many the longest forgotten leave no trace.

The time of a batch is its records' largest timestamp, and its arrival if it has none. What is kept
and searched is the running maximum over the partition, so it never goes back.
"""

from __future__ import annotations

from collections import OrderedDict
from itertools import islice, takewhile
from typing import TYPE_CHECKING, NamedTuple, Protocol

from dafka.errors import StorageError
from dafka.limits import CHANGES_MAX, TABLE_BYTES_MAX, TABLE_KEY_BYTES_MAX
from dafka.records.batch import newest_ms

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping, Sequence

    from dafka.model import Batch, Partition


class Mark(NamedTuple):
    """A moment in the history of a log.

    Attributes:
        opening: Of the log's openings, the one that it belongs to; it means nothing in another.
        changes: How many there had been.
    """

    opening: str
    changes: int


class ChangeOrder:
    """In which order the partitions of a log last changed since it was opened.

    Who has listed them all asks for what has changed since: ten thousand are a list that takes a
    store, and who reads it, some tens of milliseconds, and of these a few hundred have.

    Args:
        opening: A name that no other opening of a log on disk has.
    """

    def __init__(self, opening: str) -> None:
        self._opening = opening
        self._count = 0
        # Ordered: a plain one looks past all that has left before it finds its first.
        self._last: OrderedDict[Partition, int] = OrderedDict()
        """Of each partition the number of its last change, in this order."""
        self._untold = 0
        """The number of the last change that is not there any more."""

    @property
    def now(self) -> Mark:
        """The present moment."""
        return Mark(self._opening, self._count)

    def note(self, partitions: Iterable[Partition]) -> None:
        """These have changed."""
        for partition in partitions:
            self._count += 1
            self._last.pop(partition, None)
            self._last[partition] = self._count
        while len(self._last) > CHANGES_MAX + 1:  # more are never told, and some may be forgotten
            _, self._untold = self._last.popitem(last=False)

    def since(self, mark: Mark) -> list[tuple[Partition, Mark]] | None:
        """Return what has changed since `mark`, and up to where that has then been seen.

        Returns:
            Those that changed longest ago first; None if the mark means nothing here, or that long
            ago that it is no less work to list all.
        """
        if mark.opening != self._opening or not self._untold <= mark.changes <= self._count:
            return None
        newest_first = takewhile(lambda item: item[1] > mark.changes, reversed(self._last.items()))
        found = [
            (partition, Mark(self._opening, count))
            for partition, count in islice(newest_first, CHANGES_MAX + 1)
        ]
        found.reverse()
        return found if len(found) <= CHANGES_MAX else None


NOTHING: Mapping[Partition, int] = {}
"""No trims, no skips."""

NONE: frozenset[Partition] = frozenset()
"""Nothing to forget."""


class Extent(NamedTuple):
    """What a log has of one partition.

    Attributes:
        start: Log start: the first sequence that is kept, or the next one if none is.
        head: The last sequence; `start - 1` if nothing is kept.
        size: Bytes of the contents that are kept.
        oldest_ms: Time of the first batch that is kept.
        newest_ms: Time of the last batch there ever was.
    """

    start: int
    head: int
    size: int
    oldest_ms: int
    newest_ms: int


class Outline(NamedTuple):
    """A batch without its content, or a gap.

    Attributes:
        sequence: Of its first record.
        end: The sequence after its last one.
        size: Bytes of its content; 0 is a gap.
        newest_ms: Its time.
    """

    sequence: int
    end: int
    size: int
    newest_ms: int


class TableEntry(NamedTuple):
    """A change to a table: the new value of a key, or None to remove it."""

    table: str
    key: bytes
    value: bytes | None


class RecordLog(Protocol):
    """A durable set of partitions, and tables of keys and values beside them."""

    @property
    def identity(self) -> str:
        """The address of the store that owns this log: 32 upper-case hex digits."""

    @property
    def records(self) -> int:
        """How many records all partitions have ever had, without those that are forgotten."""

    @property
    def forgotten(self) -> int:
        """Of how many forgotten partitions it is known where they ended."""

    @property
    def changes(self) -> ChangeOrder:
        """Which partitions were appended to or trimmed since this log was opened, in order."""

    def heads(self) -> dict[Partition, int]:
        """Return the last sequence of every partition, also of those that are empty by now."""

    def extents(self) -> Mapping[Partition, Extent]:
        """Return what there is of every partition; to be read, and only until the next call."""

    def append(
        self,
        batches: Sequence[Batch],
        *,
        trims: Mapping[Partition, int] = NOTHING,
        skips: Mapping[Partition, int] = NOTHING,
        entries: Sequence[TableEntry] = (),
        forgets: Collection[Partition] = NONE,
        erases: Collection[Partition] = NONE,
    ) -> None:
        """Trim, skip, append `batches` in the order given, change tables; all or nothing.

        Args:
            batches: To be appended.
            trims: For each partition the sequence before which nothing is needed: batches that
                end there or before are dropped, and a gap that nothing lies before any more.
            skips: For each partition the sequence at which it goes on, behind a gap. One of which
                nothing is kept begins there; one that reaches as far goes on as it is.
            entries: To be put into tables, or removed.
            forgets: Partitions of which nothing is kept, and nothing else is to be changed.
            erases: The same, but not even where they ended is known afterwards.

        Raises:
            StorageError: The disk refused, or a batch does not follow its partition's head, or a
                table or key is too long, or of what is to be forgotten something is kept.
        """

    def recall(self, partitions: Iterable[Partition]) -> dict[Partition, Extent]:
        """Return how each of these ended that is forgotten; nothing of it is kept."""

    def forgotten_behind(self, number: int, count_max: int) -> list[tuple[int, Partition, Extent]]:
        """Return at most so many forgotten partitions, in the order in which they were forgotten.

        Args:
            number: Only those with a higher one; numbers are not negative, and only go up as long
                as nothing is recalled.
            count_max: How many.

        Returns:
            The number of each, and how it ended.
        """

    def read(
        self, partition: Partition, sequence: int, count_max: int, bytes_max: int
    ) -> list[Batch]:
        """Return batches from the one that holds `sequence` on, in order.

        Whole batches, as they were appended, so the first may begin below `sequence`. At most as
        many as begin below `sequence + count_max` and as fit into `bytes_max`, but at least one
        if `sequence` is there at all; none if it is not. They are consecutive: in a gap the first
        is the one behind it, and before a gap they end.
        """

    def outlines(self, partition: Partition, sequence: int, count_max: int) -> list[Outline]:
        """Return at most `count_max` batches and gaps from the one that holds `sequence` on."""

    def find(self, partition: Partition, timestamp_ms: int) -> int | None:
        """Return the first sequence of the first batch whose time is `timestamp_ms` or later.

        The first record as late as that is in this batch. None if there is no such batch.
        """

    def get(self, table: str, key: bytes) -> bytes | None:
        """Return the value of `key`, None if there is none."""

    def scan(
        self, table: str, prefix: bytes, count_max: int, after: bytes | None = None
    ) -> list[tuple[bytes, bytes]]:
        """Return keys that begin with `prefix`, and their values, in the order of the keys.

        At most `count_max`, only those behind `after`.
        """

    def commit(self) -> None:
        """Finish what appends have left for a quiet moment; nothing that can be seen changes."""

    def close(self) -> None:
        """Release the log. Nothing may be called after it."""


def extent_of(log: RecordLog, partition: Partition) -> Extent | None:
    """Return what there is of a partition, also of one that is forgotten; None if there never was.

    Raises:
        StorageError: The disk refused.
    """
    return log.extents().get(partition) or log.recall((partition,)).get(partition)


def beside(log: RecordLog, batch: Batch, bytes_max: int) -> list[Batch]:
    """Return what a log has of the records of `batch`, and the batch before them.

    Raises:
        StorageError: The disk refused.
    """
    extent = log.extents().get(batch.partition)
    if extent is None:
        return []
    first = max(extent.start, batch.sequence - 1)
    return log.read(batch.partition, first, batch.end - first, bytes_max)


def goes_on(extent: Extent, sequence: int, batches: Sequence[Batch]) -> int | None:
    """Where what is kept goes on if `sequence` is not: behind a gap, or at the log start.

    Args:
        extent: The partition's.
        sequence: What was asked for, at most the head.
        batches: What `RecordLog.read` has found from there on.

    Returns:
        None if it is kept.
    """
    if batches:
        return batches[0].sequence if batches[0].sequence > sequence else None
    return extent.start if sequence < extent.start else extent.head + 1


def heads_after(heads: Mapping[Partition, int], batches: Sequence[Batch]) -> dict[Partition, int]:
    """Return the new head of every partition that `batches` extend.

    Raises:
        StorageError: A batch does not follow its partition's head.
    """
    grown: dict[Partition, int] = {}
    for batch in batches:
        partition = batch.partition
        head = grown[partition] if partition in grown else heads.get(partition, -1)
        grown[partition] = _followed(head, batch)
    return grown


def _followed(head: int, batch: Batch) -> int:
    """Return the head of a partition behind a batch that has to follow the one before."""
    assert batch.count >= 1
    if batch.sequence != head + 1:
        partition = batch.partition
        raise StorageError(
            f'cannot append to partition "{partition.topic}/{partition.address}": '
            f"sequence {batch.sequence} follows {head}"
        )
    return head + batch.count


def checked(
    extents: Mapping[Partition, Extent],
    batches: Sequence[Batch],
    skips: Mapping[Partition, int],
    entries: Sequence[TableEntry],
    gone: Collection[Partition] = NONE,
) -> None:
    """See that batches follow their partitions' heads, entries fit, nothing kept is given up.

    Raises:
        StorageError: One does not.
    """
    heads: dict[Partition, int] = {}
    for partition, sequence in skips.items():
        known = extents.get(partition)
        heads[partition] = max(known.head if known else -1, sequence - 1)
    for batch in batches:
        partition = batch.partition
        if partition in heads:
            head = heads[partition]
        else:
            known = extents.get(partition)
            head = known.head if known else -1
        heads[partition] = _followed(head, batch)
    for partition in gone:
        known = extents.get(partition)
        if known is None or known.start <= known.head or partition in heads:
            raise StorageError(
                f'cannot forget partition "{partition.topic}/{partition.address}": it is not empty'
            )
    for entry in entries:
        if len(entry.table.encode()) > TABLE_BYTES_MAX or len(entry.key) > TABLE_KEY_BYTES_MAX:
            raise StorageError(
                f"cannot put a key of {len(entry.key)} bytes into table {entry.table!r}: "
                f"names have at most {TABLE_BYTES_MAX} bytes, keys {TABLE_KEY_BYTES_MAX}"
            )


def extended(known: Extent | None, batch: Batch, arrival_ms: int) -> Extent:
    """Return a partition's extent after `batch`."""
    time_ms = newest_ms(batch.content)
    if time_ms is None:
        time_ms = arrival_ms
    size = len(batch.content)
    if known is None:
        return Extent(batch.sequence, batch.end - 1, size, time_ms, time_ms)
    start, head, before, oldest_ms, last_ms = known
    time_ms = max(time_ms, last_ms)
    if start > head:
        oldest_ms = time_ms
    return Extent(start, batch.end - 1, before + size, oldest_ms, time_ms)


def emptied(end: int, newest_ms: int) -> Extent:
    """Return the extent of a partition of which nothing is kept."""
    return Extent(end, end - 1, 0, newest_ms, newest_ms)


def skipped(known: Extent | None, sequence: int) -> Extent:
    """Return a partition's extent when it has gone on at `sequence`, above its head."""
    if known is None or known.start > known.head:
        newest_ms = 0 if known is None else known.newest_ms
        return emptied(sequence, newest_ms)
    return known._replace(head=sequence - 1)
