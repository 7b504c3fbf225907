"""Reading a cluster as it grows: `spark.readStream.format("dafka")`."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, TypeVar

from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import (
    ReadAllAvailable,
    ReadLimit,
    ReadMaxRows,
    SupportsTriggerAvailableNow,
)

from dafka.spark.batch_reader import Task
from dafka.spark.offsets import Progress
from dafka.spark.stores import patiently

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    import pyarrow as pa

    from dafka.model import Partition
    from dafka.spark.options import SourceOptions
    from dafka.spark.rows import Rows
    from dafka.spark.stores import Stores

T = TypeVar("T")


class StreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Plans every micro-batch on the driver, reads on the executors.

    Args:
        options: Checked.
        rows: What is read.
    """

    def __init__(self, options: SourceOptions, rows: Rows) -> None:
        self._options = options
        self._rows = rows
        self._last: dict[Partition, range] | None = None
        """What there was when a run over everything available began."""

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
        if following is progress:
            return start
        deal = (self._options.tasks_min, self._options.records_per_task)
        return replace(following, deal=deal).as_json()

    def reportLatestOffset(self) -> dict[str, Any]:  # noqa: N802
        """How far the stream could go, for Spark's progress reports."""
        there = self._patiently(self._there)
        nexts = {partition: kept.stop for partition, kept in there.items()}
        return Progress(True, {}, nexts).as_json()

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802
        """From here on nothing that comes later is read."""
        self._last = self._patiently(self._there)

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[InputPartition]:
        """Deal a micro-batch to tasks; the same ones when it is planned again."""
        until = Progress.of_json(end)
        ranges = Progress.of_json(start).ranges_to(until)
        tasks_min, records_per_task = until.deal
        dealing = replace(self._options, tasks_min=tasks_min, records_per_task=records_per_task)
        return [Task(task) for task in self._rows.deal(ranges, dealing)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Yield the rows of a task; see `Rows.read`."""
        assert isinstance(partition, Task)
        yield from self._rows.read(partition.ranges, self._options)

    def _there(self, stores: Stores) -> dict[Partition, range]:
        there = stores.there(self._options.topics)
        if self._last is None:
            return there
        return {
            partition: range(kept.start, min(kept.stop, self._last[partition].stop))
            for partition, kept in there.items()
            if partition in self._last
        }

    def _after(self, stores: Stores, progress: Progress, records_max: int | None) -> Progress:
        there = self._there(stores)
        starting = self._options.starting
        if not progress.begun:
            starting = stores.settled(starting, there)
        return progress.after(there, starting, records_max)

    def _patiently(self, ask: Callable[[Stores], T]) -> T:
        self._options.access.introduce(self._options.servers)
        return patiently(self._options.servers, ask)
