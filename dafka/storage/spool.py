"""The port a producer keeps its unstored batches behind, so that it can die and go on.

Contract, held by every implementation (tests/dafka/storage/test_spool.py):

* `address` is drawn once when the spool is created, and never changes: it is the producer's.
* `append` is one transaction. When it returns, every batch is on disk and survives a power cut;
  when it raises, none of them is there.
* A topic grows only at its end. Where it ends is remembered when all its batches are forgotten:
  a sequence is used once.
* `forget` may be lost with the process: what is sent again is what stores have already.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from dafka.storage.log import heads_after

if TYPE_CHECKING:
    from collections.abc import Sequence

    from dafka.model import Batch, Partition


class Spool(Protocol):
    """The unstored batches of one producer."""

    @property
    def address(self) -> str:
        """The producer's address: 32 upper-case hex digits."""

    def ends(self) -> dict[str, int]:
        """Return the sequence after the last record ever appended, by topic."""

    def batches(self) -> list[Batch]:
        """Return what was appended and not forgotten, each topic in order."""

    def append(self, batches: Sequence[Batch]) -> None:
        """Append `batches` durably, in the order given, all or none.

        Raises:
            StorageError: The disk refused, or a batch does not follow its topic's end.
        """

    def forget(self, topic: str, end: int) -> None:
        """Enough stores have every record of `topic` below `end`."""

    def close(self) -> None:
        """Release the spool. Nothing may be called after it."""


class MemorySpool:
    """The port `Spool` over dictionaries: for the simulator and for tests.

    Args:
        address: The producer's.
    """

    def __init__(self, address: str) -> None:
        self.address = address
        self._heads: dict[Partition, int] = {}
        self._batches: dict[str, list[Batch]] = {}

    def load(self, other: MemorySpool) -> None:
        """Hold what another one holds now, apart from it: as a process that opens its disk."""
        self._heads = dict(other._heads)
        self._batches = {topic: list(batches) for topic, batches in other._batches.items()}

    def ends(self) -> dict[str, int]:
        """Return the sequence after the last record ever appended, by topic."""
        return {partition.topic: head + 1 for partition, head in self._heads.items()}

    def batches(self) -> list[Batch]:
        """Return what was appended and not forgotten, each topic in order."""
        return [batch for batches in self._batches.values() for batch in batches]

    def append(self, batches: Sequence[Batch]) -> None:
        """Append `batches`, all or none.

        Raises:
            StorageError: A batch does not follow its topic's end.
        """
        self._heads.update(heads_after(self._heads, batches))
        for batch in batches:
            self._batches.setdefault(batch.partition.topic, []).append(batch)

    def forget(self, topic: str, end: int) -> None:
        """Enough stores have every record of `topic` below `end`."""
        kept = self._batches.get(topic, [])
        self._batches[topic] = [batch for batch in kept if batch.end > end]

    def close(self) -> None:
        """Nothing is held outside this object."""
