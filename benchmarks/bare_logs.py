"""Bare programs that keep batches on a disk, without most of what a log has to be able to do.

What a transaction costs is written and synced by each of them in its own way, in turn on the same
disk. They check nothing, drop nothing, and open nothing again.
"""

from __future__ import annotations

import mmap
import os
import struct
import time
from typing import TYPE_CHECKING, Protocol
from zlib import crc32

import lmdb

from dafka.records.checksum import crc32c
from dafka.storage.lmdb_log import LmdbLog

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from dafka.model import Batch

_KEY = struct.Struct(">IQ")
"""Partition, first sequence."""

_PLACE = struct.Struct(">IQQI")
"""Of a batch: records, time, where its content lies in a segment, and how long it is."""

_STANDING = struct.Struct(">QQQQQ")
"""What there is of a partition."""

_HEADER = struct.Struct("<IIQII")
"""Of a batch in a segment: checksum, partition, first sequence, records, bytes."""

_CHECKSUM_BYTES = 4

_PAGE_BYTES = 4096
"""What O_DIRECT counts in here."""

_INDEXED_BYTES = 8 << 20
"""Behind so many bytes the index of a segment is written: what lies behind it is found by reading
it, after a crash."""

_DIRECT_BYTES = 4 << 20
"""The largest transaction that can be written with O_DIRECT."""

_KEPT = 64
"""So many transactions stay in a log whose segments are used again."""

_AGAIN_BYTES = 4 << 20
"""Of a segment there: a short run comes to use one again."""


class BareLog(Protocol):
    """Keeps batches, so that a power cut takes nothing of what `append` was given."""

    def append(self, batches: Sequence[Batch]) -> None:
        """Keep one batch of each partition, in one transaction."""

    def close(self) -> None:
        """Let go."""


class PlainFile:
    """Contents one behind the other, and `fdatasync`: what nothing that keeps them undercuts.

    Args:
        directory: Where.
        written: So many bytes are there beforehand: the file does not grow.
    """

    def __init__(self, directory: Path, written: int = 0) -> None:
        self._file = _opened(directory / "plain", written)
        self._end = 0

    def append(self, batches: Sequence[Batch]) -> None:
        """Write and sync."""
        whole = b"".join(batch.content for batch in batches)
        self._end += os.pwrite(self._file, whole, self._end)
        os.fdatasync(self._file)

    def close(self) -> None:
        """Close the file."""
        os.close(self._file)


class BareLmdb:
    """One table of contents in LMDB.

    Args:
        directory: Where.
        room: Bytes that come at most.
        metasync: Whether the page that makes a transaction visible is synced, too. It then comes to
            the disk with the next one, and a power cut may take it: no ACK could be given.
        writemap: Whether pages are written through the map of the file.
    """

    def __init__(
        self, directory: Path, room: int, *, metasync: bool = True, writemap: bool = False
    ) -> None:
        self._lmdb = lmdb.open(
            str(directory / "lmdb"), map_size=8 * room, metasync=metasync, writemap=writemap
        )

    def append(self, batches: Sequence[Batch]) -> None:
        """One transaction."""
        with self._lmdb.begin(write=True) as transaction:
            for number, batch in enumerate(batches):
                transaction.put(_KEY.pack(number, batch.sequence), batch.content)

    def close(self) -> None:
        """Close it."""
        self._lmdb.close()


