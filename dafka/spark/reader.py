"""Reading a cluster: a bounded part by `spark.read`, as it grows by `spark.readStream`.

Filters that say which ranges to read need not be applied to rows.
"""

from __future__ import annotations

from dataclasses import replace
from math import inf
from typing import TYPE_CHECKING, Any, TypeVar

from pyspark.sql.datasource import (
    DataSourceReader,
    DataSourceStreamReader,
    EqualTo,
    GreaterThan,
    GreaterThanOrEqual,
    In,
    InputPartition,
    IsNotNull,
    LessThan,
    LessThanOrEqual,
)
from pyspark.sql.streaming.datasource import (
    ReadAllAvailable,
    ReadLimit,
    ReadMaxRows,
    SupportsTriggerAvailableNow,
)

from dafka.arrow.columns import shown
from dafka.errors import MisuseError
from dafka.limits import SPARK_FORGOTTEN_MAX
from dafka.model import Range
from dafka.process.clock import CLOCK
from dafka.spark.planning import RangeReader, patiently
from dafka.spark.progress import Progress

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    import pyarrow as pa
    from pyspark.sql.datasource import Filter

    from dafka.model import Partition
    from dafka.process.clock import Clock
    from dafka.spark.options import SourceOptions
    from dafka.spark.planning import TaskRanges
    from dafka.spark.rows import RowReader


class Task(InputPartition):
    """What one task reads.

    Args:
        ranges: Of it.
        silent: Query ports of stores that did not answer who planned it.
    """

    def __init__(self, ranges: TaskRanges, silent: tuple[str, ...] = ()) -> None:
        super().__init__(ranges)
        self.ranges = ranges
        self.silent = silent


