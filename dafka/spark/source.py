"""The data source as Spark sees it: `format("dafka")`."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, ClassVar

from pyspark.sql.datasource import DataSource

from dafka.errors import MisuseError
from dafka.spark.bootstrap import with_entrance
from dafka.spark.columns import all_columns, check_rows, checked_columns
from dafka.spark.options import sink_options, source_options
from dafka.spark.reader import BatchReader, NarrowingReader, StreamReader
from dafka.spark.rows import BATCH_SCHEMA, BatchRows, RecordRows, check_batch_rows
from dafka.spark.writer import (
    BatchWriter,
    CopyingBatchWriter,
    CopyingStreamWriter,
    StreamWriter,
    copy,
    stage,
)

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.datasource import (
        DataSourceReader,
        DataSourceStreamReader,
        DataSourceStreamWriter,
        DataSourceWriter,
    )
    from pyspark.sql.types import StructType


def register(spark: SparkSession) -> None:
    """Make `format("dafka")` and `format("dafka-batches")` known to a session."""
    for kind in (DafkaDataSource, BatchDataSource):
        spark.dataSource.register(kind)


class DafkaDataSource(DataSource):
    """One cluster as a source of DataFrames and their sink."""

    also: ClassVar[tuple[str, ...]] = ()
    """Options that a subclass deals with itself."""

    def __init__(self, options: dict[str, str]) -> None:
        super().__init__(with_entrance(options))

    @classmethod
    def name(cls) -> str:
        """What stands in `format(...)`."""
        return "dafka"

    def schema(self) -> StructType:
        """Every column; a user who needs fewer says so with `.schema("value BINARY")`."""
        return all_columns(headers=source_options(self.options, also=self.also).headers)

    def reader(self, schema: StructType) -> DataSourceReader:
        """A batch."""
        options = source_options(self.options, stream=False, also=self.also)
        # Spark asks for the reader in this worker, and only in it, where it pushes filters down.
        pushing = "pyspark.sql.worker.data_source_pushdown_filters" in sys.modules
        kind = NarrowingReader if pushing else BatchReader
        return kind(options, RecordRows(checked_columns(schema)))

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:  # noqa: N802
        """A stream."""
        options = source_options(self.options, stream=True, also=self.also)
        return StreamReader(options, RecordRows(checked_columns(schema)))

    def writer(self, schema: StructType, overwrite: bool) -> DataSourceWriter:
        """A batch job's sink.

        Raises:
            MisuseError: What is there shall be overwritten, or a column or option cannot be used.
        """
        if overwrite:
            raise MisuseError('a log only grows: use mode("append")')
        options = sink_options(self.options, stream=False, also=self.also)
        check_rows(schema, topic=options.topic)
        return BatchWriter(options, stage)

    def streamWriter(  # noqa: N802
        self,
        schema: StructType,
        overwrite: bool,
    ) -> DataSourceStreamWriter:
        """A stream's sink; in mode "complete" every result is appended again, as with Kafka.

        Raises:
            MisuseError: A column or an option cannot be used.
        """
        options = sink_options(self.options, stream=True, also=self.also)
        check_rows(schema, topic=options.topic)
        return StreamWriter(options, stage)


class BatchDataSource(DataSource):
    """One cluster as a source and a sink of whole batches, for copying.

    What is written keeps its topic, partition and offset; flags and origin are the columns'.
    """

    also: ClassVar[tuple[str, ...]] = ()
    """Options that a subclass deals with itself."""

    def __init__(self, options: dict[str, str]) -> None:
        super().__init__(with_entrance(options))

    @classmethod
    def name(cls) -> str:
        """What stands in `format(...)`."""
        return "dafka-batches"

    def schema(self) -> StructType:
        """The one there is."""
        return BATCH_SCHEMA

    def reader(self, schema: StructType) -> DataSourceReader:
        """A batch job."""
        check_batch_rows(schema)
        return BatchReader(source_options(self.options, stream=False, also=self.also), BatchRows())

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:  # noqa: N802
        """A stream."""
        check_batch_rows(schema)
        return StreamReader(source_options(self.options, stream=True, also=self.also), BatchRows())

    def writer(self, schema: StructType, overwrite: bool) -> DataSourceWriter:
        """A batch job's sink; what is there already is not written again."""
        check_batch_rows(schema)
        if overwrite:
            raise MisuseError('a log only grows: use mode("append")')
        return CopyingBatchWriter(
            sink_options(self.options, stream=False, copying=True, also=self.also), copy
        )

    def streamWriter(self, schema: StructType, overwrite: bool) -> DataSourceStreamWriter:  # noqa: N802
        """A stream's sink; what is there already is not written again."""
        check_batch_rows(schema)
        return CopyingStreamWriter(
            sink_options(self.options, stream=True, copying=True, also=self.also), copy
        )
