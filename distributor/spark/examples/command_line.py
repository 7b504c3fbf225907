"""What the examples that are streams share: a command line, where they read, how they end."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING, NamedTuple

from dafka.spark.session import open_session
from distributor.spark import register

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery
    from pyspark.sql.streaming.readwriter import DataStreamWriter


class StreamJob(NamedTuple):
    """What every one of them is told.

    Attributes:
        spark: The session.
        topology: The topology's file.
        checkpoint: Where Spark keeps how far it has come.
        available_now: End when all that is there is read.
        rows: At most so many in a micro-batch of each source; all if it is None.
    """

    spark: SparkSession
    topology: str
    checkpoint: str
    available_now: bool = True
    rows: int | None = None

    def stream(self, cluster: str, topic: str) -> DataFrame:
        """Return the records of a topic as they come, from the first one on."""
        reader = self.spark.readStream.format("dafka").options(
            topology=self.topology,
            cluster=cluster,
            subscribe=topic,
            startingOffsets="earliest",
        )
        if self.rows is not None:
            reader = reader.option("maxOffsetsPerTrigger", self.rows)
        return reader.load()

    def start(self, writer: DataStreamWriter) -> StreamingQuery:
        """Begin, or go on where the checkpoint says."""
        writer = writer.option("checkpointLocation", self.checkpoint)
        if self.available_now:
            writer = writer.trigger(availableNow=True)
        return writer.start()

    def start_writing(self, rows: DataFrame, cluster: str, topic: str) -> StreamingQuery:
        """Begin to write `key` and `value` to a topic, or go on."""
        place = {"topology": self.topology, "cluster": cluster, "topic": topic}
        return self.start(rows.writeStream.format("dafka").options(**place).outputMode("append"))


def run(
    name: str,
    description: str | None,
    arguments: Mapping[str, str],
    start: Callable[..., StreamingQuery],
    settings: Mapping[str, str] | None = None,
) -> None:
    """Run an example from the command line, until told to stop or over what is there now.

    Args:
        name: Of the application.
        description: What `--help` says.
        arguments: By name, what each of its own says of itself; given to `start` behind the job.
        start: Begins its query.
        settings: Of Spark, which it needs.
    """
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("topology", help="the topology's file")
    for argument, meaning in arguments.items():
        parser.add_argument(argument, help=meaning)
    parser.add_argument("checkpoint", help="where Spark keeps how far it has come")
    parser.add_argument("--available-now", action="store_true", help="end when all is read")
    parser.add_argument("--rows", type=int, help="at most so many in a micro-batch")
    parser.add_argument("--master", default="local[*]", help="where Spark runs")
    given = parser.parse_args()
    spark = open_session(given.master, name, settings or {})
    register(spark)
    job = StreamJob(spark, given.topology, given.checkpoint, given.available_now, given.rows)
    start(job, *(getattr(given, argument) for argument in arguments)).awaitTermination()
    spark.stop()
