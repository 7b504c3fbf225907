"""What a log has, and where it lies: tables in LMDB, behind the segments by what is not committed.

Each change is planned from what is there, and done in a transaction that stays open. A crash takes
it, and the segments say it again: through the same plan, so with the same result. Where that begins
is committed with the rest.
"""

from __future__ import annotations

import os
from collections import ChainMap
from dataclasses import dataclass, field
from itertools import count
from typing import TYPE_CHECKING, NamedTuple

from dafka.storage import rows
from dafka.storage.environment import sealed
from dafka.storage.forgotten_table import TABLES as FORGOTTEN_TABLES
from dafka.storage.forgotten_table import ForgottenTable, PartitionEnd
from dafka.storage.log import ChangeOrder, Extent, checked, emptied, extended, skipped
from dafka.storage.rows import (
    BATCHES,
    ENTRIES,
    PARTITIONS,
    SEGMENTS,
    STANDPOINT,
    Content,
    SegmentUse,
    Standpoint,
)
from dafka.storage.segment import MARK_BYTES, ContentHead
from dafka.storage.segment_files import FreedRange

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence

    import lmdb

    from dafka.model import Batch, Partition
    from dafka.storage.environment import Environment
    from dafka.storage.log import TableEntry
    from dafka.storage.segment import Span

_UNCHECKED = b"tables"
"""What `entries` was up to format 3."""

WAITING_MAX = 4_096
"""Rows that wait to be put into their tables together: a megabyte at most."""

TABLES = PARTITIONS, BATCHES, ENTRIES, SEGMENTS, _UNCHECKED, *FORGOTTEN_TABLES


class LogChange(NamedTuple):
    """What an `append` is to do; see `RecordLog.append`."""

    batches: Sequence[Batch]
    trims: Mapping[Partition, int]
    skips: Mapping[Partition, int]
    entries: Sequence[TableEntry]
    forgets: Collection[Partition]
    arrival_ms: int
    erases: Collection[Partition] = ()

    @property
    def gone(self) -> list[Partition]:
        """Partitions that are in no list any more."""
        return [*self.forgets, *self.erases]

    @property
    def only_grows(self) -> bool:
        """Whether it takes nothing away, and is of partitions alone."""
        return not (self.trims or self.entries or self.forgets or self.erases)


@dataclass(slots=True)
class IndexPlan:
    """What a change comes to.

    Attributes:
        of: The change.
        changed: What there is then of the partitions that it changes.
        numbers: Theirs, and perhaps those of others.
        named: Those that got a number by it, and which.
        recalled: Those that were forgotten.
        dropped: The rows of batches that go.
        gaps: The rows of gaps that come: partition, first sequence, value.
        times: Of each batch.
        heads: What stands before their contents.
    """

    of: LogChange
    changed: dict[Partition, Extent]
    numbers: Mapping[Partition, int] = field(default_factory=dict)
    named: dict[Partition, int] = field(default_factory=dict)
    recalled: list[Partition] = field(default_factory=list)
    dropped: list[tuple[bytes, bytes]] = field(default_factory=list)
    gaps: list[tuple[Partition, int, bytes]] = field(default_factory=list)
    times: list[int] = field(default_factory=list)
    heads: list[ContentHead] = field(default_factory=list)


