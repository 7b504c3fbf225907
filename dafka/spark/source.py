"""The data source as Spark sees it: `format("dafka")`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql.datasource import DataSource

from dafka.spark.batch_reader import BatchReader
from dafka.spark.columns import all_columns, checked_columns
from dafka.spark.options import source_options
from dafka.spark.stream_reader import StreamReader

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.datasource import DataSourceReader, DataSourceStreamReader
    from pyspark.sql.types import StructType


def register(spark: SparkSession) -> None:
    """Make `format("dafka")` known to a session."""
    spark.dataSource.register(DafkaDataSource)


class DafkaDataSource(DataSource):
    """One cluster as a source of DataFrames."""

    @classmethod
    def name(cls) -> str:
        """What stands in `format(...)`."""
        return "dafka"

    def schema(self) -> StructType:
        """Every column; a user who needs fewer says so with `.schema("value BINARY")`."""
        return all_columns(headers=source_options(self.options).headers)

    def reader(self, schema: StructType) -> DataSourceReader:
        """A batch."""
        options = source_options(self.options, stream=False)
        return BatchReader(options, checked_columns(schema))

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:  # noqa: N802
        """A stream."""
        options = source_options(self.options, stream=True)
        return StreamReader(options, checked_columns(schema))
