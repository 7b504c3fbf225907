"""Reading a bounded part of a cluster: `spark.read.format("dafka")`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql.datasource import DataSourceReader, InputPartition

from dafka.errors import MisuseError
from dafka.spark.columns import record_batch
from dafka.spark.parsing import parsed
from dafka.spark.ranges import Range, dealt
from dafka.spark.stores import Stores

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    import pyarrow as pa

    from dafka.spark.options import SourceOptions
    from dafka.spark.ranges import TaskRanges


class Task(InputPartition):
    """What one task reads."""

    def __init__(self, ranges: TaskRanges) -> None:
        super().__init__(ranges)
        self.ranges = ranges


class BatchReader(DataSourceReader):
    """Plans on the driver, reads on the executors.

    Args:
        options: Checked.
        columns: What is made of each record.
    """

    def __init__(self, options: SourceOptions, columns: Sequence[str]) -> None:
        self._options = options
        self._columns = columns

    def partitions(self) -> list[InputPartition]:
        """Resolve where reading begins and ends, and deal it to tasks.

        Raises:
            QueryError: No store answers.
        """
        options = self._options
        with Stores(options.servers) as stores:
            ranges = planned(stores, options)
        return [Task(task) for task in dealt(ranges, options.records_per_task, options.tasks_min)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Yield the columns of a task's ranges.

        Raises:
            DataLossError: A part is not there any more.
            QueryError: No store answers.
            RecordError: A batch is damaged.
        """
        # Where nothing is planned Spark makes up an empty partition of its own.
        if isinstance(partition, Task):
            yield from columns_of(partition.ranges, self._options, self._columns)


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


def columns_of(
    ranges: TaskRanges, options: SourceOptions, columns: Sequence[str]
) -> Iterator[pa.RecordBatch]:
    """Read ranges as columns; exactly these records, or an error."""
    with Stores(options.servers) as stores:
        for wanted in ranges:
            for batches in stores.pages(wanted, fail_on_data_loss=options.fail_on_data_loss):
                yield record_batch(
                    parsed(batches), wanted.partition, columns, wanted.start, wanted.end
                )
