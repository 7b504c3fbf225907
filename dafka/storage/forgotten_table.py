"""Where forgotten partitions ended: tables of a log on disk, oldest first out.

| table | key | value |
|---|---|---|
| `forgotten` | topic, NUL, address | number u64, end u64, newest time u64, checksum u32 |
| `forgotten-order` | number u64 | topic, NUL, address |

Numbers go up in the order in which partitions are forgotten. Nothing of this is in memory.
"""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, NamedTuple

from dafka.storage.environment import sealed

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping

    import lmdb

    from dafka.storage.environment import Environment

_ENDS, _ORDER = b"forgotten", b"forgotten-order"

TABLES = _ENDS, _ORDER

_ROW = struct.Struct(">QQQ")
_NUMBER = struct.Struct(">Q")


class PartitionEnd(NamedTuple):
    """How a partition ended: the sequence that comes next, and its newest time."""

    end: int
    newest_ms: int


class ForgottenTable:
    """The two tables.

    Args:
        environment: Has `TABLES`.
        count_max: So many rows are kept.
    """

    def __init__(self, environment: Environment, count_max: int) -> None:
        self._environment = environment
        self._count_max = count_max

    def count(self) -> int:
        """How many there are.

        Raises:
            StorageError: The disk refused.
        """
        with self._environment.reading() as transaction:
            return int(transaction.stat(self._environment.table(_ENDS))["entries"])

    def find(self, keys: Iterable[bytes]) -> dict[bytes, PartitionEnd]:
        """Return how each of these ended that is there.

        Raises:
            StorageError: The disk refused.
        """
        found: dict[bytes, PartitionEnd] = {}
        with self._environment.reading() as transaction:
            table = self._environment.table(_ENDS)
            for key in keys:
                row = transaction.get(key, db=table)
                if row is not None:
                    whole = self._environment.unsealed("read", key, bytes(row))
                    found[key] = PartitionEnd(*_ROW.unpack(whole)[1:])
        return found

    def behind(self, number: int, count_max: int) -> list[tuple[int, bytes, PartitionEnd]]:
        """Return at most so many rows with higher numbers, in order.

        Raises:
            StorageError: The disk refused.
        """
        found: list[tuple[int, bytes]] = []
        with (
            self._environment.reading() as transaction,
            transaction.cursor(self._environment.table(_ORDER)) as cursor,
        ):
            there = cursor.set_range(_NUMBER.pack(number + 1))
            while there and len(found) < count_max:
                found.append((_NUMBER.unpack(cursor.key())[0], bytes(cursor.value())))
                there = cursor.next()
        ends = self.find(key for _, key in found)
        return [(one, key, ends[key]) for one, key in found]

    def change(
        self,
        transaction: lmdb.Transaction[bytes],
        recalled: Collection[bytes],
        forgotten: Mapping[bytes, PartitionEnd],
    ) -> None:
        """Take out what is remembered again, put in what is forgotten now."""
        ends, order = self._environment.table(_ENDS), self._environment.table(_ORDER)
        for key in recalled:
            row = transaction.pop(key, db=ends)
            if row is not None:
                transaction.delete(row[: _NUMBER.size], db=order)
        if not forgotten:
            return
        with transaction.cursor(order) as cursor:
            number = _NUMBER.unpack(cursor.key())[0] + 1 if cursor.last() else 0
        for key, ended in forgotten.items():
            row = _ROW.pack(number, *ended)
            transaction.put(key, sealed(key, row), db=ends)
            transaction.put(row[: _NUMBER.size], key, db=order)
            number += 1
        surplus = transaction.stat(ends)["entries"] - self._count_max
        with transaction.cursor(order) as cursor:
            while surplus > 0 and cursor.first():
                transaction.delete(bytes(cursor.value()), db=ends)
                cursor.delete()
                surplus -= 1
