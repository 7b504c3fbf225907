"""Write the archive of Spark's classes that every Java of the tests maps.

python -m tests.support.spark_classes

A Java that finds it starts a session for half of the CPU. This uses Spark once for what tests use
it for, and lets Java write down what it has loaded; a Java of another version ignores it.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from pyspark.sql import SparkSession
from pyspark.sql import functions as F  # noqa: N812 (as everybody calls it)
from pyspark.sql.datasource import (
    DataSource,
    DataSourceReader,
    DataSourceStreamReader,
    DataSourceStreamWriter,
    DataSourceWriter,
    InputPartition,
    WriterCommitMessage,
)

from dafka.errors import MisuseError
from dafka.spark.session import ensure_java, program
from distributor.testing.standalone import CLASSES

ROWS = 10
WRITTEN_S_MAX = 600.0
DAY = "time TIMESTAMP, number INT"


class _Reader(DataSourceReader, DataSourceStreamReader):
    def initialOffset(self):  # noqa: N802 (as Spark calls it)
        return {"at": 0}

    def latestOffset(self):  # noqa: N802 (as Spark calls it)
        return {"at": ROWS}

    def partitions(self, *_):
        return [InputPartition(0), InputPartition(1)]

    def read(self, partition):
        for number in range(ROWS):
            yield (f'{{"time": "2026-01-{number + 1:02d} 00:00:00", "number": {number}}}',)


class _Writer(DataSourceWriter, DataSourceStreamWriter):
    def write(self, iterator):
        list(iterator)
        return WriterCommitMessage()

    def commit(self, *_):
        pass

    def abort(self, *_):
        pass


class Days(DataSource):
    """Days as JSON, in a batch or a stream; takes whatever is written."""

    @classmethod
    def name(cls):
        return "days"

    def schema(self):
        return "value string"

    def reader(self, schema):
        return _Reader()

    def streamReader(self, schema):  # noqa: N802 (as Spark calls it)
        return _Reader()

    def writer(self, schema, overwrite):
        return _Writer()

    def streamWriter(self, schema, overwrite):  # noqa: N802 (as Spark calls it)
        return _Writer()


def _counted(days):
    """An aggregate of what is in the JSON."""
    fields = days.select(F.from_json("value", DAY).alias("day")).select("day.*")
    counted = fields.withWatermark("time", "1 day").groupBy(F.window("time", "2 days")).count()
    return counted.select(F.to_json(F.struct("window", "count")).alias("value"))


def use(directory):
    """What Spark is used for by tests: sources and sinks of Python, streams, files."""
    spark = SparkSession.builder.config("spark.ui.enabled", "false").getOrCreate()
    spark.sparkContext.setLogLevel("ERROR")
    spark.dataSource.register(Days)
    days = spark.read.format("days").load()
    _counted(days).show()
    days.repartition(2).write.format("days").mode("append").save()
    days.write.parquet(f"{directory}/parquet")
    spark.read.parquet(f"{directory}/parquet").createOrReplaceTempView("kept")
    spark.sql("SELECT a.value, count(*) FROM kept a JOIN kept b USING (value) GROUP BY 1").collect()
    stream = _counted(spark.readStream.format("days").load())
    query = (
        stream.writeStream.format("days")
        .option("checkpointLocation", f"{directory}/checkpoint")
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()
    spark.stop()


def write(file):
    """Let a Java of its own use Spark, and write the archive as it ends."""
    with tempfile.TemporaryDirectory(prefix="dafka-classes-") as directory:
        fresh = Path(directory, file.name)
        environment = {
            "PYSPARK_PYTHON": sys.executable,
            "PYTHONPATH": os.pathsep.join(sys.path),
            "SPARK_SUBMIT_OPTS": f"-XX:TieredStopAtLevel=1 -XX:ArchiveClassesAtExit={fresh}",
        }
        try:
            subprocess.run(
                [program("spark-submit"), "--master", "local[2]", __file__, directory],
                check=True,
                cwd=directory,
                env=os.environ | environment,
                capture_output=True,
                text=True,
                timeout=WRITTEN_S_MAX,
            )
        except subprocess.CalledProcessError as error:
            sys.exit(f"Spark's classes cannot be archived: {error.stderr[-4_000:]}")
        shutil.copyfile(fresh, file.with_suffix(".new"))
        file.with_suffix(".new").replace(file)


def main():
    """Write it, or say why it cannot be written."""
    try:
        ensure_java()
    except MisuseError as error:
        sys.exit(f"Spark's classes cannot be archived: {error}")
    write(CLASSES)


if __name__ == "__main__":
    if sys.argv[1:]:
        use(sys.argv[1])
    else:
        main()
