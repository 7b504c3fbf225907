"""A topic of changes kept as a table of Delta Lake: the last value of each key.

A record with a key that the table has takes the place of its row, one without a value deletes it.
The table keeps with each commit which micro-batch it was: one that is repeated changes nothing.
Needs pip install deltalake, and no library of Java.

Example: python -m distributor.spark.examples.merged config/four-clusters.yaml cluster-2 stocks \
data/stocks data/stocks-checkpoint
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa
from deltalake import CommitProperties, DeltaTable, Transaction
from pyspark.sql import functions as F  # noqa: N812 (as everybody calls it)

from distributor.spark.examples.command_line import StreamJob, run

if TYPE_CHECKING:
    from pyspark.sql import DataFrame
    from pyspark.sql.streaming.query import StreamingQuery

COLUMNS = pa.schema([("key", pa.string()), ("value", pa.string())])


def start(job: StreamJob, cluster: str, topic: str, table: str) -> StreamingQuery:
    """Begin, or go on where the checkpoint says."""
    DeltaTable.create(table, COLUMNS, mode="ignore")

    def merge_batch(changes: DataFrame, batch: int) -> None:
        merge(table, changes, topic, batch)

    return job.start(job.stream(cluster, topic).writeStream.foreachBatch(merge_batch))


def merge(table: str, changes: DataFrame, topic: str, batch: int) -> None:
    """Merge the changes of a micro-batch into a table, unless that has them.

    Args:
        table: Where it is.
        changes: Records of the topic; the latest of a key counts, by its time, then its sequence.
        topic: Which; the table keeps for it which micro-batch came last.
        batch: The micro-batch's number.
    """
    target = DeltaTable(table)
    done = target.transaction_version(topic)
    if done is not None and done >= batch:
        return
    last = changes.groupBy(F.col("key").cast("string").alias("key")).agg(
        # A deletion counts as well: what is without a value would be passed over by itself.
        F.max_by(
            F.struct(F.col("value").cast("string").alias("value")),
            F.struct("timestamp", "offset"),
        ).alias("last")
    )
    rows = last.select("key", "last.value").toArrow().cast(COLUMNS)
    (
        target.merge(
            rows,
            "old.key = new.key",
            source_alias="new",
            target_alias="old",
            commit_properties=CommitProperties(app_transactions=[Transaction(topic, batch)]),
        )
        .when_matched_delete("new.value IS NULL")
        .when_matched_update_all()
        .when_not_matched_insert_all("new.value IS NOT NULL")
        .execute()
    )


def main() -> None:
    """Run until told to stop, or over what is there now."""
    arguments = {
        "cluster": "the cluster to read on",
        "topic": "the topic of changes",
        "table": "where the table of Delta Lake is",
    }
    run("merged", __doc__, arguments, start)


if __name__ == "__main__":
    main()
