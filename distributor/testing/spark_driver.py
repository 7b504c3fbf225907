"""The driver that `distributor.testing.spark_faults` kills: two sinks and a link.

Its one argument is JSON: `file`, the topology's; `master` and `conf` of the session; `checkpoints`,
a directory. It ends with an error when a query does, as one that is run for good does; whoever has
started it starts it again.
"""

from __future__ import annotations

import json
import sys
from contextlib import closing
from typing import TYPE_CHECKING, Any

from dafka.spark.session import open_session
from distributor.loading import load
from distributor.spark import register
from distributor.spark.link_job import LinkJob
from topology import plan

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

READ = "numbers"
ORDERED, SHUFFLED = "ordered", "shuffled"
"""Topics that the two sinks write: one as it reads, one behind an exchange between executors."""

TASKS = 4
PARTITIONS = 3

_LOOK_S = 0.2


def main(given: dict[str, Any]) -> None:
    """Run the queries until one fails.

    Raises:
        StreamingQueryException: One has.
    """
    topology = load(given["file"])
    spark = open_session(given["master"], "faults", given["conf"])
    register(spark)
    source = topology.clusters[0].name
    queries = [
        _started(spark, given, source, topic, f"{given['checkpoints']}/{topic}")
        for topic in (ORDERED, SHUFFLED)
    ]
    (link,) = (one for one in plan(topology).links if one.source == source)
    with closing(LinkJob(spark, topology, link)) as job:
        while True:
            job.join(_LOOK_S)
            for query in queries:
                query.awaitTermination(_LOOK_S)  # type: ignore[arg-type]


def _started(
    spark: SparkSession, given: dict[str, Any], cluster: str, topic: str, checkpoint: str
) -> StreamingQuery:
    here = {"topology": given["file"], "cluster": cluster}
    rows = (
        spark.readStream.format("dafka")
        .options(**here, subscribe=READ, startingOffsets="earliest", minPartitions=TASKS)
        .load()
        .select("key", "value")
    )
    if topic == SHUFFLED:
        rows = rows.repartition(TASKS, "value")
    return (
        rows.writeStream.format("dafka")
        .options(**here, topic=topic, partitions=PARTITIONS, checkpointLocation=checkpoint)
        .start()
    )


if __name__ == "__main__":
    main(json.loads(sys.argv[1]))
