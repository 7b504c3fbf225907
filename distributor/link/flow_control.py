"""How much a link may have under way: what is not acknowledged yet, and how fast it may send.

Every batch costs time, the longer of what its bytes and its records cost, on one virtual clock.
`Rate` knows when all that was sent is paid for; a link may go on while that lies less than a burst
ahead. Source: the generic cell rate algorithm, ITU-T I.371: a token bucket without a timer.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from math import ceil
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

    from dafka.model import Partition


BURST_MS = 250
"""What may be sent at once is worth this long: short against a second, long against a batch."""


@dataclass(slots=True)
class InflightBatch:
    """A batch on its way."""

    end: int
    records: int
    size: int
    taken_ms: int
    pulled: bool


class Hops:
    """By partition, in order."""

    def __init__(self) -> None:
        self._under_way: dict[Partition, deque[InflightBatch]] = {}
        self._newest_ms = 0
        """When the batch was taken that was taken last of all that are stored."""

    def __bool__(self) -> bool:
        return bool(self._under_way)

    def passed_by(self, margin_ms: int) -> list[Partition]:
        """Partitions that wait while batches are stored that were sent so much later.

        What is sent first arrives first, on however slow a way.
        """
        return [
            partition
            for partition, hops in self._under_way.items()
            if hops[0].taken_ms + margin_ms <= self._newest_ms
        ]

    def largest(self, size: int) -> list[Partition]:
        """The partitions with most bytes under way, until the others have `size` at most."""
        sizes = {
            partition: sum(hop.size for hop in hops) for partition, hops in self._under_way.items()
        }
        left, chosen = sum(sizes.values()), []
        for partition in sorted(sizes, key=lambda one: (-sizes[one], one)):
            if left <= size:
                break
            left -= sizes[partition]
            chosen.append(partition)
        return chosen

    def add(self, partition: Partition, hop: InflightBatch) -> None:
        """A batch was sent, behind all before."""
        hops = self._under_way.setdefault(partition, deque())
        assert not hops or hops[-1].end < hop.end
        hops.append(hop)

    def oldest(self, partition: Partition) -> InflightBatch | None:
        """The first of a partition."""
        hops = self._under_way.get(partition)
        return hops[0] if hops else None

    def stored(self, partition: Partition, end: int) -> Iterator[InflightBatch]:
        """Take out those that end at or below `end`."""
        hops = self._under_way.get(partition)
        while hops and hops[0].end <= end:
            hop = hops.popleft()
            self._newest_ms = max(self._newest_ms, hop.taken_ms)
            yield hop
        if hops is not None and not hops:
            # Thousands of partitions are idle, and an empty deque has 600 bytes.
            del self._under_way[partition]

    def forget(self, partition: Partition) -> None:
        """Those of a partition do not count any more."""
        self._under_way.pop(partition, None)


class Rate:
    """One link's allowance.

    Args:
        bytes_per_s: None for as many as there are.
        records_per_s: The same.
    """

    def __init__(self, bytes_per_s: int | None = None, records_per_s: int | None = None) -> None:
        self._bytes_per_s = bytes_per_s
        self._records_per_s = records_per_s
        self._paid_ms = 0.0
        """When all that was sent is paid for."""

    def sent(self, size: int, records: int, now_ms: int) -> None:
        """So much has been sent."""
        cost_s = 0.0
        if self._bytes_per_s is not None:
            cost_s = size / self._bytes_per_s
        if self._records_per_s is not None:
            cost_s = max(cost_s, records / self._records_per_s)
        self._paid_ms = max(self._paid_ms, now_ms) + cost_s * 1_000

    @property
    def due_ms(self) -> int:
        """When more may be sent."""
        return ceil(self._paid_ms - BURST_MS)
