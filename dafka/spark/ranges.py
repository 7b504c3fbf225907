"""Ranges of partitions, and how they are dealt to tasks.

Everything here depends on its arguments alone: a micro-batch that is planned again after a crash
is cut into the same tasks.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from dafka.model import Partition


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
