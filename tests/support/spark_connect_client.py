"""A program without a JVM: what it asks of Spark a Spark Connect server does.

Arguments: the server, an archive of what executors need, a topology's file, a directory for a
checkpoint. It copies the flights of c2 to a topic of c1 as a stream, writes numbers there, and
prints how many it reads of each.
"""

from __future__ import annotations

import sys

from pyspark.sql import SparkSession

from distributor.spark import register
from topology.terminal import say


def main(server, archive, file, directory):
    """Do it."""
    spark = SparkSession.builder.remote(server).getOrCreate()
    spark.addArtifacts(f"{archive}#deps", archive=True)
    register(spark)
    there, here = ({"topology": file, "cluster": name} for name in ("c2", "c1"))
    flights = spark.read.format("dafka").options(**there, subscribe="flights").load()
    found = [flights.count()]
    numbers = spark.range(100).selectExpr("CAST(id AS STRING) AS key", "CAST(id AS STRING) value")
    numbers.write.format("dafka").options(**here, topic="numbers").mode("append").save()
    found.append(spark.read.format("dafka").options(**here, subscribe="numbers").load().count())
    stream = spark.readStream.format("dafka").options(**there, subscribe="flights")
    query = (
        stream.option("startingOffsets", "earliest")
        .load()
        .select("key", "value")
        .writeStream.format("dafka")
        .options(**here, topic="streamed", checkpointLocation=f"{directory}/checkpoint")
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()
    spark.stop()
    say(" ".join(map(str, found)))


if __name__ == "__main__":
    main(*sys.argv[1:])
