"""What a store has taken in and is about to write, and when that is enough."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from dafka.model import Batch, Partition
    from dafka.protocol.effects import Append

STAGED_BYTES_MAX = 2 * 1024 * 1024
"""What is written at once. More costs more a byte: what is copied together and then to the disk
falls out of a core's caches, and then out of the memory that a process keeps. 110 MB at once cost
three times as much CPU time a byte as 2 MiB, and 2 MiB are worth a sync."""


class Staged:
    """Batches in the order they were taken in."""

    def __init__(self) -> None:
        self._batches: list[Batch] = []
        self._bytes = 0

    def __iter__(self) -> Iterator[Batch]:
        return iter(self._batches)

    def __bool__(self) -> bool:
        return bool(self._batches)

    @property
    def full(self) -> bool:
        """Whether it is to be written before more is taken in."""
        return self._bytes >= STAGED_BYTES_MAX

    def add(self, batch: Batch) -> None:
        """Put one behind the others."""
        self._batches.append(batch)
        self._bytes += len(batch.content)

    def drop(self, partition: Partition) -> None:
        """Do without those of a partition."""
        kept = [batch for batch in self._batches if batch.partition != partition]
        self._batches, self._bytes = kept, sum(len(batch.content) for batch in kept)

    def take(self) -> tuple[Batch, ...]:
        """Take all out."""
        taken, self._batches, self._bytes = tuple(self._batches), [], 0
        return taken


def under_way(
    skipped: Iterable[Partition], staged: Iterable[Batch], appending: Iterable[Append]
) -> set[Partition]:
    """The partitions that are about to get something, or to go on behind something."""
    busy = {*skipped, *(batch.partition for batch in staged)}
    for append in appending:
        busy |= dict(append.skips).keys() | {batch.partition for batch in append.batches}
    return busy
