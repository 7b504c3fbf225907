"""A log that lives as long as the process: for the simulator and for tests."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from itertools import islice
from operator import attrgetter
from typing import TYPE_CHECKING, NamedTuple

from dafka.limits import FORGOTTEN_MAX
from dafka.model import Batch
from dafka.storage.log import (
    NONE,
    NOTHING,
    ChangeOrder,
    Extent,
    Outline,
    checked,
    emptied,
    extended,
    skipped,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Mapping, Sequence

    from dafka.model import Partition
    from dafka.storage.log import TableEntry


class _Kept(NamedTuple):
    """A batch with its running maximum time; one without content is a gap."""

    batch: Batch
    newest_ms: int


_sequence = attrgetter("batch.sequence")
_newest_ms = attrgetter("newest_ms")


class MemoryLog:
    """The port `RecordLog` over dictionaries.

    Args:
        identity: The address of the store that owns this log.
        clock: Wall time in milliseconds: the time of batches that carry none.
        forgotten_max: Of how many partitions that are forgotten it remembers where they ended.
    """

    def __init__(
        self,
        identity: str,
        clock: Callable[[], int] = lambda: 0,
        forgotten_max: int = FORGOTTEN_MAX,
    ) -> None:
        self._identity = identity
        self._forgotten_max = forgotten_max
        self._forgotten: dict[Partition, Extent] = {}
        self._numbers: dict[Partition, int] = {}
        """In which order they were forgotten."""
        self._clock = clock
        self.changes = ChangeOrder(identity)
        self._extents: dict[Partition, Extent] = {}
        self._kept: dict[Partition, list[_Kept]] = {}
        self._tables: dict[str, dict[bytes, bytes]] = {}

    def load(self, other: MemoryLog) -> None:
        """Hold what another one holds now, apart from it: as a process that opens its disk."""
        self._extents = dict(other._extents)
        self._forgotten, self._numbers = dict(other._forgotten), dict(other._numbers)
        self._kept = {partition: list(kept) for partition, kept in other._kept.items()}
        self._tables = {table: dict(values) for table, values in other._tables.items()}

    @property
    def identity(self) -> str:
        """The address of the store that owns this log."""
        return self._identity

    @property
    def records(self) -> int:
        """How many records all partitions have ever had, without those that are forgotten."""
        return sum(extent.head + 1 for extent in self._extents.values())

    @property
    def forgotten(self) -> int:
        """Of how many forgotten partitions it is known where they ended."""
        return len(self._forgotten)

    def heads(self) -> dict[Partition, int]:
        """Return the last sequence of every partition."""
        return {partition: extent.head for partition, extent in self._extents.items()}

    def extents(self) -> Mapping[Partition, Extent]:
        """Return what there is of every partition."""
        return self._extents

    def append(
        self,
        batches: Sequence[Batch],
        *,
        trims: Mapping[Partition, int] = NOTHING,
        skips: Mapping[Partition, int] = NOTHING,
        entries: Sequence[TableEntry] = (),
        forgets: Collection[Partition] = NONE,
        erases: Collection[Partition] = NONE,
    ) -> None:
        """Change the log in one transaction; see `RecordLog.append`.

        Raises:
            StorageError: A batch does not follow its partition's head, an entry does not fit, or of
                what is to be forgotten something is kept.
        """
        touched = [*trims, *skips, *(batch.partition for batch in batches)]
        recalled = self.recall(touched)
        known = self._extents | recalled if recalled else self._extents
        checked(known, batches, skips, entries, [*forgets, *erases])
        for partition, extent in recalled.items():
            del self._forgotten[partition], self._numbers[partition]
            self._extents[partition] = extent
        for partition, sequence in trims.items():
            self._trim(partition, sequence)
        skipped_over = [one for one, sequence in skips.items() if self._skip(one, sequence)]
        for batch in batches:
            partition = batch.partition
            extent = extended(self._extents.get(partition), batch, self._clock())
            self._extents[partition] = extent
            self._kept.setdefault(partition, []).append(_Kept(batch, extent.newest_ms))
        for partition in forgets:
            self._forgotten[partition] = self._extents.pop(partition)
            self._numbers[partition] = next(reversed(self._numbers.values()), -1) + 1
            self._kept.pop(partition, None)
        for partition in erases:
            del self._extents[partition]
            self._kept.pop(partition, None)
        while len(self._forgotten) > self._forgotten_max:
            oldest = next(iter(self._forgotten))
            del self._forgotten[oldest], self._numbers[oldest]
        changed = [*trims, *skipped_over, *(batch.partition for batch in batches)]
        self.changes.note([*recalled, *changed, *forgets, *erases])
        for table, key, value in entries:
            values = self._tables.setdefault(table, {})
            if value is None:
                values.pop(key, None)
            else:
                values[key] = value

    def ends(self) -> dict[Partition, int]:
        """Return where every partition ends, also those that are forgotten."""
        extents = self._extents | self._forgotten
        return {partition: extent.head + 1 for partition, extent in extents.items()}

    def recall(self, partitions: Iterable[Partition]) -> dict[Partition, Extent]:
        """Return how each of these ended that is forgotten."""
        return {one: self._forgotten[one] for one in partitions if one in self._forgotten}

    def forgotten_behind(self, number: int, count_max: int) -> list[tuple[int, Partition, Extent]]:
        """Return forgotten partitions in order; see `RecordLog.forgotten_behind`."""
        rows = ((self._numbers[one], one, extent) for one, extent in self._forgotten.items())
        return list(islice((row for row in rows if row[0] > number), count_max))

    def read(
        self, partition: Partition, sequence: int, count_max: int, bytes_max: int
    ) -> list[Batch]:
        """Return batches from the one that holds `sequence` on; see `RecordLog.read`."""
        found: list[Batch] = []
        size = 0
        for batch, _ in self._from(partition, sequence):
            size += len(batch.content)
            full = batch.sequence >= sequence + count_max or size > bytes_max
            if found and (full or not batch.content):
                break
            if batch.content:
                found.append(batch)
        return found

    def outlines(self, partition: Partition, sequence: int, count_max: int) -> list[Outline]:
        """Return batches in outline; see `RecordLog.outlines`."""
        return [
            Outline(batch.sequence, batch.end, len(batch.content), newest_ms)
            for batch, newest_ms in self._from(partition, sequence)[:count_max]
        ]

    def find(self, partition: Partition, timestamp_ms: int) -> int | None:
        """Return where the records of a time begin; see `RecordLog.find`."""
        held = [kept for kept in self._kept.get(partition, ()) if kept.batch.content]
        index = bisect_left(held, timestamp_ms, key=_newest_ms)
        return held[index].batch.sequence if index < len(held) else None

    def get(self, table: str, key: bytes) -> bytes | None:
        """Return the value of `key`, None if there is none."""
        return self._tables.get(table, {}).get(key)

    def scan(
        self, table: str, prefix: bytes, count_max: int, after: bytes | None = None
    ) -> list[tuple[bytes, bytes]]:
        """Return keys with their values, in order; see `RecordLog.scan`."""
        found = sorted(self._tables.get(table, {}).items())
        chosen = [pair for pair in found if pair[0].startswith(prefix)]
        return [pair for pair in chosen if after is None or pair[0] > after][:count_max]

    def commit(self) -> None:
        """Nothing is left for later."""

    def close(self) -> None:
        """Nothing is held outside this object."""

    def _trim(self, partition: Partition, sequence: int) -> None:
        known = self._extents.get(partition, Extent(0, -1, 0, 0, 0))
        held = self._kept.setdefault(partition, [])
        held[:] = [kept for kept in held if kept.batch.end > sequence]
        while held and not held[0].batch.content:
            del held[0]
        size = sum(len(kept.batch.content) for kept in held)
        if held:
            start, oldest_ms = held[0].batch.sequence, held[0].newest_ms
            self._extents[partition] = known._replace(start=start, size=size, oldest_ms=oldest_ms)
        else:
            self._extents[partition] = emptied(known.head + 1, known.newest_ms)

    def _skip(self, partition: Partition, sequence: int) -> bool:
        known = self._extents.get(partition)
        head = -1 if known is None else known.head
        if sequence <= head + 1:
            return False
        self._extents[partition] = extent = skipped(known, sequence)
        if extent.start <= head:
            gap = Batch(partition, head + 1, sequence - head - 1, b"")
            self._kept[partition].append(_Kept(gap, extent.newest_ms))
        return True

    def _from(self, partition: Partition, sequence: int) -> list[_Kept]:
        extent = self._extents.get(partition)
        if extent is None or not extent.start <= sequence <= extent.head:
            return []
        held = self._kept[partition]
        return held[bisect_right(held, sequence, key=_sequence) - 1 :]
