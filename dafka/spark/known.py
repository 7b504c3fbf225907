"""The records of a run that the cluster has, each of which stands for one row of the task."""

from __future__ import annotations

from collections import Counter
from hashlib import blake2b
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

    from dafka.records.batch import RawRecord

Fields = tuple[bytes | None, bytes | None, list[tuple[str, bytes | None]]]
"""Key, value, headers."""


class Known:
    """Which of a task's rows are written already.

    Rows are told apart by everything they hold. One without a timestamp was given the time of its
    attempt, so whatever the record says fits it.

    Args:
        records: What the task has written before.
    """

    def __init__(self, records: Iterable[RawRecord]) -> None:
        self._stamps: dict[bytes, Counter[int]] = {}
        """Timestamps of the records that are left, by the digest of all else."""
        self._lent: Counter[tuple[bytes, int]] = Counter()
        """Records that stand for rows without a timestamp."""
        self.left = 0
        """How many records have not found their row yet."""
        for record in records:
            digest = _digest((record.key, record.value, list(record.headers)))
            self._stamps.setdefault(digest, Counter())[record.timestamp_ms] += 1
            self.left += 1

    def take(self, fields: Fields, timestamp_ms: int | None) -> bool:
        """Whether a row is written already; each record is taken once.

        Args:
            fields: Of the row.
            timestamp_ms: Its own, if it has one.
        """
        digest = _digest(fields)
        stamps = self._stamps.get(digest)
        if stamps and (timestamp_ms is None or timestamp_ms in stamps):
            stamp = next(iter(stamps)) if timestamp_ms is None else timestamp_ms
            stamps[stamp] -= 1
            if not stamps[stamp]:
                del stamps[stamp]
            self._lent[digest, stamp] += timestamp_ms is None
            self.left -= 1
            return True
        if timestamp_ms is not None and self._lent[digest, timestamp_ms]:
            # It is this row's; the one that has it can do with another.
            self._lent[digest, timestamp_ms] -= 1
            return self.take(fields, None)
        return False


def _digest(fields: Fields) -> bytes:
    return blake2b(repr(fields).encode(), digest_size=16).digest()
