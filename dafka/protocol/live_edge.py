"""Whether a consumer listens to what is published now, or only reads what stores have.

A consumer that is so far behind that it has to drop live records pays for them twice: they are
fetched later. So it leaves the live topics, asks for what is missing window by window, and comes
back when little is. What is published in between is missing too, and is asked for like any gap: the
first live record, a HEAD or an answer to GET-HEADS tells of it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from dafka.limits import BATCH_RECORDS_MAX, REORDER_BYTES_MAX

if TYPE_CHECKING:
    from dafka.model import Batch

LEAVING_BYTES = 65_536
"""What leaving and coming back costs, per partition: everybody who has it tells its head twice, in
a message each time. As many bytes received in vain cost as much."""

AWAY_MS = 1_000
"""Least time between leaving and coming back: each costs every peer a subscription."""

CHECK_MS = 100
"""How often to look whether it is time to come back."""


class LiveEdge:
    """Leaves when dropped live records cost more than that; comes back with little missing.

    That the reorder buffer is full is the one and that a quarter of it is missing the other: in
    between, nothing changes.

    Args:
        buffer_bytes_max: What the consumer may hold for its application.
    """

    def __init__(self, buffer_bytes_max: int) -> None:
        self._buffer_bytes_max = buffer_bytes_max
        self._missing_bytes_max = min(REORDER_BYTES_MAX, buffer_bytes_max) // 4
        self._records = self._bytes = 0
        """What was taken in so far: what is missing is as large on average."""
        self._in_vain = 0
        """Bytes of live records that had to be dropped."""
        self.due_ms: int | None = None
        """When to look next; None while it listens."""

    @property
    def away(self) -> bool:
        """Whether the live topics were left."""
        return self.due_ms is not None

    def took(self, batch: Batch) -> None:
        """A batch was taken in."""
        self._records += batch.count
        self._bytes += len(batch.content)

    def records_in(self, size: int) -> int:
        """How many records so many bytes are, at least one; many if none was seen yet."""
        return max(1, size * self._records // self._bytes) if self._bytes else BATCH_RECORDS_MAX

    def overrun(self, size: int, partitions: int, now_ms: int) -> bool:
        """Live records of `size` bytes had to be dropped; whether to leave now."""
        if self.away:
            return False
        self._in_vain += size
        if self._in_vain < LEAVING_BYTES * partitions:
            return False
        self._in_vain = 0
        self.due_ms = now_ms + AWAY_MS
        return True

    def is_due(self, now_ms: int) -> bool:
        """Whether to look if it is `reached`."""
        return self.due_ms is not None and self.due_ms <= now_ms

    def reached(self, missing: int, buffered: int, now_ms: int) -> bool:
        """Whether to come back now.

        Args:
            missing: Records that can be had and were not received yet.
            buffered: Bytes that the application has not taken yet.
            now_ms: If not yet, it is due again a little later.
        """
        missing_bytes = missing * self._bytes // max(1, self._records)
        if missing_bytes > self._missing_bytes_max or buffered * 2 > self._buffer_bytes_max:
            self.due_ms = now_ms + CHECK_MS
            return False
        self.due_ms = None
        return True
