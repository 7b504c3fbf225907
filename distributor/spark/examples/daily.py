"""Departures per airport and day, in a topic of their own.

Reads `flights` on a cluster as they come and writes `departures` there: a record for every airport
and day once no more flights of that day are waited for. The links take it to every other cluster.

Example: python -m distributor.spark.examples.daily config/four-clusters.yaml cluster-3 data/daily
"""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from pyspark.sql import functions as F  # noqa: N812 (as everybody calls it)

from dafka.spark.session import open_session
from distributor.spark import register

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

FLIGHT = "origin STRING, dep_delay DOUBLE, time_hour TIMESTAMP"
"""The fields of a flight that are looked at."""


def departures(flights: DataFrame) -> DataFrame:
    """Return a row to be written for every airport and day of `flights`, a stream of records."""
    flight = F.from_json(F.col("value").cast("string"), FLIGHT)
    return (
        flights.select(flight.alias("flight"))
        .select("flight.*")
        .withWatermark("time_hour", "2 days")
        .groupBy("origin", F.window("time_hour", "1 day"))
        .agg(F.count("*").alias("flights"), F.round(F.avg("dep_delay"), 1).alias("mean_delay"))
        .select(
            F.concat_ws(" ", "origin", F.date_format("window.start", "yyyy-MM-dd")).alias("key"),
            F.to_json(F.struct("flights", "mean_delay")).alias("value"),
        )
    )


def start(
    spark: SparkSession, topology: str, cluster: str, checkpoint: str, *, available_now: bool
) -> StreamingQuery:
    """Begin, or go on where the checkpoint says."""
    place = {"topology": topology, "cluster": cluster}
    flights = (
        spark.readStream.format("dafka")
        .options(**place, subscribe="flights", startingOffsets="earliest")
        .load()
    )
    writer = (
        departures(flights)
        .writeStream.format("dafka")
        .options(**place, topic="departures", checkpointLocation=checkpoint)
        .outputMode("append")
    )
    if available_now:
        writer = writer.trigger(availableNow=True)
    return writer.start()


def main() -> None:
    """Run until told to stop, or over what is there now."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("topology", help="the topology's file")
    parser.add_argument("cluster", help="the cluster to read and write on")
    parser.add_argument("checkpoint", help="where Spark keeps how far it has come")
    parser.add_argument("--available-now", action="store_true", help="end when all is read")
    parser.add_argument("--master", default="local[*]", help="where Spark runs")
    arguments = parser.parse_args()
    spark = open_session(arguments.master, "daily", {})
    register(spark)
    query = start(
        spark,
        arguments.topology,
        arguments.cluster,
        arguments.checkpoint,
        available_now=arguments.available_now,
    )
    query.awaitTermination()
    spark.stop()


if __name__ == "__main__":
    main()
