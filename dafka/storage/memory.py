"""A log that lives as long as the process: for the simulator and for tests."""

from __future__ import annotations

from bisect import bisect_right
from operator import attrgetter
from typing import TYPE_CHECKING

from dafka.storage.growth import heads_after

if TYPE_CHECKING:
    from collections.abc import Sequence

    from dafka.model import Batch, Partition

_sequence = attrgetter("sequence")


class MemoryLog:
    """The port `RecordLog` over dictionaries.

    Args:
        identity: The address of the store that owns this log.
    """

    def __init__(self, identity: str) -> None:
        self._identity = identity
        self._heads: dict[Partition, int] = {}
        self._batches: dict[Partition, list[Batch]] = {}

    @property
    def identity(self) -> str:
        """The address of the store that owns this log."""
        return self._identity

    def heads(self) -> dict[Partition, int]:
        """Return the last sequence of every partition."""
        return dict(self._heads)

    def append(self, batches: Sequence[Batch]) -> None:
        """Append `batches`, all or none.

        Raises:
            StorageError: A batch does not follow its partition's head.
        """
        grown = heads_after(self._heads, batches)
        for batch in batches:
            self._batches.setdefault(batch.partition, []).append(batch)
        self._heads.update(grown)

    def read(
        self, partition: Partition, sequence: int, count_max: int, bytes_max: int
    ) -> list[Batch]:
        """Return batches from the one that holds `sequence` on; see `RecordLog.read`."""
        if not 0 <= sequence <= self._heads.get(partition, -1):
            return []
        held = self._batches[partition]
        first = bisect_right(held, sequence, key=_sequence) - 1
        found = [held[first]]
        size = len(held[first].content)
        for batch in held[first + 1 :]:
            size += len(batch.content)
            if batch.sequence >= sequence + count_max or size > bytes_max:
                break
            found.append(batch)
        return found

    def close(self) -> None:
        """Nothing is held outside this object."""
