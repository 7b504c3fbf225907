"""The log on disk: one LMDB environment per store. The only importer of `lmdb`.

| table | key | value |
|---|---|---|
| `meta` | `format`, `identity` | version of this layout in decimal, address of the store |
| `partitions` | topic, NUL, address | partition number u32, head u64 |
| `batches` | partition number u32, first sequence u64 | record count u32, content |

Numbers are big-endian, so that keys sort by partition and sequence. A key of `partitions` has at
most 249 + 1 + 255 bytes; LMDB takes 511.

One `append` is one write transaction and so one sync. LMDB writes pages that no reader can see and
then one page that makes them visible: what a crash interrupts was never there.
"""

from __future__ import annotations

import os
import struct
from contextlib import ExitStack, contextmanager
from enum import Enum
from pathlib import Path
from typing import TYPE_CHECKING
from uuid import uuid4

import lmdb

from dafka.errors import StorageError
from dafka.limits import ADDRESS_BYTES_MAX, TOPIC_BYTES_MAX
from dafka.model import Batch, Partition, address_of
from dafka.storage.growth import heads_after
from dafka.storage.lock import DirectoryLock
from dafka.wire.octets import octets_of, text

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

FORMAT = 1
"""Version of the layout above."""

MAP_BYTES = 1 << 30
"""Address space mapped at first; it costs neither memory nor disk, and doubles when it is full."""

