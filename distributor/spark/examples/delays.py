"""How late are the carriers? Flights that were published on any cluster, read on one.

Example: python -m distributor.spark.examples.delays config/four-clusters.yaml cluster-3
"""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from pyspark.sql import functions as F  # noqa: N812 (as everybody calls it)

from dafka.spark.session import open_session
from distributor.spark import register

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

FLIGHT = "carrier STRING, origin STRING, dep_delay DOUBLE"
"""The fields of a flight that are looked at."""


def delays(spark: SparkSession, topology: str, cluster: str) -> DataFrame:
    """Return per carrier the flights, their mean and 90th percentile delay in minutes."""
    records = (
        spark.read.format("dafka")
        .options(topology=topology, cluster=cluster, subscribe="flights")
        .schema("value BINARY")
        .load()
    )
    flight = F.from_json(F.col("value").cast("string"), FLIGHT)
    return (
        records.select(flight.alias("flight"))
        .select("flight.*")
        .groupBy("carrier")
        .agg(
            F.count("*").alias("flights"),
            F.count("dep_delay").alias("departed"),
            F.round(F.avg("dep_delay"), 1).alias("mean_delay"),
            F.percentile("dep_delay", 0.9).alias("p90_delay"),
        )
        .orderBy(F.desc("mean_delay"))
    )


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("topology", help="the topology's file")
    parser.add_argument("cluster", help="the cluster to read on")
    parser.add_argument("--master", default="local[*]", help="where Spark runs")
    arguments = parser.parse_args()
    spark = open_session(arguments.master, "delays", {})
    register(spark)
    delays(spark, arguments.topology, arguments.cluster).show(50)
    spark.stop()


if __name__ == "__main__":
    main()
