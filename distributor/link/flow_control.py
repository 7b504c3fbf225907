"""How much a link has under way: what is not acknowledged yet."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

    from dafka.model import Partition
    from dafka.records.sampling import SampledRecord


@dataclass(slots=True)
class InflightBatch:
    """A batch on its way."""

    end: int
    records: int
    size: int
    taken_ms: int
    pulled: bool
    sampled: tuple[SampledRecord, ...] = ()


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
