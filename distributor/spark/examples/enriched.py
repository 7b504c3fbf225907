"""Every flight with the weather of its hour, in a topic on another cluster.

Joins two topics as they come, `flights` and `weather`: each waits for the other one for two days of
the records' own time.

Example: python -m distributor.spark.examples.enriched config/four-clusters.yaml cluster-1 \
cluster-4 data/enriched
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql import functions as F  # noqa: N812 (as everybody calls it)

from distributor.spark.examples.command_line import StreamJob, run

if TYPE_CHECKING:
    from pyspark.sql import DataFrame
    from pyspark.sql.streaming.query import StreamingQuery

HOUR = "origin STRING, time_hour TIMESTAMP"
"""What both have: where and when."""

FLIGHT = f"{HOUR}, carrier STRING, flight INT, dest STRING, sched_dep_time INT, dep_delay DOUBLE"
WEATHER = f"{HOUR}, temp DOUBLE, wind_speed DOUBLE, visib DOUBLE"


def start(job: StreamJob, source: str, target: str) -> StreamingQuery:
    """Begin, or go on where the checkpoint says."""
    flights = _values(job.stream(source, "flights"), FLIGHT)
    weather = _values(job.stream(source, "weather"), WEATHER)
    joined = flights.join(weather, ["origin", "time_hour"]).select(
        F.col("carrier").alias("key"), F.to_json(F.struct("*")).alias("value")
    )
    return job.start_writing(joined, target, "flights-weather")


def _values(records: DataFrame, fields: str) -> DataFrame:
    value = F.from_json(F.col("value").cast("string"), fields)
    return (
        records.select(value.alias("value")).select("value.*").withWatermark("time_hour", "2 days")
    )


def main() -> None:
    """Run until told to stop, or over what is there now."""
    arguments = {"source": "the cluster to read on", "target": "the cluster to write to"}
    run("enriched", __doc__, arguments, start)


if __name__ == "__main__":
    main()
