"""What a row of a source is: one record, or one whole batch.

A source of whole batches is for copying: what a batch holds is not opened, and costs per batch
instead of per record. Who copies writes each partition in order, so its ranges are never cut.
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import closing
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol, TypeVar
from zlib import crc32

import pyarrow as pa
from pyspark.sql.types import (
    BinaryType,
    IntegerType,
    LongType,
    StructField,
    StructType,
)

from dafka.arrow.columns import record_batches
from dafka.errors import MisuseError
from dafka.process.unreadable import pass_over
from dafka.records.batch import cut
from dafka.records.envelope import FRESH, unpack
from dafka.spark.planning import DataLossError, RangeReader, dealt, dealt_whole
from dafka.wire.primitives import octets_of

if TYPE_CHECKING:
    from collections.abc import Collection, Generator, Iterable, Iterator

    from dafka.model import Batch, Range
    from dafka.spark.options import SourceOptions
    from dafka.spark.planning import Pieces, TaskRanges

T = TypeVar("T")

BATCH_SCHEMA = StructType(
    [
        StructField("topic", BinaryType()),
        StructField("partition", BinaryType()),
        StructField("offset", LongType()),
        StructField("records", IntegerType()),
        StructField("copy_flags", LongType()),
        StructField("origin", IntegerType()),
        StructField("epoch", IntegerType()),
        StructField("content", BinaryType()),
    ]
)
"""A batch as a row. Names are octets here: a copy has exactly the same ones, text or not."""

_BATCH_ARROW = pa.schema(
    [
        ("topic", pa.binary()),
        ("partition", pa.binary()),
        ("offset", pa.int64()),
        ("records", pa.int32()),
        ("copy_flags", pa.int64()),
        ("origin", pa.int32()),
        ("epoch", pa.int32()),
        ("content", pa.binary()),
    ]
)

_SIGN = 1 << 63
_ALL = 1 << 64


def check_batch_rows(schema: StructType) -> None:
    """Check that rows are whole batches.

    Raises:
        MisuseError: They are not.
    """
    if [(one.name, one.dataType) for one in schema] != [
        (one.name, one.dataType) for one in BATCH_SCHEMA
    ]:
        raise MisuseError(
            f"rows must be of {BATCH_SCHEMA.simpleString()}, not of {schema.simpleString()}"
        )


class RowReader(Protocol):
    """How ranges are dealt to tasks, and what rows a task makes of them."""

    def deal(self, ranges: Iterable[Range], options: SourceOptions) -> list[TaskRanges]:
        """Deal ranges to tasks; depends on its arguments alone."""

    def read(
        self, ranges: TaskRanges, options: SourceOptions, silent: Collection[str] = ()
    ) -> Iterator[pa.RecordBatch]:
        """Yield a task's rows: exactly those of its ranges, or an error.

        Args:
            ranges: Of the task.
            options: Of the source.
            silent: Stores that did not answer who planned it: others are asked first.

        Raises:
            DataLossError: A part is not there any more.
            QueryError: No store answers.
            RecordError: A batch is damaged.
        """


@dataclass(frozen=True, slots=True)
class RecordRows:
    """A row is a record.

    Attributes:
        columns: What is made of it.
    """

    columns: tuple[str, ...]

    def deal(self, ranges: Iterable[Range], options: SourceOptions) -> list[TaskRanges]:
        """Tasks of equal size; see `RowReader`."""
        return dealt(ranges, options.records_per_task, options.tasks_min)

    def read(
        self, ranges: TaskRanges, options: SourceOptions, silent: Collection[str] = ()
    ) -> Iterator[pa.RecordBatch]:
        """See `RowReader`."""
        for pieces in ahead(_pieces(ranges, options, silent)):
            passed_over = _lost if options.fail_on_data_loss else pass_over
            yield from record_batches(pieces, self.columns, passed_over)


@dataclass(frozen=True, slots=True)
class BatchRows:
    """A row is a batch."""

    def deal(self, ranges: Iterable[Range], options: SourceOptions) -> list[TaskRanges]:
        """Each range whole; see `RowReader`."""
        return dealt_whole(ranges, options.records_per_task, options.tasks_min)

    def read(
        self, ranges: TaskRanges, options: SourceOptions, silent: Collection[str] = ()
    ) -> Iterator[pa.RecordBatch]:
        """See `RowReader`. Batches are cut at the ends of a range."""
        for pieces in ahead(_pieces(ranges, options, silent)):
            yield _batch_table(
                [
                    cut(batch, wanted.start, wanted.end)
                    for wanted, batches in pieces
                    for batch in batches
                ]
            )


def ahead(items: Generator[T, None, None]) -> Iterator[T]:
    """Yield what `items` yields; while one is being used the next one is already asked for."""
    with ThreadPoolExecutor(1, thread_name_prefix="dafka-ahead") as pool, closing(items):
        following = pool.submit(next, items, None)
        try:
            while (item := following.result()) is not None:
                following = pool.submit(next, items, None)
                yield item
        finally:
            wait([following])


def _pieces(
    ranges: TaskRanges, options: SourceOptions, silent: Collection[str]
) -> Generator[Pieces, None, None]:
    with RangeReader(options.cluster.open()) as stores:
        # Tasks go to all stores alike, each to one: what it asks for next is in that one's cache.
        stores.prefer(crc32(repr(ranges[0]).encode()), silent)
        yield from stores.pieces(ranges, fail_on_data_loss=options.fail_on_data_loss)


def _lost(batch: Batch, sequence: int) -> None:
    """What nobody can read is lost, like what is gone.

    Raises:
        DataLossError: Always.
    """
    raise DataLossError(
        f"sequences {sequence} to {batch.end - 1} of partition {batch.partition.address} of "
        f"topic {batch.partition.topic!r} cannot be read by anybody, their producer made "
        "them so; with the option failOnDataLoss=false they are passed over"
    )


def _batch_table(batches: list[Batch]) -> pa.RecordBatch:
    envelopes = [unpack(batch.content) or FRESH for batch in batches]
    columns = [
        [octets_of(batch.partition.topic) for batch in batches],
        [octets_of(batch.partition.address) for batch in batches],
        [batch.sequence for batch in batches],
        [batch.count for batch in batches],
        # Spark's numbers have a sign.
        [(envelope.copy_flags + _SIGN) % _ALL - _SIGN for envelope in envelopes],
        [envelope.origin for envelope in envelopes],
        [envelope.epoch for envelope in envelopes],
        [batch.content for batch in batches],
    ]
    arrays = [
        pa.array(column, field.type) for column, field in zip(columns, _BATCH_ARROW, strict=True)
    ]
    return pa.RecordBatch.from_arrays(arrays, schema=_BATCH_ARROW)
