"""The batches that a gateway has published lately: who reads at the end need not ask a store."""

from __future__ import annotations

from bisect import bisect_right
from collections import deque
from operator import attrgetter
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from dafka.model import Batch, Partition


class RecentBatches:
    """Some batches, of each partition the last ones and in order.

    Args:
        bytes_max: Of all contents; the oldest go first.
    """

    def __init__(self, bytes_max: int) -> None:
        self._bytes_max = bytes_max
        self._bytes = 0
        self._by_age: deque[Batch] = deque()
        self._batches: dict[Partition, deque[Batch]] = {}

    def add(self, batch: Batch) -> None:
        """Keep a batch, which lies behind all of its partition that were added before."""
        self._by_age.append(batch)
        self._batches.setdefault(batch.partition, deque()).append(batch)
        self._bytes += len(batch.content)
        while self._bytes > self._bytes_max:
            oldest = self._by_age.popleft()
            self._bytes -= len(oldest.content)
            kept = self._batches[oldest.partition]
            kept.popleft()
            if not kept:
                del self._batches[oldest.partition]

    def at(self, partition: Partition, sequence: int) -> Batch | None:
        """Return the batch that holds `sequence`; None if it is not here."""
        kept = self._batches.get(partition)
        if kept is None:
            return None
        place = bisect_right(kept, sequence, key=attrgetter("end"))
        if place == len(kept) or kept[place].sequence > sequence:
            return None
        return kept[place]
