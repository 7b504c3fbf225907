"""The log on disk: one LMDB environment per store.

| table | key | value |
|---|---|---|
| `partitions` | topic, NUL, address | number u32, its `Extent`: five u64; checksum u32 |
| `batches` | partition number u32, first sequence u64 | record count u32, time u64, content |
| | the same, of the first record in a gap | 0 u32, time u64, sequence behind the gap u64 |
| `entries` | table, NUL, key | value, checksum u32 |
| `forgotten`, `forgotten-order` | | see `dafka.storage.forgotten_table` |

A checksum is the CRC of key and value, as no record's own covers those; batches have theirs.
Numbers are big-endian, so that keys sort by partition and sequence. A key of `partitions` has at
most 249 + 1 + 255 bytes; LMDB takes 511. The head is kept plus one: an empty partition that begins
at 0 has none.

One `append` is one write transaction and so one sync. The time kept with a batch is the running
maximum of its partition, which is all the index that `find` needs: it never goes back, so it can be
searched by halves, and costs an append nothing.
"""

from __future__ import annotations

import secrets
import struct
from enum import Enum
from typing import TYPE_CHECKING

from dafka.limits import ADDRESS_BYTES_MAX, FORGOTTEN_MAX, TOPIC_BYTES_MAX
from dafka.model import Batch, Partition
from dafka.process.clock import wall_ms
from dafka.storage import forgotten_table
from dafka.storage.environment import MAP_BYTES, Environment, sealed
from dafka.storage.forgotten_table import ForgottenTable, PartitionEnd
from dafka.storage.log import (
    NONE,
    NOTHING,
    ChangeOrder,
    Extent,
    Outline,
    checked,
    emptied,
    extended,
    skipped,
)
from dafka.wire.primitives import octets_of, text

if TYPE_CHECKING:
    import os
    from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence

    import lmdb

    from dafka.storage.log import TableEntry

FORMAT = "5"
"""Version of the layout above. 2 had no gaps; 2 and 3 no checksums, which rows are given; up to 4
nothing was forgotten."""

PARTITIONS, _BATCHES, ENTRIES = b"partitions", b"batches", b"entries"

_UNCHECKED = b"tables"
"""What `entries` was up to 3."""

_SEPARATOR = b"\0"
_BATCH_KEY = struct.Struct(">IQ")
_BATCH = struct.Struct(">IQ")
_GAP = struct.Struct(">IQQ")
_STANDING = struct.Struct(">IQQQQQ")


class Durability(Enum):
    """What `append` has done when it returns."""

    FSYNC = "fsync"
    """The batches are on the disk; a power cut takes nothing."""

    OS = "os"
    """The operating system has the batches: a dead process takes nothing, a power cut the last
    seconds and, on a file system that reorders writes, possibly the log. For stores of which
    the cluster has others, and for tests."""


