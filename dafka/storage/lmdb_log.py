"""The log on disk: contents in segments, an index of them in LMDB (`dafka.storage.journal`)."""

from __future__ import annotations

import secrets
from enum import Enum
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING

from dafka.limits import FORGOTTEN_MAX
from dafka.model import Batch
from dafka.process.clock import wall_ms
from dafka.storage import rows
from dafka.storage.environment import MAP_BYTES, Environment
from dafka.storage.file_calls import FILE_CALLS
from dafka.storage.journal import INDEXED_BYTES, Journal
from dafka.storage.log import NONE, NOTHING, ChangeOrder, Extent, Outline, TableEntry, emptied
from dafka.storage.log_index import TABLES, LogChange, LogIndex
from dafka.storage.rows import ENTRIES
from dafka.storage.segment_files import SEGMENT_BYTES, SegmentFiles

if TYPE_CHECKING:
    import os
    from collections.abc import Callable, Collection, Iterable, Mapping, Sequence

    from dafka.model import Partition
    from dafka.storage.file_calls import FileCalls

FORMAT = "6"
"""Version of the layout. 2 had no gaps; 2 and 3 no checksums, which rows are given; up to 4 nothing
was forgotten; up to 5 contents were in rows, and are read there until they go."""

EARLIER = ("2", "3", "4", "5")


class Durability(Enum):
    """What `append` has done when it returns."""

    FSYNC = "fsync"
    """The batches are on the disk; a power cut takes nothing."""

    OS = "os"
    """The operating system has the batches: a dead process takes nothing, a power cut the last
    seconds and, on a file system that reorders writes, possibly the log. For stores of which
    the cluster has others, and for tests."""


