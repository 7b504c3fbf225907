"""Departures per airport and day once more, as a Spark Declarative Pipeline.

A definition that `spark-pipelines` imports, as `config/spark-pipeline.yml` says; not a program.
Needs pip install 'pyspark[pipelines]'. Where it reads and writes stands in that file.

Example: spark-pipelines run --spec config/spark-pipeline.yml
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from pyspark import pipelines
from pyspark.sql import SparkSession

from distributor.spark import register
from distributor.spark.examples.daily import departures

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

spark = SparkSession.active()
register(spark)
place = {name: str(spark.conf.get(f"spark.dafka.{name}")) for name in ("topology", "cluster")}
# Definitions are imported in the directory of the file that names them; Spark plans elsewhere.
place["topology"] = str(Path(place["topology"]).absolute())

pipelines.create_sink("departures", "dafka", {**place, "topic": "departures"})


@pipelines.append_flow(target="departures")
def days() -> DataFrame:
    """A row to be written for every airport and day."""
    flights = spark.readStream.format("dafka").options(**place, subscribe="flights")
    return departures(flights.option("startingOffsets", "earliest").load())