_SEPARATOR = b"\0"
_BATCH_KEY = struct.Struct(">IQ")
_COUNT = struct.Struct(">I")
_STANDING = struct.Struct(">IQ")


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

    Raises:
        StorageError: The directory cannot be used, is used by another process, or holds something
            that this version cannot read.
    """

    def __init__(
        self, directory: str | os.PathLike[str], *, durability: Durability = Durability.FSYNC
    ) -> None:
        self._directory = Path(directory)
        created = _made(self._directory)
        with ExitStack() as opened, self._storage_errors("open"):
            opened.callback(DirectoryLock(self._directory).release)
            self._environment = lmdb.open(
                str(self._directory),
                map_size=MAP_BYTES,
                max_dbs=3,
                sync=durability is Durability.FSYNC,
            )
            opened.callback(self._environment.close)
            self._identity = self._own()
            self._load()
            if created:
                _sync_directory(self._directory.parent)
            self._opened = opened.pop_all()

    @property
    def identity(self) -> str:
        """The address of the store that owns this log, drawn when the log was created."""
        return self._identity

    def heads(self) -> dict[Partition, int]:
        """Return the last sequence of every partition."""
        return dict(self._heads)

    def append(self, batches: Sequence[Batch]) -> None:
        """Append `batches` in one transaction; see `RecordLog.append`.

        Raises:
            StorageError: The disk refused, or a batch does not follow its partition's head.
        """
        if not batches:
            return
        grown = heads_after(self._heads, batches)
        numbers = self._numbered(grown)
        with self._storage_errors(f"append {len(batches)} batches to"):
            while not self._written(batches, grown, numbers):
                self._environment.set_mapsize(2 * self._environment.info()["map_size"])
        self._heads.update(grown)
        self._numbers.update(numbers)

    def read(
        self, partition: Partition, sequence: int, count_max: int, bytes_max: int
    ) -> list[Batch]:
        """Return batches from the one that holds `sequence` on; see `RecordLog.read`.

        Raises:
            StorageError: The disk refused.
        """
        if not 0 <= sequence <= self._heads.get(partition, -1):
            return []
        found: list[Batch] = []
        size = 0
        # The transaction ends before this returns: an open one would keep every page that was
        # freed since from being used again. Hence the copies.
        with (
            self._storage_errors("read"),
            self._environment.begin(buffers=True) as transaction,
            transaction.cursor(self._batches) as cursor,
        ):
            for first, value in _from(cursor, self._numbers[partition], sequence):
                size += len(value) - _COUNT.size
                if found and (first >= sequence + count_max or size > bytes_max):
                    break
                (count,) = _COUNT.unpack_from(value)
                found.append(Batch(partition, first, count, bytes(value[_COUNT.size :])))
        return found

    def close(self) -> None:
        """Release the log and let other processes open it."""
        self._opened.close()

    def _load(self) -> None:
        self._partitions = self._environment.open_db(b"partitions")
        self._batches = self._environment.open_db(b"batches")
        self._heads: dict[Partition, int] = {}
        self._numbers: dict[Partition, int] = {}
        with self._environment.begin() as transaction:
            for key, value in transaction.cursor(self._partitions):
                topic, _, address = key.partition(_SEPARATOR)
                partition = Partition(text(topic), text(address))
                number, self._heads[partition] = _STANDING.unpack(value)
                self._numbers[partition] = number

    def _own(self) -> str:
        """Check that this is a log of ours, or make it one; returns its identity.

        Nothing else in the environment is touched before, so a log of a newer version stays whole.
        """
        with self._environment.begin() as transaction:
            empty = transaction.stat()["entries"] == 0
            foreign = not empty and transaction.get(b"meta") is None
        if foreign:
            raise self._unusable("it holds an LMDB environment that is not a log")
        with self._environment.begin(write=empty) as transaction:
            meta = self._environment.open_db(b"meta", transaction, create=empty)
            if empty:
                transaction.put(b"format", b"%d" % FORMAT, db=meta)
                transaction.put(b"identity", address_of(uuid4()).encode(), db=meta)
            found = transaction.get(b"format", db=meta)
            identity = transaction.get(b"identity", db=meta)
        if found != b"%d" % FORMAT or identity is None:
            shown = "none" if found is None else repr(found.decode("utf-8", "replace"))
            raise self._unusable(f"its format is {shown}, this version reads '{FORMAT}'")
        if empty:
            _sync_directory(self._directory)
        return str(identity.decode())

    def _unusable(self, reason: str) -> StorageError:
        return StorageError(f"cannot open log at {str(self._directory)!r}: {reason}")

    def _numbered(self, partitions: Mapping[Partition, int]) -> dict[Partition, int]:
        """The number of each of `partitions`; those not seen before get the next ones."""
        following = len(self._numbers)
        numbers: dict[Partition, int] = {}
        for partition in partitions:
            number = self._numbers.get(partition)
            if number is None:
                number, following = following, following + 1
            numbers[partition] = number
        return numbers

    def _written(
        self,
        batches: Sequence[Batch],
        heads: Mapping[Partition, int],
        numbers: Mapping[Partition, int],
    ) -> bool:
        """Write all in one transaction; False, and nothing is written, if the map is full."""
        try:
            with self._environment.begin(write=True) as transaction:
                for batch in batches:
                    key = _BATCH_KEY.pack(numbers[batch.partition], batch.sequence)
                    value = _COUNT.pack(batch.count) + batch.content
                    transaction.put(key, value, overwrite=False, db=self._batches)
                for partition, head in heads.items():
                    standing = _STANDING.pack(numbers[partition], head)
                    transaction.put(_partition_key(partition), standing, db=self._partitions)
        except lmdb.MapFullError:
            return False
        return True

    @contextmanager
    def _storage_errors(self, attempt: str) -> Iterator[None]:
        try:
            yield
        except (lmdb.Error, OSError) as error:
            raise StorageError(
                f"cannot {attempt} log at {str(self._directory)!r}: {error}"
            ) from error


def _from(cursor: lmdb.Cursor, number: int, sequence: int) -> Iterator[tuple[int, memoryview]]:
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


def _partition_key(partition: Partition) -> bytes:
    topic, address = octets_of(partition.topic), octets_of(partition.address)
    assert len(topic) <= TOPIC_BYTES_MAX
    assert _SEPARATOR not in topic
    assert len(address) <= ADDRESS_BYTES_MAX
    return topic + _SEPARATOR + address


def _made(directory: Path) -> bool:
    """Make `directory` if it is not there; True if it was not."""
    try:
        created = not directory.exists()
        directory.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise StorageError(f"cannot create log directory {str(directory)!r}: {error}") from error
    return created


def _sync_directory(directory: Path) -> None:
    """Make the names in `directory` durable: a synced file nobody can find is lost too."""
    descriptor = os.open(directory, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