class BareSegment:
    """All partitions' batches in one file, each behind a header; where they lie stands in LMDB.

    The index is changed in a transaction that stays open, and is committed once in a while: what a
    crash takes of it the headers say, and they have checksums. That is the log of ADR 59.

    Args:
        directory: Where.
        written: So many bytes are there beforehand, as in a segment that is used again.
        direct: Whether the page cache is passed by (O_DIRECT), in whole pages.
        indexed_bytes: Behind so many bytes the index is written; 0 is with each transaction.
    """

    def __init__(
        self,
        directory: Path,
        written: int = 0,
        *,
        direct: bool = False,
        indexed_bytes: int = _INDEXED_BYTES,
    ) -> None:
        self._file = _opened(directory / "segment", written)
        self._direct: mmap.mmap | None = None
        if direct:
            os.close(self._file)
            self._file = os.open(directory / "segment", os.O_RDWR | os.O_DIRECT)
            self._direct = mmap.mmap(-1, _DIRECT_BYTES)  # which begins at a page
        self._index = lmdb.open(str(directory / "index"), map_size=1 << 30, max_dbs=2)
        self._batches, self._partitions = map(self._index.open_db, (b"batches", b"partitions"))
        self._open = self._index.begin(write=True)
        self._indexed_bytes = indexed_bytes
        self._end = self._indexed = 0

    def append(self, batches: Sequence[Batch]) -> None:
        """Write and sync, and index that, if both can be done."""
        pieces: list[bytes] = []
        end = self._end
        with self._index.begin(write=True, parent=self._open) as within:
            for number, batch in enumerate(batches):
                size = len(batch.content)
                said = _HEADER.pack(0, number, batch.sequence, batch.count, size)[4:]
                pieces += (crc32(said).to_bytes(4, "little"), said, batch.content)
                end += _HEADER.size
                key = _KEY.pack(number, batch.sequence)
                within.put(key, _PLACE.pack(batch.count, 0, end, size), db=self._batches)
                within.put(key[:4], _STANDING.pack(0, batch.end, 0, 0, 0), db=self._partitions)
                end += size
            size = self._write(b"".join(pieces))
            os.fdatasync(self._file)
        self._end += size
        if self._end - self._indexed >= self._indexed_bytes:
            self.write_index()

    def read(self, sequence: int, bytes_max: int) -> list[bytes]:
        """Return contents of the first partition from one on, so many bytes at most."""
        found: list[bytes] = []
        with self._open.cursor(self._batches) as cursor:
            there = cursor.set_range(_KEY.pack(0, sequence))
            while there and cursor.key() < _KEY.pack(1, 0) and bytes_max > 0:
                *_, place, size = _PLACE.unpack(cursor.value())
                found.append(os.pread(self._file, size, place))
                bytes_max -= size
                there = cursor.next()
        return found

    def write_index(self) -> None:
        """Commit what has changed in the index."""
        self._open.commit()
        self._open = self._index.begin(write=True)
        self._indexed = self._end

    def close(self) -> None:
        """Close it."""
        self._open.abort()
        self._index.close()
        os.close(self._file)

    def _write(self, whole: bytes) -> int:
        if self._direct is None:
            return os.pwrite(self._file, whole, self._end)
        size = -(-len(whole) // _PAGE_BYTES) * _PAGE_BYTES
        self._direct[: len(whole)] = whole
        with memoryview(self._direct) as view, view[:size] as pages:
            return os.pwrite(self._file, pages, self._end)


class WholeSegment(BareSegment):
    """The same in the shape of the log of ADR 61.

    A transaction is summed up with its contents, so that a torn one is told from a whole one, and
    rows wait in memory until the index is written.
    """

    def __init__(self, directory: Path) -> None:
        super().__init__(directory)
        self._rows: dict[bytes, bytes] = {}
        self._standing: dict[bytes, bytes] = {}

    def append(self, batches: Sequence[Batch]) -> None:
        """Write and sync; have in mind what comes into the index."""
        pieces: list[bytes] = []
        end = self._end + _CHECKSUM_BYTES
        for number, batch in enumerate(batches):
            size = len(batch.content)
            pieces += (_HEADER.pack(0, number, batch.sequence, batch.count, size), batch.content)
            end += _HEADER.size
            key = _KEY.pack(number, batch.sequence)
            self._rows[key] = _PLACE.pack(batch.count, 0, end, size)
            self._standing[key[:4]] = _STANDING.pack(0, batch.end, 0, 0, 0)
            end += size
        checksum = crc32c(*pieces).to_bytes(_CHECKSUM_BYTES, "little")
        self._end += self._write(b"".join((checksum, *pieces)))
        os.fdatasync(self._file)
        if self._end - self._indexed >= self._indexed_bytes:
            self.write_index()

    def write_index(self) -> None:
        """Put what waits, and commit."""
        for table, rows in ((self._batches, self._rows), (self._partitions, self._standing)):
            with self._open.cursor(table) as cursor:
                cursor.putmulti(rows.items())
            rows.clear()
        super().write_index()


class OurLog:
    """The log of a store.

    Args:
        directory: Where.
        again: Whether each transaction takes out what came long before, so that the file does not
            grow: as in a store whose retention drops as much as comes.
    """

    def __init__(self, directory: Path, *, again: bool = False) -> None:
        self._log = (
            LmdbLog(directory / "log", segment_bytes=_AGAIN_BYTES, indexed_bytes=_AGAIN_BYTES)
            if again
            else LmdbLog(directory / "log")
        )
        self._again = again

    def append(self, batches: Sequence[Batch]) -> None:
        """One transaction."""
        trims = {one.partition: one.sequence - _KEPT * one.count for one in batches}
        if self._again:
            self._log.append(batches, trims={one: end for one, end in trims.items() if end > 0})
        else:
            self._log.append(batches)

    def close(self) -> None:
        """Close it."""
        self._log.close()


FILE = "plain file, fdatasync"
LMDB = "LMDB by itself, fsync"
OURS = "log append, fsync"

BARE_LOGS: dict[str, Callable[[Path, int], BareLog]] = {
    FILE: lambda directory, _room: PlainFile(directory),
    "plain file, written before": PlainFile,
    LMDB: BareLmdb,
    "LMDB, last page not synced": lambda directory, room: BareLmdb(directory, room, metasync=False),
    "LMDB, write map": lambda directory, room: BareLmdb(directory, room, writemap=True),
    "segment": lambda directory, _room: BareSegment(directory),
    "segment, summed up, rows wait": lambda directory, _room: WholeSegment(directory),
    "segment, index each time": lambda directory, _room: BareSegment(directory, indexed_bytes=0),
    "segment, written before": BareSegment,
    "segment, O_DIRECT": lambda directory, _room: BareSegment(directory, direct=True),
    "segment, written before, O_DIRECT": lambda directory, room: BareSegment(
        directory, room, direct=True
    ),
    OURS: lambda directory, _room: OurLog(directory),
    f"{OURS}, segments used again": lambda directory, _room: OurLog(directory, again=True),
}
"""What makes them, of a directory and the bytes that come at most."""


def seconds(log: BareLog, transactions: Sequence[Sequence[Batch]]) -> float:
    """How long these take."""
    began = time.perf_counter()
    for batches in transactions:
        log.append(batches)
    return time.perf_counter() - began


def room_for(batches: Sequence[Batch], transactions: int) -> int:
    """The bytes that so many transactions take at most, in whole pages each."""
    size = sum(len(batch.content) + _HEADER.size for batch in batches)
    return (transactions + 1) * (size + _PAGE_BYTES)


def _opened(path: Path, written: int) -> int:
    file = os.open(path, os.O_CREAT | os.O_RDWR)
    mebibyte = bytes(1 << 20)
    for _ in range(-(-written // len(mebibyte))):
        os.write(file, mebibyte)
    os.fsync(file)
    return file
