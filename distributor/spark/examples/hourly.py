"""Departures per airport and hour, as a table in Parquet.

Reads `flights` on a cluster as they come and appends a row for every airport and hour, once, when
no more flights of that hour are waited for: those that are more than two days late are left out.

Example: python -m distributor.spark.examples.hourly config/four-clusters.yaml cluster-4 \
data/hourly data/hourly-checkpoint
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from distributor.spark.examples.command_line import StreamJob, run
from distributor.spark.examples.daily import counted

if TYPE_CHECKING:
    from pyspark.sql.streaming.query import StreamingQuery


def start(job: StreamJob, cluster: str, table: str) -> StreamingQuery:
    """Begin, or go on where the checkpoint says."""
    hours = counted(job.stream(cluster, "flights"), "1 hour").selectExpr(
        "origin", "window.start AS hour", "flights", "mean_delay"
    )
    return job.start(hours.writeStream.format("parquet").option("path", table))


def main() -> None:
    """Run until told to stop, or over what is there now."""
    arguments = {"cluster": "the cluster to read on", "table": "where the Parquet files go"}
    run("hourly", __doc__, arguments, start)


if __name__ == "__main__":
    main()
