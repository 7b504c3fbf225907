"""The spool on disk: one LMDB environment per producer.

| table | key | value |
|---|---|---|
| `topics` | topic | sequence after its last record u64 |
| `batches` | topic, NUL, first sequence u64 | record count u32, content |

Numbers are big-endian, so that keys sort by topic and sequence.

Always synced: a record may be on its way to stores as soon as `append` has returned, and after a
power cut its sequence must not be given to another one.
"""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING

from dafka.errors import RecordError
from dafka.model import Batch, Partition
from dafka.records.batch import checked_count
from dafka.storage.environment import Environment
from dafka.storage.log import heads_after
from dafka.wire.primitives import octets_of, text

if TYPE_CHECKING:
    import os
    from collections.abc import Sequence

    import lmdb

FORMAT = "spool 1"
"""Kind and version of the layout above; a store's log has another, so neither opens the other's."""

_TOPICS, _BATCHES = b"topics", b"batches"

_SEPARATOR = b"\0"
_NUMBER = struct.Struct(">Q")
_COUNT = struct.Struct(">I")


class LmdbSpool:
    """The port `Spool` over LMDB. Used by one thread at a time.

    Args:
        directory: Created if it is not there; nothing else may be kept in it.
        address: The producer's, if this makes the spool; by default one is drawn.

    Raises:
        StorageError: The directory cannot be used, is used by another producer, or holds
            something that this version cannot read.
    """

    def __init__(self, directory: str | os.PathLike[str], address: str = "") -> None:
        self._environment = Environment(
            directory, kind="spool", tables=(_TOPICS, _BATCHES), layout=FORMAT, identity=address
        )
        try:
            self._heads = self._read_heads()
        except BaseException:
            self._environment.close()
            raise
        self._stored: dict[str, int] = {}
        """By topic, the end below which batches are to be deleted."""

    @property
    def address(self) -> str:
        """The producer's address, drawn when the spool was created."""
        return self._environment.identity

    def ends(self) -> dict[str, int]:
        """Return the sequence after the last record ever appended, by topic."""
        return {partition.topic: head + 1 for partition, head in self._heads.items()}

    def batches(self) -> list[Batch]:
        """Return what was appended and not forgotten, each topic in order.

        Raises:
            StorageError: The disk refused, or has kept something else. No store would take that.
        """
        found = []
        with self._environment.reading() as transaction:
            for key, value in transaction.cursor(self._environment.table(_BATCHES)):
                topic, sequence = _place(bytes(key))
                (count,) = _COUNT.unpack_from(value)
                content = bytes(value[_COUNT.size :])
                if checked_count(content, sequence) != count:
                    raise RecordError("batch count")
                found.append(Batch(Partition(topic, self.address), sequence, count, content))
        return found

    def append(self, batches: Sequence[Batch]) -> None:
        """Append `batches` in one transaction, which also deletes what is to be forgotten.

        Raises:
            StorageError: The disk refused, or a batch does not follow its topic's end.
        """
        grown = heads_after(self._heads, batches)

        def work(transaction: lmdb.Transaction[bytes]) -> None:
            table = self._environment.table(_BATCHES)
            self._delete_stored(transaction)
            for batch in batches:
                key = _key(batch.partition.topic, batch.sequence)
                value = _COUNT.pack(batch.count) + batch.content
                transaction.put(key, value, overwrite=False, db=table)
            for partition, head in grown.items():
                end = _NUMBER.pack(head + 1)
                transaction.put(
                    octets_of(partition.topic), end, db=self._environment.table(_TOPICS)
                )

        self._environment.write("append to", work)
        self._heads.update(grown)
        self._stored.clear()

    def forget(self, topic: str, end: int) -> None:
        """Delete what lies below `end` with the next `append`, or when the spool is closed."""
        self._stored[topic] = end

    def close(self) -> None:
        """Delete what is to be forgotten and let other processes open the spool.

        Raises:
            StorageError: The disk refused; the spool is closed all the same.
        """
        try:
            if self._stored:
                self._environment.write("close", self._delete_stored)
                self._stored.clear()
        finally:
            self._environment.close()

    def _read_heads(self) -> dict[Partition, int]:
        with self._environment.reading("open") as transaction:
            return {
                Partition(text(bytes(topic)), self.address): _NUMBER.unpack(end)[0] - 1
                for topic, end in transaction.cursor(self._environment.table(_TOPICS))
            }

    def _delete_stored(self, transaction: lmdb.Transaction[bytes]) -> None:
        with transaction.cursor(self._environment.table(_BATCHES)) as cursor:
            for topic, end in self._stored.items():
                cursor.set_range(_key(topic, 0))
                while key := cursor.key():  # empty behind the last one
                    found, sequence = _place(key)
                    (count,) = _COUNT.unpack_from(cursor.value())
                    if found != topic or sequence + count > end:
                        break
                    cursor.delete()


def _key(topic: str, sequence: int) -> bytes:
    return octets_of(topic) + _SEPARATOR + _NUMBER.pack(sequence)


def _place(key: bytes) -> tuple[str, int]:
    """The topic and sequence that `_key` was given."""
    split = len(key) - _NUMBER.size
    return text(key[: split - 1]), _NUMBER.unpack_from(key, split)[0]