class LmdbLog:
    """The port `RecordLog` over segments and LMDB. Used by one thread at a time; see `settle`.

    Args:
        directory: Created if it is not there; nothing else may be kept in it.
        durability: What `append` promises.
        clock: Wall time in milliseconds: the time of batches that carry none.
        map_bytes: Address space mapped for the index at first; it doubles when it is full.
        forgotten_max: Of how many partitions that are forgotten it remembers where they ended.
        segment_bytes: Of a segment.
        indexed_bytes: Behind so many the index is written.
        calls: What reads and writes segments.

    Raises:
        StorageError: The directory cannot be used, is used by another process, or holds something
            that this version cannot read.
    """

    def __init__(
        self,
        directory: str | os.PathLike[str],
        *,
        durability: Durability = Durability.FSYNC,
        clock: Callable[[], int] = wall_ms,
        map_bytes: int = MAP_BYTES,
        forgotten_max: int = FORGOTTEN_MAX,
        segment_bytes: int = SEGMENT_BYTES,
        indexed_bytes: int = INDEXED_BYTES,
        calls: FileCalls = FILE_CALLS,
    ) -> None:
        self._clock = clock
        self.changes = ChangeOrder(secrets.token_hex(8))
        sync = durability is Durability.FSYNC
        self._environment = Environment(
            directory,
            kind="log",
            tables=TABLES,
            layout=FORMAT,
            earlier=EARLIER,
            sync=sync,
            map_bytes=map_bytes,
        )
        self._index = LogIndex(self._environment, self.changes, forgotten_max)
        files = SegmentFiles(Path(directory), sync=sync, bytes_max=segment_bytes, calls=calls)
        try:
            self._journal = Journal(self._environment, self._index, files, indexed_bytes)
        except BaseException:
            files.close()
            self._environment.close()
            raise

    @property
    def identity(self) -> str:
        """The address of the store that owns this log, drawn when the log was created."""
        return self._environment.identity

    @property
    def records(self) -> int:
        """How many records all partitions have ever had, without those that are forgotten."""
        return self._index.records

    @property
    def forgotten(self) -> int:
        """Of how many forgotten partitions it is known where they ended."""
        return self._journal.index().forgotten()

    def heads(self) -> dict[Partition, int]:
        """Return the last sequence of every partition."""
        return {partition: extent.head for partition, extent in self._index.extents.items()}

    def extents(self) -> Mapping[Partition, Extent]:
        """Return what there is of every partition."""
        return self._index.extents

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
        """Change the log in one transaction; see `RecordLog.append`.

        Raises:
            StorageError: The disk refused, or a batch does not follow its partition's head, or a
                table or key is too long, or of what is to be forgotten something is kept.
            RestartError: The disk refused, and what is there cannot be said.
        """
        if not (batches or trims or skips or entries or forgets or erases):
            return
        changes = batches, trims, skips, entries, forgets, self._clock(), erases
        self._journal.change(LogChange(*changes))

    def commit(self) -> None:
        """Have the index on the disk as well, and give back what nothing needs.

        Raises:
            StorageError: The disk refused. What is in segments is there nevertheless.
            RestartError: The same, and they cannot be read.
        """
        self._journal.commit()

    def settle(self) -> None:
        """Commit what can be committed; afterwards another thread may use the log.

        Raises:
            RestartError: Segments cannot be read.
        """
        self._journal.settle()

    def recall(self, partitions: Iterable[Partition]) -> dict[Partition, Extent]:
        """Return how each of these ended that is forgotten; see `RecordLog.recall`.

        Raises:
            StorageError: The disk refused.
        """
        return self._journal.index().recall(partitions)

    def forgotten_behind(self, number: int, count_max: int) -> list[tuple[int, Partition, Extent]]:
        """Return forgotten partitions in order; see `RecordLog.forgotten_behind`.

        Raises:
            StorageError: The disk refused.
        """
        found = self._journal.index().forgotten_behind(number, count_max)
        return [(one, rows.partition_of(key), emptied(*ended)) for one, key, ended in found]

    def read(
        self, partition: Partition, sequence: int, count_max: int, bytes_max: int
    ) -> list[Batch]:
        """Return batches from the one that holds `sequence` on; see `RecordLog.read`.

        Raises:
            StorageError: The disk refused.
        """
        if not self._holds(partition, sequence):
            return []
        found: list[Batch] = []
        size = 0
        for first, row in self._journal.index().batches(partition, sequence):
            outline = rows.outline_of(first, row)
            size += outline.size
            full = first >= sequence + count_max or size > bytes_max
            if found and (full or not outline.size):
                break
            if not outline.size:
                size = 0  # a gap
                continue
            found.append(Batch(partition, first, outline.end - first, self._journal.content(row)))
        return found

    def outlines(self, partition: Partition, sequence: int, count_max: int) -> list[Outline]:
        """Return batches in outline; see `RecordLog.outlines`.

        Raises:
            StorageError: The disk refused.
        """
        found: list[Outline] = []
        if not self._holds(partition, sequence):
            return found
        for first, row in self._journal.index().batches(partition, sequence):
            if len(found) == count_max:
                break
            found.append(rows.outline_of(first, row))
        return found

    def find(self, partition: Partition, timestamp_ms: int) -> int | None:
        """Return where the records of a time begin; see `RecordLog.find`.

        Raises:
            StorageError: The disk refused.
        """
        extent = self._index.extents.get(partition)
        if extent is None or extent.start > extent.head:
            return None
        if extent.newest_ms < timestamp_ms:
            return None
        index = self._journal.index()
        low = found = extent.start
        high = extent.head + 1
        # What begins below `low` is too early, what begins at `high` is late enough. A gap has the
        # time of what lies before it.
        while low < high:
            first, row = next(index.batches(partition, (low + high - 1) // 2))
            outline = rows.outline_of(first, row)
            if outline.newest_ms < timestamp_ms:
                low = outline.end
            else:
                high = first
                if outline.size:
                    found = first
        return found

    def get(self, table: str, key: bytes) -> bytes | None:
        """Return the value of `key`, None if there is none.

        Raises:
            StorageError: The disk refused.
        """
        self._journal.index()
        with self._environment.reading() as transaction:
            place = rows.table_key(table, key)
            value = transaction.get(place, db=self._environment.table(ENTRIES))
            return None if value is None else self._environment.unsealed("read", place, value)

    def scan(
        self, table: str, prefix: bytes, count_max: int, after: bytes | None = None
    ) -> list[tuple[bytes, bytes]]:
        """Return keys with their values, in order; see `RecordLog.scan`.

        Raises:
            StorageError: The disk refused.
        """
        whole = rows.table_key(table, prefix)
        # No key lies between one and the same with a NUL behind it.
        first = whole if after is None else max(whole, rows.table_key(table, after) + b"\0")
        cut = len(rows.table_key(table, b""))
        found: list[tuple[bytes, bytes]] = []
        self._journal.index()
        with (
            self._environment.reading() as transaction,
            transaction.cursor(self._environment.table(ENTRIES)) as cursor,
        ):
            there = cursor.set_range(first)
            while there and len(found) < count_max:
                key = cursor.key()
                if not key.startswith(whole):
                    break
                found.append((key[cut:], self._environment.unsealed("read", key, cursor.value())))
                there = cursor.next()
        return found

    def strays(self, count_max: int) -> list[tuple[Partition, int]]:
        """Return batches of which segments have something else where the index says they are.

        Returns:
            At most so many: the partition, and the sequence of the first record.

        Raises:
            StorageError: The disk refused.
        """
        found = (
            (partition, first)
            for partition, extent in self._index.extents.items()
            if extent.start <= extent.head
            for first in self._journal.strays(partition)
        )
        return list(islice(found, count_max))

    def compact(self) -> tuple[int, int]:
        """Give the disk back what trimming has freed, and close.

        Returns:
            The bytes before and after.

        Raises:
            StorageError: The disk refused, or a backup is made.
        """
        segments, left = self._journal.compact()
        before, after = self._environment.compact()
        self._release()
        return segments + before, left + after

    def close(self) -> None:
        """Release the log and let other processes open it."""
        try:
            self.settle()
        finally:
            self._release()

    def _holds(self, partition: Partition, sequence: int) -> bool:
        extent = self._index.extents.get(partition)
        return extent is not None and extent.start <= sequence <= extent.head

    def _release(self) -> None:
        self._journal.close()
        self._environment.close()
