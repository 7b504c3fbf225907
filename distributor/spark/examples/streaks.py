"""Aircraft that leave late again and again: a state of one's own for each of them.

Reads `flights` on a cluster as they come and writes `streaks` there: a record whenever an aircraft
has left more than a quarter of an hour late for the third time in a row, and each time after that.

Example: python -m distributor.spark.examples.streaks config/four-clusters.yaml cluster-2 \
data/streaks
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pyspark.sql import Row
from pyspark.sql import functions as F  # noqa: N812 (as everybody calls it)
from pyspark.sql.streaming.stateful_processor import StatefulProcessor, StatefulProcessorHandle

from distributor.spark.examples.command_line import StreamJob, run

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyspark.sql.streaming.query import StreamingQuery
    from pyspark.sql.streaming.stateful_processor import TimerValues

FLIGHT = "tailnum STRING, time_hour TIMESTAMP, dep_delay DOUBLE"

LATE_MINUTES = 15
STREAK = 3

SETTINGS = {
    "spark.sql.streaming.stateStore.providerClass": (
        "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
    )
}
"""Where such states are kept; Spark has no other store for them."""


class Streaks(StatefulProcessor):
    """Counts late departures in a row."""

    def init(self, handle: StatefulProcessorHandle) -> None:
        """See `StatefulProcessor`."""
        self._late = handle.getValueState("late", "flights INT")

    def handleInputRows(  # noqa: N802 (Spark's name)
        self,
        key: Any,  # noqa: ANN401 (Spark's type)
        rows: Iterator[Row],
        timerValues: TimerValues,  # noqa: N803
    ) -> Iterator[Row]:
        """Yield the streaks that the flights of a micro-batch have made longer."""
        kept = self._late.get()
        late = 0 if kept is None else kept[0]
        for row in sorted(rows, key=lambda row: row.time_hour):
            late = late + 1 if row.dep_delay is not None and row.dep_delay > LATE_MINUTES else 0
            if late >= STREAK:
                yield Row(key=key[0], value=f"{row.time_hour:%Y-%m-%d %H}: {late} times in a row")
        self._late.update((late,))

    def close(self) -> None:
        """See `StatefulProcessor`."""


def start(job: StreamJob, cluster: str) -> StreamingQuery:
    """Begin, or go on where the checkpoint says; the session has `SETTINGS`."""
    flight = F.from_json(F.col("value").cast("string"), FLIGHT)
    streaks = (
        job.stream(cluster, "flights")
        .select(flight.alias("flight"))
        .select("flight.*")
        .where("tailnum IS NOT NULL")
        .groupBy("tailnum")
        .transformWithState(Streaks(), "key STRING, value STRING", "append", "None")
    )
    return job.start_writing(streaks, cluster, "streaks")


def main() -> None:
    """Run until told to stop, or over what is there now."""
    arguments = {"cluster": "the cluster to read and write on"}
    run("streaks", __doc__, arguments, start, SETTINGS)


if __name__ == "__main__":
    main()