class LogIndex:
    """The tables of one log, and what of them is in memory.

    The rows of what comes wait there until they are read, or many: a table takes many at once for
    less, and of a partition that goes on growing only how it stands then.

    Args:
        environment: Has `TABLES`; written through this alone.
        changes: Told of all that is changed.
        forgotten_max: Of how many partitions that are forgotten it remembers where they ended.
    """

    def __init__(self, environment: Environment, changes: ChangeOrder, forgotten_max: int) -> None:
        self._environment = environment
        self.changes = changes
        self._table = ForgottenTable(environment, forgotten_max)
        self.extents: dict[Partition, Extent] = {}
        """What there is of every partition."""
        self.records = 0
        """How many records they have ever had. Kept, because stores are asked for it all the time:
        of ten thousand partitions a sum is most of a millisecond."""
        self.used: dict[int, SegmentUse] = {}
        """What of each segment is of use."""
        self.holes: list[FreedRange] = []
        """What is of no use any more since the last commit."""
        self._numbers: dict[Partition, int] = {}
        self._touched: set[int] = set()
        """Segments whose rows have to be written."""
        self._waiting: dict[bytes, bytes] = {}
        """Rows of batches and gaps that have to be."""
        self._grown: set[Partition] = set()
        """Partitions whose rows have to be."""

    def stands(self) -> bool:
        """Whether there ever was a commit; of a format of before there was none.

        Raises:
            StorageError: The disk refused.
        """
        with self._environment.reading("open") as transaction:
            table = self._environment.table(SEGMENTS)
            return transaction.get(STANDPOINT, db=table) is not None

    def load(self) -> Standpoint:
        """Know what is in the tables; returns up to where that goes.

        Raises:
            StorageError: The disk refused, or a row is not what was written.
        """
        self._seal_what_is_not()
        self.extents.clear()  # whoever has them keeps them
        self._numbers, self.used = {}, {}
        self.holes, self._touched = [], set()
        self._waiting, self._grown = {}, set()
        with self._environment.reading("open") as transaction:
            for key, value in transaction.cursor(self._environment.table(PARTITIONS)):
                standing = self._environment.unsealed("open", key, value)
                partition, number, extent = rows.partition_row(key, standing)
                self.extents[partition] = extent
                self._numbers[partition] = number
            standpoint = None
            for key, value in transaction.cursor(self._environment.table(SEGMENTS)):
                row = self._environment.unsealed("open", key, value)
                if key == STANDPOINT:
                    standpoint = Standpoint.of(row)
                else:
                    self.used[rows.segment_number(key)] = SegmentUse.of(row)
        self.following = max(self._numbers.values(), default=-1) + 1
        """The number of the next partition; of one that is forgotten there are no batches."""
        self.records = sum(extent.head + 1 for extent in self.extents.values())
        if standpoint is None:  # new, or of a format of before
            standpoint = Standpoint(os.urandom(MARK_BYTES), 1, 0, 1, self.following)
            while not self.commit(standpoint):
                pass
        self.following = standpoint.following
        return standpoint

    def commit(self, standpoint: Standpoint) -> bool:
        """Have on the disk what was changed, and up to where that goes.

        Returns:
            Whether there was enough room in the map. If not there is now, and all since the last
            commit is lost; so it is with errors.

        Raises:
            StorageError: The disk refused.
        """
        empty = self.emptied(standpoint.segment)
        if not self.write():
            return False

        def work(transaction: lmdb.Transaction[bytes]) -> None:
            table = self._environment.table(SEGMENTS)
            for number in self._touched | {*empty}:
                key = rows.segment_key(number)
                if number in empty:
                    transaction.delete(key, db=table)
                else:
                    transaction.put(key, sealed(key, self.used[number].packed()), db=table)
            transaction.put(STANDPOINT, sealed(STANDPOINT, standpoint.packed()), db=table)

        if not (self._environment.change("commit", work) and self._environment.commit("commit")):
            return False
        self._touched.clear()
        return True

    def emptied(self, segment: int) -> list[int]:
        """Return which segments before one are of no use."""
        return [one for one, use in self.used.items() if not use.kept and one < segment]

    def settled(self, segment: int) -> tuple[list[int], list[FreedRange]]:
        """Take what is of no use any more after a commit: segments before one, ranges in others."""
        gone = self.emptied(segment)
        for number in gone:
            del self.used[number]
        holes = [hole for hole in self.holes if hole.segment in self.used]
        self.holes = []
        return gone, holes

    def named(self) -> dict[int, Partition]:
        """Return the partitions by their numbers."""
        return {number: partition for partition, number in self._numbers.items()}

    def number_of(self, partition: Partition) -> int:
        """Return a partition's number."""
        return self._numbers[partition]

    def forgotten(self) -> int:
        """Of how many forgotten partitions it is known where they ended.

        Raises:
            StorageError: The disk refused.
        """
        return self._table.count()

    def recall(self, partitions: Iterable[Partition]) -> dict[Partition, Extent]:
        """Return how each of these ended that is forgotten; see `RecordLog.recall`.

        Raises:
            StorageError: The disk refused.
        """
        places = {rows.partition_key(one): one for one in partitions if one not in self.extents}
        found = self._table.find(places) if places else {}
        return {places[place]: emptied(*ended) for place, ended in found.items()}

    def forgotten_behind(
        self, number: int, count_max: int
    ) -> list[tuple[int, bytes, PartitionEnd]]:
        """Return so many of those that are forgotten, with their keys; see `ForgottenTable`.

        Raises:
            StorageError: The disk refused.
        """
        return self._table.behind(number, count_max)

    def plan(self, change: LogChange) -> IndexPlan:
        """Return what a change comes to; nothing is changed yet.

        Raises:
            StorageError: It cannot be done, or the disk refused.
        """
        batches, trims, skips, entries, *_ = change
        # In their order, so that new numbers are the same when this is done again.
        recalled = self.recall(dict.fromkeys([*trims, *skips, *(one.partition for one in batches)]))
        known = self.extents | recalled if recalled else self.extents
        checked(known, batches, skips, entries, change.gone)
        plan = IndexPlan(change, dict(recalled), recalled=list(recalled))
        if trims:
            self._trim(plan, known)
        self._skip(plan)
        self._grow(plan)
        new = [one for one in plan.changed if one not in self._numbers]
        plan.named = dict(zip(new, count(self.following), strict=False))
        plan.numbers = ChainMap(plan.named, self._numbers) if new else self._numbers
        plan.heads = [
            ContentHead(plan.numbers[one.partition], one.sequence, one.count, len(one.content))
            for one in batches
        ]
        return plan

    def write(self) -> bool:
        """Have in the tables what waits for it, before they are read.

        Returns:
            As `commit`.

        Raises:
            StorageError: The disk refused.
        """
        if not (self._waiting or self._grown):
            return True
        return self._environment.change("append to", self._put_waiting)

    def perform(self, plan: IndexPlan, segment: int, spans: Sequence[Span]) -> bool:
        """Do what is planned.

        Args:
            plan: Made of what there is now.
            segment: Where the change stands.
            spans: Where the contents of its batches lie in there.

        Returns:
            As `commit`.

        Raises:
            StorageError: The disk refused.
        """
        ended = {rows.partition_key(one): self._ended(one) for one in plan.of.forgets}
        places = [rows.partition_key(one) for one in plan.recalled]
        self._take_in(plan)
        self._wait(plan, segment, spans)
        self._use(segment, spans)
        self._drop(row for _, row in plan.dropped)
        if plan.of.only_grows and not places and len(self._waiting) < WAITING_MAX:
            return True

        def work(transaction: lmdb.Transaction[bytes]) -> None:
            self._put_waiting(transaction)
            table = self._environment.table(BATCHES)
            for key, _ in plan.dropped:
                transaction.delete(key, db=table)
            table = self._environment.table(PARTITIONS)
            for partition in plan.of.gone:
                transaction.delete(rows.partition_key(partition), db=table)
            self._table.change(transaction, places, ended)
            self._put(transaction, plan.of.entries)

        return self._environment.change("append to", work)

    def move(self, moved: Mapping[bytes, bytes], segment: int, spans: Sequence[Span]) -> bool:
        """Know that contents lie somewhere else now.

        Args:
            moved: Rows of batches as they are, by their keys.
            segment: Where the contents lie now.
            spans: And in there, in this order.

        Returns:
            As `commit`.

        Raises:
            StorageError: The disk refused.
        """

        def work(transaction: lmdb.Transaction[bytes]) -> None:
            table = self._environment.table(BATCHES)
            for (key, row), span in zip(moved.items(), spans, strict=True):
                transaction.put(key, rows.moved_row(row, segment, span), db=table)

        if not self._environment.change("compact", work):
            return False
        self._use(segment, spans)
        self._drop(moved.values())
        return True

    def batches(self, partition: Partition, sequence: int) -> Iterator[tuple[int, bytes]]:
        """Yield the rows of a partition from the one that holds `sequence` on, with their firsts.

        Raises:
            StorageError: The disk refused.
        """
        with (
            self._environment.reading() as transaction,
            transaction.cursor(self._environment.table(BATCHES)) as cursor,
        ):
            yield from _from(cursor, self._numbers[partition], sequence)

    def rows_in(
        self, segments: Collection[int], after: bytes, bytes_max: int
    ) -> tuple[dict[bytes, bytes], bytes | None]:
        """Return rows of batches whose contents lie in some segments, and where to go on.

        Args:
            segments: Which.
            after: The key behind which to look.
            bytes_max: Of contents; the last one may go beyond.

        Raises:
            StorageError: The disk refused.
        """
        found: dict[bytes, bytes] = {}
        size = 0
        with (
            self._environment.reading() as transaction,
            transaction.cursor(self._environment.table(BATCHES)) as cursor,
        ):
            there = cursor.set_range(after + b"\0")
            while there:
                key, row = cursor.item()
                content = rows.content_of(row)
                if isinstance(content, Content) and content.segment in segments:
                    found[key] = row
                    size += content.span.size
                    if size >= bytes_max:
                        return found, key
                there = cursor.next()
        return found, None

    def _ended(self, partition: Partition) -> PartitionEnd:
        extent = self.extents[partition]
        return PartitionEnd(extent.head + 1, extent.newest_ms)

    def _seal_what_is_not(self) -> None:
        """Give the rows of earlier versions their checksums."""
        partitions, entries = (self._environment.table(one) for one in (PARTITIONS, ENTRIES))
        unchecked = self._environment.table(_UNCHECKED)
        with self._environment.reading("open") as transaction:
            bare = {
                (key, partitions): value
                for key, value in transaction.cursor(partitions)
                if len(value) == rows.UNSEALED_BYTES
            }
            for key, value in transaction.cursor(unchecked):
                bare[key, entries] = value
        if not bare:
            return

        def work(transaction: lmdb.Transaction[bytes]) -> None:
            for (key, table), value in bare.items():
                transaction.put(key, sealed(key, value), db=table)
            transaction.drop(unchecked, delete=False)

        self._environment.write("open", work)

    def _put_waiting(self, transaction: lmdb.Transaction[bytes]) -> None:
        with transaction.cursor(self._environment.table(BATCHES)) as cursor:
            cursor.putmulti(self._waiting.items(), overwrite=False)
        table = self._environment.table(PARTITIONS)
        for partition in self._grown:
            place = rows.partition_key(partition)
            standing = rows.partition_standing(self._numbers[partition], self.extents[partition])
            transaction.put(place, sealed(place, standing), db=table)
        self._waiting, self._grown = {}, set()

    def _put(self, transaction: lmdb.Transaction[bytes], entries: Iterable[TableEntry]) -> None:
        table = self._environment.table(ENTRIES)
        for name, key, new in entries:
            place = rows.table_key(name, key)
            if new is None:
                transaction.delete(place, db=table)
            else:
                transaction.put(place, sealed(place, new), db=table)

    def _take_in(self, plan: IndexPlan) -> None:
        """Know what is in the tables now."""
        for partition, extent in plan.changed.items():
            before = self.extents.get(partition)
            self.records += extent.head - (before.head if before else -1)
        self.extents.update(plan.changed)
        self._numbers.update(plan.named)
        self.following += len(plan.named)
        self._grown |= plan.changed.keys()
        for partition in plan.of.gone:
            self.records -= self.extents.pop(partition).head + 1
            del self._numbers[partition]
            self._grown.discard(partition)
        self.changes.note([*plan.changed, *plan.of.gone])

    def _wait(self, plan: IndexPlan, segment: int, spans: Sequence[Span]) -> None:
        """Have the rows of what comes among those that wait."""
        for partition, first, row in plan.gaps:
            self._waiting[rows.batch_key(plan.numbers[partition], first)] = row
        for head, time_ms, span in zip(plan.heads, plan.times, spans, strict=True):
            key = rows.batch_key(head.partition, head.sequence)
            self._waiting[key] = rows.batch_row(head.records, time_ms, segment, span)

    def _use(self, segment: int, spans: Sequence[Span]) -> None:
        use = self.used.get(segment, SegmentUse(0, 0))
        if spans:  # one begins where the other ends
            use = SegmentUse(use.kept + spans[-1].end - spans[0].start, spans[-1].end)
        self.used[segment] = use
        self._touched.add(segment)

    def _drop(self, dropped: Iterable[bytes]) -> None:
        for row in dropped:
            content = rows.content_of(row)
            if isinstance(content, Content):
                segment, (start, at, size) = content
                use = self.used[segment]
                self.used[segment] = use._replace(kept=use.kept - (at + size - start))
                self._touched.add(segment)
                self.holes.append(FreedRange(segment, start, at + size))

    def _grow(self, plan: IndexPlan) -> None:
        """Bring a plan up to date with its batches."""
        changed, extents, arrival_ms = plan.changed, self.extents, plan.of.arrival_ms
        for batch in plan.of.batches:
            partition = batch.partition
            known = changed.get(partition) or extents.get(partition)
            changed[partition] = extent = extended(known, batch, arrival_ms)
            plan.times.append(extent.newest_ms)

    def _trim(self, plan: IndexPlan, known: Mapping[Partition, Extent]) -> None:
        """Bring a plan up to date with its trims: a pass of retention has one of each partition."""
        with (
            self._environment.reading() as transaction,
            transaction.cursor(self._environment.table(BATCHES)) as cursor,
        ):
            for partition, sequence in plan.of.trims.items():
                extent = known.get(partition, Extent(0, -1, 0, 0, 0))
                if extent.start <= extent.head:
                    number = self._numbers[partition]
                    extent = _trimmed(cursor, number, extent, sequence, plan.dropped)
                plan.changed[partition] = extent

    def _skip(self, plan: IndexPlan) -> None:
        """Bring a plan up to date with its skips."""
        for partition, sequence in plan.of.skips.items():
            known = plan.changed.get(partition) or self.extents.get(partition)
            head = -1 if known is None else known.head
            if sequence <= head + 1:
                continue
            plan.changed[partition] = extent = skipped(known, sequence)
            if extent.start <= head:
                row = rows.gap_row(extent.newest_ms, sequence)
                plan.gaps.append((partition, head + 1, row))


def _from(cursor: lmdb.Cursor[bytes], number: int, sequence: int) -> Iterator[tuple[int, bytes]]:
    """Yield the batches of a partition from the one that holds `sequence` on."""
    key = rows.batch_key(number, sequence)
    there = cursor.set_range(key)
    if not there or cursor.key() != key:
        # `sequence` stands inside a batch, the one before; it is there, the heads say so.
        there = cursor.prev() if there else cursor.last()
    while there:
        found_number, first = rows.batch_place(cursor.key())
        if found_number != number:
            return
        yield first, cursor.value()
        there = cursor.next()


def _trimmed(
    cursor: lmdb.Cursor[bytes],
    number: int,
    extent: Extent,
    sequence: int,
    dropped: list[tuple[bytes, bytes]],
) -> Extent:
    """The extent of what is kept behind `sequence`; adds the batches that go to `dropped`."""
    size = extent.size
    for first, row in _from(cursor, number, extent.start):
        outline = rows.outline_of(first, row)
        if outline.end > sequence and outline.size:
            return Extent(first, extent.head, size, outline.newest_ms, extent.newest_ms)
        size -= outline.size
        dropped.append((rows.batch_key(number, first), row))
    return emptied(extent.head + 1, extent.newest_ms)