class LmdbLog:
    """The port `RecordLog` over LMDB. Used by one thread at a time.

    Args:
        directory: Created if it is not there; nothing else may be kept in it.
        durability: What `append` promises.
        clock: Wall time in milliseconds: the time of batches that carry none.
        map_bytes: Address space mapped at first; it doubles when it is full.
        forgotten_max: Of how many partitions that are forgotten it remembers where they ended.

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
    ) -> None:
        self._clock = clock
        self.changes = ChangeOrder(secrets.token_hex(8))
        sync = durability is Durability.FSYNC
        tables = PARTITIONS, _BATCHES, ENTRIES, _UNCHECKED, *forgotten_table.TABLES
        self._environment = Environment(
            directory,
            kind="log",
            tables=tables,
            layout=FORMAT,
            earlier=("2", "3", "4"),
            sync=sync,
            map_bytes=map_bytes,
        )
        self._forgotten = ForgottenTable(self._environment, forgotten_max)
        try:
            self._load()
        except BaseException:
            self._environment.close()
            raise

    @property
    def identity(self) -> str:
        """The address of the store that owns this log, drawn when the log was created."""
        return self._environment.identity

    @property
    def records(self) -> int:
        """How many records all partitions have ever had, without those that are forgotten."""
        return self._records

    @property
    def forgotten(self) -> int:
        """Of how many forgotten partitions it is known where they ended."""
        return self._forgotten.count()

    def heads(self) -> dict[Partition, int]:
        """Return the last sequence of every partition."""
        return {partition: extent.head for partition, extent in self._extents.items()}

    def extents(self) -> Mapping[Partition, Extent]:
        """Return what there is of every partition."""
        return self._extents

    def append(
        self,
        batches: Sequence[Batch],
        *,
        trims: Mapping[Partition, int] = NOTHING,
        skips: Mapping[Partition, int] = NOTHING,
        entries: Sequence[TableEntry] = (),
        forgets: Collection[Partition] = NONE,
    ) -> None:
        """Change the log in one transaction; see `RecordLog.append`.

        Raises:
            StorageError: The disk refused, or a batch does not follow its partition's head, or a
                table or key is too long, or of what is to be forgotten something is kept.
        """
        if not (batches or trims or skips or entries or forgets):
            return
        recalled = self.recall({*trims, *skips, *(batch.partition for batch in batches)})
        known = self._extents | recalled if recalled else self._extents
        checked(known, batches, skips, entries, forgets)
        changed: dict[Partition, Extent] = dict(recalled)
        dropped: list[bytes] = []
        for partition, sequence in trims.items():
            extent = known.get(partition)
            changed[partition] = self._trimmed(extent, partition, sequence, dropped)
        gaps = self._skip(changed, skips)
        times = self._grow(changed, batches)
        numbers = self._numbered(changed)
        places = [_partition_key(partition) for partition in recalled]
        ended = {_partition_key(one): _ended(self._extents[one]) for one in forgets}

        def work(transaction: lmdb.Transaction[bytes]) -> None:
            table = self._environment.table(_BATCHES)
            for key in dropped:
                transaction.delete(key, db=table)
            for partition, first, value in _rows(gaps, batches, times):
                key = _BATCH_KEY.pack(numbers[partition], first)
                transaction.put(key, value, overwrite=False, db=table)
            for partition, extent in changed.items():
                place, value = _partition_key(partition), _packed(numbers[partition], extent)
                table = self._environment.table(PARTITIONS)
                transaction.put(place, sealed(place, value), db=table)
            for place in ended:
                transaction.delete(place, db=self._environment.table(PARTITIONS))
            self._forgotten.change(transaction, places, ended)
            self._put(transaction, entries)

        self._environment.write("append to", work)
        self._take_in(changed, numbers, forgets)

    def recall(self, partitions: Iterable[Partition]) -> dict[Partition, Extent]:
        """Return how each of these ended that is forgotten; see `RecordLog.recall`.

        Raises:
            StorageError: The disk refused.
        """
        places = {_partition_key(one): one for one in partitions if one not in self._extents}
        found = self._forgotten.find(places) if places else {}
        return {places[place]: emptied(*ended) for place, ended in found.items()}

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
        # The transaction ends before this returns: an open one would keep every page that was
        # freed since from being used again. Hence the copies.
        with (
            self._environment.reading() as transaction,
            transaction.cursor(self._environment.table(_BATCHES)) as cursor,
        ):
            for first, value in _from(cursor, self._numbers[partition], sequence):
                count, _ = _BATCH.unpack_from(value)
                size += len(value) - _BATCH.size
                full = first >= sequence + count_max or size > bytes_max
                if found and (full or not count):
                    break
                if not count:
                    size = 0  # a gap
                    continue
                found.append(Batch(partition, first, count, bytes(value[_BATCH.size :])))
        return found

    def outlines(self, partition: Partition, sequence: int, count_max: int) -> list[Outline]:
        """Return batches in outline; see `RecordLog.outlines`.

        Raises:
            StorageError: The disk refused.
        """
        if not self._holds(partition, sequence):
            return []
        found: list[Outline] = []
        with (
            self._environment.reading() as transaction,
            transaction.cursor(self._environment.table(_BATCHES)) as cursor,
        ):
            for first, value in _from(cursor, self._numbers[partition], sequence):
                if len(found) == count_max:
                    break
                found.append(_outline(first, value))
        return found

    def find(self, partition: Partition, timestamp_ms: int) -> int | None:
        """Return where the records of a time begin; see `RecordLog.find`.

        Raises:
            StorageError: The disk refused.
        """
        extent = self._extents.get(partition)
        if extent is None or extent.start > extent.head:
            return None
        if extent.newest_ms < timestamp_ms:
            return None
        number = self._numbers[partition]
        low = found = extent.start
        high = extent.head + 1
        with (
            self._environment.reading() as transaction,
            transaction.cursor(self._environment.table(_BATCHES)) as cursor,
        ):
            # What begins below `low` is too early, what begins at `high` is late enough. A gap has
            # the time of what lies before it.
            while low < high:
                first, value = next(_from(cursor, number, (low + high - 1) // 2))
                outline = _outline(first, value)
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
        with self._environment.reading() as transaction:
            place = _table_key(table, key)
            value = transaction.get(place, db=self._environment.table(ENTRIES))
            if value is None:
                return None
            return self._environment.unsealed("read", place, bytes(value))

    def scan(
        self, table: str, prefix: bytes, count_max: int, after: bytes | None = None
    ) -> list[tuple[bytes, bytes]]:
        """Return keys with their values, in order; see `RecordLog.scan`.

        Raises:
            StorageError: The disk refused.
        """
        whole = _table_key(table, prefix)
        # No key lies between one and the same with a NUL behind it.
        first = whole if after is None else max(whole, _table_key(table, after) + b"\0")
        cut = len(_table_key(table, b""))
        found: list[tuple[bytes, bytes]] = []
        with (
            self._environment.reading() as transaction,
            transaction.cursor(self._environment.table(ENTRIES)) as cursor,
        ):
            there = cursor.set_range(first)
            while there and len(found) < count_max:
                key = bytes(cursor.key())
                if not key.startswith(whole):
                    break
                value = self._environment.unsealed("read", key, bytes(cursor.value()))
                found.append((key[cut:], value))
                there = cursor.next()
        return found

    def compact(self) -> tuple[int, int]:
        """Give the disk back what trimming has freed, and close.

        Returns:
            The bytes before and after.

        Raises:
            StorageError: The disk refused.
        """
        return self._environment.compact()

    def close(self) -> None:
        """Release the log and let other processes open it."""
        self._environment.close()

    def _load(self) -> None:
        self._seal_what_is_not()
        self._extents: dict[Partition, Extent] = {}
        self._numbers: dict[Partition, int] = {}
        with self._environment.reading("open") as transaction:
            for key, value in transaction.cursor(self._environment.table(PARTITIONS)):
                place = bytes(key)
                standing = self._environment.unsealed("open", place, bytes(value))
                partition, number, extent = partition_row(place, standing)
                self._extents[partition] = extent
                self._numbers[partition] = number
        self._following = max(self._numbers.values(), default=-1) + 1
        """The number of the next partition; of one that is forgotten there are no batches."""
        # Kept, because stores are asked for it all the time: of ten thousand partitions a sum is
        # most of a millisecond.
        self._records = sum(extent.head + 1 for extent in self._extents.values())

    def _seal_what_is_not(self) -> None:
        """Give the rows of earlier versions their checksums."""
        partitions, entries = (self._environment.table(one) for one in (PARTITIONS, ENTRIES))
        unchecked = self._environment.table(_UNCHECKED)
        with self._environment.reading("open") as transaction:
            rows = {
                (bytes(key), partitions): bytes(value)
                for key, value in transaction.cursor(partitions)
                if len(value) == _STANDING.size
            }
            for key, value in transaction.cursor(unchecked):
                rows[bytes(key), entries] = bytes(value)
        if not rows:
            return

        def work(transaction: lmdb.Transaction[bytes]) -> None:
            for (key, table), value in rows.items():
                transaction.put(key, sealed(key, value), db=table)
            transaction.drop(unchecked, delete=False)

        self._environment.write("open", work)

    def _put(self, transaction: lmdb.Transaction[bytes], entries: Iterable[TableEntry]) -> None:
        for name, key, new in entries:
            place, table = _table_key(name, key), self._environment.table(ENTRIES)
            if new is None:
                transaction.delete(place, db=table)
            else:
                transaction.put(place, sealed(place, new), db=table)

    def _take_in(
        self,
        changed: Mapping[Partition, Extent],
        numbers: Mapping[Partition, int],
        forgets: Collection[Partition],
    ) -> None:
        """Know what is on disk now."""
        for partition, extent in changed.items():
            before = self._extents.get(partition)
            self._records += extent.head - (before.head if before else -1)
        self._extents.update(changed)
        self._numbers.update(numbers)
        self._following = max([self._following, *(one + 1 for one in numbers.values())])
        for partition in forgets:
            self._records -= self._extents.pop(partition).head + 1
            del self._numbers[partition]
        self.changes.note([*changed, *forgets])

    def _holds(self, partition: Partition, sequence: int) -> bool:
        extent = self._extents.get(partition)
        return extent is not None and extent.start <= sequence <= extent.head

    def _numbered(self, partitions: Mapping[Partition, Extent]) -> dict[Partition, int]:
        """The number of each of `partitions`; those not there before get the next ones."""
        new = [partition for partition in partitions if partition not in self._numbers]
        drawn = dict(zip(new, range(self._following, 1 << 32), strict=False))
        return {one: drawn[one] if one in drawn else self._numbers[one] for one in partitions}

    def _grow(self, changed: dict[Partition, Extent], batches: Sequence[Batch]) -> list[int]:
        """Bring `changed` up to date with `batches`, and return the time of each."""
        arrival_ms = self._clock()
        times: list[int] = []
        for batch in batches:
            partition = batch.partition
            known = changed.get(partition) or self._extents.get(partition)
            changed[partition] = extent = extended(known, batch, arrival_ms)
            times.append(extent.newest_ms)
        return times

    def _trimmed(
        self, known: Extent | None, partition: Partition, sequence: int, dropped: list[bytes]
    ) -> Extent:
        """The extent after a trim; adds the keys of the batches that go to `dropped`."""
        if known is None:
            return Extent(0, -1, 0, 0, 0)
        start, head, size, _, newest_ms = known
        if start <= head:
            number = self._numbers[partition]
            with (
                self._environment.reading() as transaction,
                transaction.cursor(self._environment.table(_BATCHES)) as cursor,
            ):
                for first, value in _from(cursor, number, start):
                    outline = _outline(first, value)
                    if outline.end > sequence and outline.size:
                        return Extent(first, head, size, outline.newest_ms, newest_ms)
                    size -= outline.size
                    dropped.append(_BATCH_KEY.pack(number, first))
        return emptied(head + 1, newest_ms)

    def _skip(
        self, changed: dict[Partition, Extent], skips: Mapping[Partition, int]
    ) -> list[tuple[Partition, int, bytes]]:
        """Bring `changed` up to date with `skips`; returns the gaps as rows of the table."""
        gaps: list[tuple[Partition, int, bytes]] = []
        for partition, sequence in skips.items():
            known = changed.get(partition) or self._extents.get(partition)
            head = -1 if known is None else known.head
            if sequence <= head + 1:
                continue
            changed[partition] = extent = skipped(known, sequence)
            if extent.start <= head:
                gaps.append((partition, head + 1, _GAP.pack(0, extent.newest_ms, sequence)))
        return gaps


def _rows(
    gaps: Iterable[tuple[Partition, int, bytes]], batches: Iterable[Batch], times: Iterable[int]
) -> Iterator[tuple[Partition, int, bytes]]:
    """Yield what is new in the table of batches: partition, first sequence, value."""
    yield from gaps
    for batch, time_ms in zip(batches, times, strict=True):
        yield batch.partition, batch.sequence, _BATCH.pack(batch.count, time_ms) + batch.content


def _from(
    cursor: lmdb.Cursor[memoryview], number: int, sequence: int
) -> Iterator[tuple[int, memoryview]]:
    """Yield the batches of a partition from the one that holds `sequence` on."""
    key = _BATCH_KEY.pack(number, sequence)
    there = cursor.set_range(key)
    if not there or bytes(cursor.key()) != key:
        # `sequence` stands inside a batch, the one before; it is there, the heads say so.
        there = cursor.prev() if there else cursor.last()
    while there:
        found_number, first = _BATCH_KEY.unpack(cursor.key())
        if found_number != number:
            return
        yield first, memoryview(cursor.value())
        there = cursor.next()


def _outline(first: int, value: memoryview) -> Outline:
    count, time_ms = _BATCH.unpack_from(value)
    if not count:
        return Outline(first, _GAP.unpack(value)[2], 0, time_ms)
    return Outline(first, first + count, len(value) - _BATCH.size, time_ms)


def _ended(extent: Extent) -> PartitionEnd:
    return PartitionEnd(extent.head + 1, extent.newest_ms)


def _packed(number: int, extent: Extent) -> bytes:
    start, head, *rest = extent
    return _STANDING.pack(number, start, head + 1, *rest)


def partition_row(place: bytes, standing: bytes) -> tuple[Partition, int, Extent]:
    """Read a row of `partitions` without its checksum: of which one, its number, what there is."""
    topic, _, address = place.partition(_SEPARATOR)
    number, start, end, *rest = _STANDING.unpack(standing)
    return Partition(text(topic), text(address)), number, Extent(start, end - 1, *rest)


def table_of(place: bytes) -> str:
    """The table that a row of `entries` belongs to, by its key."""
    return place.partition(_SEPARATOR)[0].decode("utf-8", "replace")


def _partition_key(partition: Partition) -> bytes:
    topic, address = octets_of(partition.topic), octets_of(partition.address)
    assert len(topic) <= TOPIC_BYTES_MAX
    assert _SEPARATOR not in topic
    assert len(address) <= ADDRESS_BYTES_MAX
    return topic + _SEPARATOR + address


def _table_key(table: str, key: bytes) -> bytes:
    name = table.encode()
    assert _SEPARATOR not in name
    return name + _SEPARATOR + key
