"""The log on disk: one LMDB environment per store.

| table | key | value |
|---|---|---|
| `partitions` | topic, NUL, address | partition number u32, head u64 |
| `batches` | partition number u32, first sequence u64 | record count u32, content |

Numbers are big-endian, so that keys sort by partition and sequence. A key of `partitions` has at
most 249 + 1 + 255 bytes; LMDB takes 511.

One `append` is one write transaction and so one sync.
"""

from __future__ import annotations

import struct
from enum import Enum
from typing import TYPE_CHECKING

from dafka.limits import ADDRESS_BYTES_MAX, TOPIC_BYTES_MAX
from dafka.model import Batch, Partition
from dafka.storage.environment import Environment
from dafka.storage.growth import heads_after
from dafka.wire.octets import octets_of, text

if TYPE_CHECKING:
    import os
    from collections.abc import Iterator, Mapping, Sequence

    import lmdb

FORMAT = "1"
"""Version of the layout above."""

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
        sync = durability is Durability.FSYNC
        self._environment = Environment(directory, kind="log", layout=FORMAT, sync=sync)
        try:
            self._load()
        except BaseException:
            self._environment.close()
            raise

    @property
    def identity(self) -> str:
        """The address of the store that owns this log, drawn when the log was created."""
        return self._environment.identity

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
        self._environment.write(
            f"append {len(batches)} batches to",
            lambda transaction: self._put(transaction, batches, grown, numbers),
        )
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
            self._environment.reading() as transaction,
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
        self._environment.close()

    def _load(self) -> None:
        self._partitions = self._environment.table(b"partitions")
        self._batches = self._environment.table(b"batches")
        self._heads: dict[Partition, int] = {}
        self._numbers: dict[Partition, int] = {}
        with self._environment.reading("open") as transaction:
            for key, value in transaction.cursor(self._partitions):
                topic, _, address = bytes(key).partition(_SEPARATOR)
                partition = Partition(text(topic), text(address))
                number, self._heads[partition] = _STANDING.unpack(value)
                self._numbers[partition] = number

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

    def _put(
        self,
        transaction: lmdb.Transaction[bytes],
        batches: Sequence[Batch],
        heads: Mapping[Partition, int],
        numbers: Mapping[Partition, int],
    ) -> None:
        for batch in batches:
            key = _BATCH_KEY.pack(numbers[batch.partition], batch.sequence)
            value = _COUNT.pack(batch.count) + batch.content
            transaction.put(key, value, overwrite=False, db=self._batches)
        for partition, head in heads.items():
            standing = _STANDING.pack(numbers[partition], head)
            transaction.put(_partition_key(partition), standing, db=self._partitions)


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


def _partition_key(partition: Partition) -> bytes:
    topic, address = octets_of(partition.topic), octets_of(partition.address)
    assert len(topic) <= TOPIC_BYTES_MAX
    assert _SEPARATOR not in topic
    assert len(address) <= ADDRESS_BYTES_MAX
    return topic + _SEPARATOR + address
