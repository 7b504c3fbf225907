"""Reading a bounded part of a cluster: `spark.read.format("dafka")`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql.datasource import DataSourceReader, InputPartition

from dafka.errors import MisuseError
from dafka.spark.ranges import Range
from dafka.spark.stores import Stores

if TYPE_CHECKING:
    from collections.abc import Iterator

    import pyarrow as pa

    from dafka.spark.options import SourceOptions
    from dafka.spark.ranges import TaskRanges
    from dafka.spark.rows import Rows


class Task(InputPartition):
    """What one task reads."""

    def __init__(self, ranges: TaskRanges) -> None:
        super().__init__(ranges)
        self.ranges = ranges


class BatchReader(DataSourceReader):
    """Plans on the driver, reads on the executors.

    Args:
        options: Checked.
        rows: What is read.
    """

    def __init__(self, options: SourceOptions, rows: Rows) -> None:
        self._options = options
        self._rows = rows

    def partitions(self) -> list[InputPartition]:
        """Resolve where reading begins and ends, and deal it to tasks.

        Raises:
            QueryError: No store answers.
        """
        self._options.access.introduce(self._options.servers)
        with Stores(self._options.servers) as stores:
            ranges = self.planned(stores)
        return [Task(task) for task in self._rows.deal(ranges, self._options)]

    def planned(self, stores: Stores) -> list[Range]:
        """The ranges to read; see `planned`."""
        return planned(stores, self._options)

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Yield the rows of a task; see `Rows.read`."""
        # Where nothing is planned Spark makes up an empty partition of its own.
        if isinstance(partition, Task):
            yield from self._rows.read(partition.ranges, self._options)


def planned(stores: Stores, options: SourceOptions) -> list[Range]:
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
    ranges: list[Range] = []
    for partition, there in sorted(found.items()):
        start = starting.of(partition, there)
        end = options.ending.of(partition, there)
        ranges.append(Range(partition, start, end))
    return ranges