class BatchReader(DataSourceReader):
    """Plans on the driver, reads on the executors.

    Args:
        options: Checked.
        rows: What is read.
    """

    def __init__(self, options: SourceOptions, rows: RowReader) -> None:
        self._options = options
        self._rows = rows

    def partitions(self) -> list[InputPartition]:
        """Resolve where reading begins and ends, and deal it to tasks.

        Raises:
            QueryError: No store answers.
        """
        with RangeReader(self._options.cluster.open()) as stores:
            ranges = self.planned(stores)
            silent = stores.silent
        return [Task(task, silent) for task in self._rows.deal(ranges, self._options)]

    def planned(self, stores: RangeReader) -> list[Range]:
        """The ranges to read; see `planned`."""
        return planned(stores, self._options)

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Yield the rows of a task; see `RowReader.read`."""
        # Where nothing is planned Spark makes up an empty partition of its own.
        if isinstance(partition, Task):
            yield from self._rows.read(partition.ranges, self._options, partition.silent)


def planned(stores: RangeReader, options: SourceOptions) -> list[Range]:
    """The ranges a batch reads, by partition.

    Raises:
        MisuseError: It is to end behind what is there.
        QueryError: No store answers.
    """
    found = stores.there(options.topics)
    for partition, asked in options.ending.sequences.items():
        there = found.get(partition, range(0))
        if asked > there.stop:
            raise MisuseError(
                f"option 'endingOffsets': partition {partition.address!r} of topic "
                f"{partition.topic!r} ends at {there.stop}, before {asked}"
            )
    starting = stores.settled(options.starting, found)
    ending = stores.settled(options.ending, found)
    ranges: list[Range] = []
    for partition, there in sorted(found.items()):
        start = starting.of(partition, there)
        end = ending.of(partition, there)
        ranges.append(Range(partition, start, end))
    return ranges


_NAMES = ("topic", "partition")
_END = 1 << 63


class Narrowing:
    """What filters leave of a range."""

    def __init__(self) -> None:
        self._allowed: dict[str, set[str]] = {}
        self._start, self._end = 0, _END

    def take(self, condition: Filter) -> bool:
        """Take a filter in; False if it has to be applied to the rows."""
        match condition:
            case IsNotNull(attribute=(name,)):
                return name in (*_NAMES, "offset")
            case EqualTo(attribute=(name,), value=value) if name in _NAMES:
                self._allow(name, [value])
            case In(attribute=(name,), value=values) if name in _NAMES:
                self._allow(name, values)
            case EqualTo(attribute=("offset",), value=int(value)):
                self._bound(value, value + 1)
            case GreaterThan(attribute=("offset",), value=int(value)):
                self._bound(value + 1, _END)
            case GreaterThanOrEqual(attribute=("offset",), value=int(value)):
                self._bound(value, _END)
            case LessThan(attribute=("offset",), value=int(value)):
                self._bound(0, value)
            case LessThanOrEqual(attribute=("offset",), value=int(value)):
                self._bound(0, value + 1)
            case _:
                return False
        return True

    def of(self, ranges: Iterable[Range]) -> Iterator[Range]:
        """Yield what is left of ranges."""
        for partition, start, end in ranges:
            names = zip(_NAMES, partition, strict=True)
            if all(shown(name) in self._allowed.get(kind, {shown(name)}) for kind, name in names):
                yield Range(partition, max(start, self._start), min(end, self._end))

    def _allow(self, name: str, values: Iterable[str]) -> None:
        self._allowed[name] = self._allowed.get(name, set(values)) & set(values)

    def _bound(self, start: int, end: int) -> None:
        self._start, self._end = max(self._start, start), min(self._end, end)


class NarrowingReader(BatchReader):
    """A reader that Spark tells the filters of a query.

    Only for sessions with `spark.sql.python.filterPushdown.enabled`: in others Spark refuses a
    reader that could take filters.

    Args:
        options: Checked.
        rows: What is read.
    """

    def __init__(self, options: SourceOptions, rows: RowReader) -> None:
        super().__init__(options, rows)
        self._narrowing = Narrowing()

    def pushFilters(self, filters: list[Filter]) -> Iterable[Filter]:  # noqa: N802 (Spark's name)
        """Take filters; yields those that Spark has to apply."""
        for condition in filters:
            if not self._narrowing.take(condition):
                yield condition

    def planned(self, stores: RangeReader) -> list[Range]:
        """The ranges to read, less what the filters leave out."""
        return list(self._narrowing.of(super().planned(stores)))


T = TypeVar("T")


class StreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Plans every micro-batch on the driver, reads on the executors.

    Args:
        options: Checked.
        rows: What is read.
        forgotten_max: Of how many partitions that no store lists any more it is kept where they
            go on.
        clock: What time it is.
    """

    def __init__(
        self,
        options: SourceOptions,
        rows: RowReader,
        forgotten_max: int = SPARK_FORGOTTEN_MAX,
        clock: Clock = CLOCK,
    ) -> None:
        self._options = options
        self._rows = rows
        self._forgotten_max = forgotten_max
        self._clock = clock
        self._planned_s = -inf
        """When the last micro-batch was planned. After a restart nothing is waited for: how long it
        took nobody knows."""
        self._planned = Progress()
        """How far the last one goes that was planned."""
        self._last: dict[Partition, range] | None = None
        """What there was when a run over everything available began."""
        self._stores: RangeReader | None = None
        """The driver's, for all micro-batches: it knows who does not answer."""

    def __getstate__(self) -> dict[str, Any]:
        """Connections do not travel to executors."""
        return {**self.__dict__, "_stores": None}

    def stop(self) -> None:
        """The query has ended."""
        if self._stores is not None:
            self._stores.close()
            self._stores = None

    def initialOffset(self) -> dict[str, Any]:  # noqa: N802 (Spark's name, and so below)
        """Before everything; where that is, the first micro-batch settles."""
        return Progress().as_json()

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802
        """What `maxOffsetsPerTrigger` says."""
        records = self._options.records_per_trigger
        return ReadAllAvailable() if records is None else ReadMaxRows(records)

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:  # noqa: N802
        """How far the next micro-batch goes.

        Raises:
            QueryError: No store has answered for `PATIENCE_S`.
        """
        records = limit.max_rows if isinstance(limit, ReadMaxRows) else None
        progress = Progress.of_json(start)
        following = self._patiently(lambda stores: self._after(stores, progress, records))
        self._planned = progress
        if following is progress or self._waits_for_more(progress, following):
            return start
        self._planned = following
        self._planned_s = self._clock.seconds()
        deal = (self._options.tasks_min, self._options.records_per_task)
        return replace(following, deal=deal).as_json()

    def reportLatestOffset(self) -> dict[str, Any]:  # noqa: N802
        """How far the stream is behind, in records, for Spark's progress reports."""
        there = self._patiently(self._there)
        following = self._planned.after(there, self._options.starting, None)
        behind = sum(one.records for one in self._planned.ranges_to(following))
        return {"behind": behind, "partitions": len(there)}

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802
        """From here on nothing that comes later is read."""
        self._last = self._patiently(self._there)

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[InputPartition]:
        """Deal a micro-batch to tasks; the same ones when it is planned again."""
        until = self._planned = Progress.of_json(end)
        ranges = Progress.of_json(start).ranges_to(until)
        tasks_min, records_per_task = until.deal
        dealing = replace(self._options, tasks_min=tasks_min, records_per_task=records_per_task)
        silent = () if self._stores is None else self._stores.silent
        return [Task(task, silent) for task in self._rows.deal(ranges, dealing)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Yield the rows of a task; see `RowReader.read`."""
        assert isinstance(partition, Task)
        yield from self._rows.read(partition.ranges, self._options, partition.silent)

    def _waits_for_more(self, progress: Progress, following: Progress) -> bool:
        """Whether there is less than a micro-batch is to have, and that may still come."""
        least = self._options.records_per_trigger_min
        if least is None or not progress.begun or self._last is not None:
            return False
        late_s = self._planned_s + self._options.trigger_delay_ms / 1_000
        records = sum(one.records for one in progress.ranges_to(following))
        return records < least and self._clock.seconds() < late_s

    def _there(self, stores: RangeReader) -> dict[Partition, range]:
        return self._available(stores.there(self._options.topics))

    def _available(self, there: dict[Partition, range]) -> dict[Partition, range]:
        if self._last is None:
            return there
        return {
            partition: range(kept.start, min(kept.stop, self._last[partition].stop))
            for partition, kept in there.items()
            if partition in self._last
        }

    def _after(self, stores: RangeReader, progress: Progress, records_max: int | None) -> Progress:
        listed, all_answer = stores.listed(self._options.topics)
        there = self._available(listed)
        starting = self._options.starting
        if not progress.begun:
            starting = stores.settled(starting, there)
        takes = self._options.topics.takes
        unlisted = [one for one in progress.nexts if one not in listed and takes(one)]
        # A store that is away may list it again.
        ends = stores.ends(unlisted) if unlisted and all_answer else None
        if ends is None:
            return progress.after(there, starting, records_max)
        # Retention was faster than the stream: reading fails or passes over, nothing hides it.
        overtaken = {one: range(at, at) for one, at in ends.items() if at > progress.nexts[one]}
        following = progress.after({**there, **overtaken}, starting, records_max)
        if following is progress:
            return progress
        read = [one for one in unlisted if one not in overtaken]
        return following.without(read, self._forgotten_max)

    def _patiently(self, ask: Callable[[RangeReader], T]) -> T:
        if self._stores is None:
            self._stores = RangeReader(self._options.cluster.open())
        return patiently(self._stores, ask)
