"""Whether a consumer listens to what is published now, or only reads what stores have.

A consumer that is so far behind that it has to drop live records pays for them twice: they are
fetched later. So it leaves the live topics, asks for what is missing window by window, and comes
back when little is. What is published in between is missing too, and is asked for like any gap: the
first live record, a HEAD, an answer to GET-HEADS or an ACK tells of it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from dafka.limits import REORDER_BYTES_MAX

if TYPE_CHECKING:
    from collections.abc import Callable

LEAVING_BYTES = 65_536
"""What leaving and coming back costs, per partition whose head is asked for: everybody who has it
tells it twice. As many bytes received in vain cost as much."""

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
        self._in_vain = 0
        """Bytes of live records that had to be dropped."""
        self.due_ms: int | None = None
        """When to look next; None while it listens."""

    @property
    def away(self) -> bool:
        """Whether the live topics were left."""
        return self.due_ms is not None

    def overrun(self, size: int, asked: int, now_ms: int) -> bool:
        """Live records had to be dropped; whether to leave now.

        Args:
            size: Of their contents, in bytes.
            asked: Partitions whose heads will have to be asked for.
            now_ms: The time.
        """
        if self.away:
            return False
        self._in_vain += size
        if self._in_vain < LEAVING_BYTES * max(1, asked):
            return False
        self._in_vain = 0
        self.due_ms = now_ms + AWAY_MS
        return True

    def is_due(self, now_ms: int) -> bool:
        """Whether to look if it is `reached`."""
        return self.due_ms is not None and self.due_ms <= now_ms

    def reached(self, misses: Callable[[int], bool], buffered: int, now_ms: int) -> bool:
        """Whether to come back now.

        Args:
            misses: Whether more than so many bytes can be had and were not received yet.
            buffered: Bytes that the application has not taken yet.
            now_ms: If not yet, it is due again a little later.
        """
        if buffered * 2 > self._buffer_bytes_max or misses(self._missing_bytes_max):
            self.due_ms = now_ms + CHECK_MS
            return False
        self.due_ms = None
        return True
