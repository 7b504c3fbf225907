"""Ranges of partitions, and how they are dealt to tasks.

Everything here depends on its arguments alone: a micro-batch that is planned again after a crash
is cut into the same tasks.

How far a stream has come: what Spark keeps in its checkpoint.

| field | meaning |
|---|---|
| `next` | of every partition, the sequence after the last one read |
| `from` | of the partitions that are new in this micro-batch, where they begin |
| `begun` | whether it has been settled where the stream begins |
| `deal` | at least so many tasks, at most so many records in each |

Spark's log holds only where micro-batches end. Where the first one began it asks again after a
crash, and the answer to "latest" would be another one then; so the end carries the beginnings too.
So it does how a micro-batch was dealt to tasks: one that is repeated under other options must come
in the same tasks, for a sink knows its rows by them. The initial offset says nothing at all.
Spark compares offsets as text, hence the order.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

from dafka.errors import MisuseError
from dafka.model import Partition

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from dafka.spark.options import Bound


class Range(NamedTuple):
    """Records of one partition, from sequence `start` to below `end`."""

    partition: Partition
    start: int
    end: int

    @property
    def records(self) -> int:
        """How many that is."""
        return self.end - self.start


TaskRanges = tuple[Range, ...]


def dealt(ranges: Iterable[Range], records_max: int, tasks_min: int) -> list[TaskRanges]:
    """Deal ranges to tasks of equal size, in order, cutting where a task is full.

    Args:
        ranges: What is to be read.
        records_max: At most so many records in a task.
        tasks_min: At least so many tasks, as far as there are records.
    """
    left = [one for one in ranges if one.records > 0]
    total = sum(one.records for one in left)
    if not total:
        return []
    tasks = min(total, max(tasks_min, -(-total // records_max)))
    dealt_tasks: list[TaskRanges] = []
    given = 0
    left.reverse()
    for number in range(1, tasks + 1):
        task: list[Range] = []
        # Shares by rounding the running total, so that none differs by more than one record.
        while given < total * number // tasks:
            partition, start, end = left.pop()
            cut = min(end, start + total * number // tasks - given)
            task.append(Range(partition, start, cut))
            given += cut - start
            if cut < end:
                left.append(Range(partition, cut, end))
        dealt_tasks.append(tuple(task))
    return dealt_tasks


def dealt_whole(ranges: Iterable[Range], records_max: int, tasks_min: int) -> list[TaskRanges]:
    """Deal ranges to tasks without cutting any: who writes needs each partition in order.

    Args:
        ranges: What is to be read.
        records_max: So many records in a task are meant; a larger range is one all the same.
        tasks_min: At least so many tasks, as far as there are ranges.
    """
    there = (one for one in ranges if one.records > 0)
    largest_first = sorted(there, key=lambda one: (-one.records, one))
    total = sum(one.records for one in largest_first)
    count = min(len(largest_first), max(tasks_min, -(-total // records_max)))
    tasks: list[list[Range]] = [[] for _ in range(count)]
    sizes = [0] * count
    for one in largest_first:
        least = sizes.index(min(sizes))
        tasks[least].append(one)
        sizes[least] += one.records
    return [tuple(task) for task in tasks]


def limited(
    starts: Mapping[Partition, int], ends: Mapping[Partition, int], records_max: int | None
) -> dict[Partition, int]:
    """Return ends of which all ranges together hold at most `records_max` records.

    Each partition gets a share in proportion to what it has, and at least one record, so that none
    waits for ever behind large ones. Where there are more partitions than records allowed, one of
    each passes the limit, as in Spark's Kafka source.
    """
    sizes = {partition: ends[partition] - starts[partition] for partition in sorted(ends)}
    total = sum(sizes.values())
    if records_max is None or total <= records_max:
        return dict(ends)
    waiting = {partition: size for partition, size in sizes.items() if size > 0}
    spare, others = max(0, records_max - len(waiting)), max(1, total - len(waiting))
    cut = dict(starts)
    seen = 0
    for partition, size in waiting.items():
        # Shares by rounding the running total, so that together they are exactly what there is.
        before = seen * spare // others
        seen += size - 1
        cut[partition] += 1 + seen * spare // others - before
    return cut


Places = dict[str, dict[str, int]]


@dataclass(frozen=True, slots=True)
class Progress:
    """How far a stream has come.

    Attributes:
        begun: Whether it has been settled where it begins.
        begins: Where the partitions begin that are new in this micro-batch.
        nexts: The sequence after the last one read.
        deal: At least so many tasks, and at most so many records in each.
    """

    begun: bool = False
    begins: Mapping[Partition, int] = field(default_factory=dict)
    nexts: Mapping[Partition, int] = field(default_factory=dict)
    deal: tuple[int, int] = (1, 1)

    def as_json(self) -> dict[str, Any]:
        """What Spark keeps."""
        return {
            "begun": self.begun,
            "deal": [*self.deal],
            "from": _places(self.begins),
            "next": _places(self.nexts),
        }

    @classmethod
    def of_json(cls, offset: Mapping[str, Any]) -> Progress:
        """Read what Spark has kept.

        Raises:
            MisuseError: It was not written by this source.
        """
        try:
            tasks_min, records_per_task = map(int, offset["deal"])
            return cls(
                offset["begun"] is True,
                _sequences(offset["from"]),
                _sequences(offset["next"]),
                (tasks_min, records_per_task),
            )
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise MisuseError(f"the checkpoint holds no offset of this source: {offset}") from error

    def after(
        self, there: Mapping[Partition, range], starting: Bound, records_max: int | None
    ) -> Progress:
        """Return how far the next micro-batch shall come: itself if there is nothing to read.

        Args:
            there: The sequences of every partition that is wanted.
            starting: Where the stream begins.
            records_max: At most so many records.
        """
        new = {
            partition: self._begin(partition, sequences, starting)
            for partition, sequences in there.items()
            if partition not in self.nexts
        }
        starts = {**self.nexts, **new}
        # A cluster that the stream was moved to may not have all of it yet.
        ends = {
            partition: max(start, there[partition].stop if partition in there else 0)
            for partition, start in starts.items()
        }
        cut = limited(starts, ends, records_max)
        moved = {partition for partition, end in cut.items() if end > starts[partition]}
        if self.begun and not moved:
            return self
        kept = {partition: start for partition, start in new.items() if partition in moved}
        begins = kept if self.begun else new
        nexts = {partition: cut[partition] for partition in (*self.nexts, *begins)}
        return Progress(True, begins, nexts, self.deal)

    def ranges_to(self, end: Progress) -> list[Range]:
        """What lies between this and `end`, of which nothing else is known.

        Raises:
            MisuseError: They are not the start and the end of one micro-batch.
        """
        ranges: list[Range] = []
        for partition, stop in sorted(end.nexts.items()):
            start = self.nexts.get(partition, end.begins.get(partition))
            if start is None:
                raise MisuseError(f"the checkpoint does not say where {partition} begins")
            ranges.append(Range(partition, start, stop))
        return ranges

    def _begin(self, partition: Partition, there: range, starting: Bound) -> int:
        if not self.begun:
            return starting.of(partition, there)
        # What came into being after the stream began is read from its beginning. Whether it matters
        # that some of that is gone already, reading decides.
        return max(0, starting.sequences.get(partition, 0))


def _places(sequences: Mapping[Partition, int]) -> Places:
    places: Places = {}
    for (topic, address), sequence in sorted(sequences.items()):
        places.setdefault(topic, {})[address] = sequence
    return places


def _sequences(places: Places) -> dict[Partition, int]:
    return {
        Partition(topic, address): int(sequence)
        for topic, sequences in places.items()
        for address, sequence in sequences.items()
    }
