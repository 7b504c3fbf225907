"""What a gateway has published and is not stored yet: while it is much, no more is taken in."""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from dafka.model import Batch, Partition

BYTES_MAX = 64 * 1024 * 1024
BATCHES_MAX = 50_000
"""Each has a kilobyte and more of tables beside its content, which may have a hundred bytes."""


class Unstored:
    """What is under way to the stores.

    Args:
        bytes_max: Of all contents.
        batches_max: How many there may be.
    """

    def __init__(self, bytes_max: int = BYTES_MAX, batches_max: int = BATCHES_MAX) -> None:
        self._bytes_max, self._batches_max = bytes_max, batches_max
        self._bytes = self._batches = 0
        self._ends: dict[Partition, deque[int]] = {}
        """Where the batches of each log end."""

    @property
    def is_much(self) -> bool:
        """Whether no more is to be taken in."""
        return self._bytes > self._bytes_max or self._batches > self._batches_max

    def add(self, batch: Batch) -> None:
        """A batch is published, behind all of its log."""
        self._ends.setdefault(batch.partition, deque()).append(batch.end)
        self._bytes += len(batch.content)
        self._batches += 1

    def stored(self, partition: Partition, end: int, size: int) -> None:
        """Enough stores have a log below `end`, which are so many bytes more than before."""
        self._bytes -= size
        ends = self._ends.get(partition, deque())
        while ends and ends[0] <= end:
            ends.popleft()
            self._batches -= 1
        if not ends:
            self._ends.pop(partition, None)
