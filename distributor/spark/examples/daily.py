"""Departures per airport and day, in a topic of their own.

Reads `flights` on a cluster as they come and writes `departures` there: a record for every airport
and day once no more flights of that day are waited for. The links take it to every other cluster.

Example: python -m distributor.spark.examples.daily config/four-clusters.yaml cluster-3 data/daily
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql import functions as F  # noqa: N812 (as everybody calls it)

from distributor.spark.examples.command_line import StreamJob, run

if TYPE_CHECKING:
    from pyspark.sql import DataFrame
    from pyspark.sql.streaming.query import StreamingQuery

FLIGHT = "origin STRING, dep_delay DOUBLE, time_hour TIMESTAMP"
"""The fields of a flight that are looked at."""


def counted(flights: DataFrame, period: str) -> DataFrame:
    """Return flights and mean delay for every airport and `window` of such a period.

    Args:
        flights: A stream of records.
        period: As Spark writes it, `1 day`.
    """
    flight = F.from_json(F.col("value").cast("string"), FLIGHT)
    return (
        flights.select(flight.alias("flight"))
        .select("flight.*")
        .withWatermark("time_hour", "2 days")
        .groupBy("origin", F.window("time_hour", period))
        .agg(F.count("*").alias("flights"), F.round(F.avg("dep_delay"), 1).alias("mean_delay"))
    )


def departures(flights: DataFrame) -> DataFrame:
    """Return a row to be written for every airport and day of `flights`, a stream of records."""
    return counted(flights, "1 day").select(
        F.concat_ws(" ", "origin", F.date_format("window.start", "yyyy-MM-dd")).alias("key"),
        F.to_json(F.struct("flights", "mean_delay")).alias("value"),
    )


def start(job: StreamJob, cluster: str) -> StreamingQuery:
    """Begin, or go on where the checkpoint says."""
    return job.start_writing(departures(job.stream(cluster, "flights")), cluster, "departures")


def main() -> None:
    """Run until told to stop, or over what is there now."""
    run("daily", __doc__, {"cluster": "the cluster to read and write on"}, start)


if __name__ == "__main__":
    main()
