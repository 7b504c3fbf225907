"""A link as a Structured Streaming job: the same copies as the native link, made by executors.

    read whole batches ─▶ where(copy_flags & mask = 0) ─▶ set the bit ─▶ write under the same names

It keeps nothing either: where each partition begins it asks the target. Spark's checkpoint lives
as long as the query; after a failure the target is asked again. Among its targets it chooses by the
rules of the native link (`distributor.link.target`), and by its rules it leaves out partitions of
which both ends hold other records under the same name (`distributor.spark.histories`). A change of
either is the end of a query and the beginning of another, without a barrier: that would only save
carrying some records twice.
"""

from __future__ import annotations

import json
import logging
import shutil
import tempfile
import time
from functools import reduce
from operator import or_
from pathlib import Path
from typing import TYPE_CHECKING

from pyspark.errors import StreamingQueryException
from pyspark.sql import functions as F  # noqa: N812 (as everybody calls it)

from dafka.cluster import Cluster
from dafka.errors import QueryError
from dafka.process.clock import now_ms
from dafka.spark.bounds import TopicSelection
from dafka.spark.planning import RangeReader
from dafka.spark.progress import Progress
from dafka.wire.primitives import octets_of
from distributor.errors import ProcessError
from distributor.link.events import StopReason
from distributor.link.node import COPIED_AGAIN, MEANINGS
from distributor.link.target import Drain, Drained, Probed, TargetMachine, TargetSettings
from distributor.spark.histories import Histories
from distributor.spark.patterns import carried_pattern
from distributor.spark.source import endpoints
from distributor.survey import gives_sign_of_life
from topology.copyflags import bit, mask

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from pyspark.sql import Column, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

    from dafka.model import Partition
    from distributor.link.target import TargetEffect
    from topology import Link, Topology

log = logging.getLogger(__name__)

RECORDS_PER_TRIGGER = 2_000_000
"""What a micro-batch copies at most: some seconds' work, so that progress shows and a failure
repeats little."""

BACKOFF_S_MAX = 30.0

PROBE_INTERVAL_MS = 1_000
"""How often the targets are asked for a sign of life, where there are several."""

LOOK_INTERVAL_MS = 5_000
"""How often both ends are asked whether they still mean the same records."""

FAILURES_MAX = 8
"""Failures in a row, without a record copied in between, after which a backfill gives up."""


class LinkJob:
    """One link, as a query that is started again whenever it fails.

    Args:
        spark: The session; `distributor.spark.register` has been called with it.
        topology: Where both clusters are declared.
        link: Which arrow of the plan.
        directory: Of the topology's file: what its key files are relative to.
        available_now: Copy what is there now, then end.
        backoff_s_max: The longest wait before a query that has failed is started again; the first
            is half a second.
        look_interval_ms: How often both ends are asked whether they still mean the same records.
    """

    def __init__(
        self,
        spark: SparkSession,
        topology: Topology,
        link: Link,
        *,
        directory: Path = Path(),
        available_now: bool = False,
        backoff_s_max: float = BACKOFF_S_MAX,
        look_interval_ms: int = LOOK_INTERVAL_MS,
    ) -> None:
        self._spark = spark
        self._topology = topology
        self._link = link
        self._pattern = carried_pattern(topology, link.span)
        self._directory = directory
        self._available_now = available_now
        self._backoff_s_max = backoff_s_max
        self._look_interval_ms = look_interval_ms
        self._checkpoint = tempfile.mkdtemp(prefix="dafka-link-")
        self._failures = 0
        self._due_s = time.monotonic()
        self._copied_before = 0
        self._starts: dict[Partition, int] = {}
        """Where the query began each partition."""
        self._total = 0
        bounds = topology.links
        settings = TargetSettings(
            failover_after_ms=bounds.failover_after_ms, failback=bounds.failback
        )
        self._aim = TargetMachine(link.targets, settings, now_ms())
        self._probe_due_ms = now_ms()
        self._histories: Histories | None = None
        """Of the present target, once it was asked."""
        self._look_due_ms = now_ms() + self._look_interval_ms
        self._parted: Mapping[Partition, int] = {}
        self._query: StreamingQuery | None = None
        self._error = ""

    @property
    def target(self) -> str:
        """The cluster it copies to at present."""
        return self._aim.current

    @property
    def parted(self) -> Mapping[Partition, int]:
        """Partitions that are left out, each with the first sequence at which both ends differ."""
        return self._parted

    @property
    def copied(self) -> int:
        """Records read from the source so far; those whose flags say so were left out."""
        return self._copied_before + self._copied_by_query()

    def total(self) -> int:
        """Records the source has and the target lacks, when the query was last started, at least.

        Those whose flags say that this level is done are among them. While the source does not
        answer it is what was last known.
        """
        try:
            there = self._there(self._link.source)
        except QueryError:
            return self._total
        left = (
            kept.stop - max(kept.start, self._starts.get(partition, 0))
            for partition, kept in there.items()
        )
        self._total = self._copied_before + sum(max(0, records) for records in left)
        return self._total

    def join(self, timeout: float) -> bool:
        """Look after the query for `timeout` seconds; True if all that was asked for is copied.

        Raises:
            ProcessError: A backfill has failed too often.
        """
        self._look_at_targets()
        self._look_at_histories()
        wait_s = self._due_s - time.monotonic()
        if self._query is None and wait_s > 0:
            time.sleep(min(wait_s, timeout))
            return False
        try:
            if self._query is None:
                self._query = self._started()
            # Spark refuses to wait for no time at all.
            left_s = max(timeout, 0.01)
            return bool(self._query.awaitTermination(left_s))  # type: ignore[arg-type]
        except (StreamingQueryException, QueryError) as error:
            self._failed(error)
            return False

    def unwell(self) -> str:
        """Why it does not copy at present; empty if it does."""
        return self._error

    def unready(self) -> str:
        """Why it is of no use yet; empty once the query runs."""
        return "" if self._query is not None else "the query is not running yet"

    def close(self) -> None:
        """Stop. Nothing has to be saved: the target knows what it has."""
        if self._query is not None:
            self._query.stop()
        self._forget_histories()
        shutil.rmtree(self._checkpoint, ignore_errors=True)

    def _started(self) -> StreamingQuery:
        source_there, target_there = self._there(self._link.source), self._there(self.target)
        log_starts = _behind_holes(source_there, target_there)
        if log_starts:
            # A store that is down may have what the others lack: each one has to say so.
            source_there = self._there(self._link.source, every=True)
            log_starts = _behind_holes(source_there, target_there)
        self._leave_out(self._compared().settled())
        log_starts = {one: at for one, at in log_starts.items() if one not in self._parted}
        there = dict.fromkeys(source_there, 0)
        there |= {partition: kept.stop for partition, kept in target_there.items()}
        self._starts = there | log_starts
        shutil.rmtree(self._checkpoint, ignore_errors=True)
        source = self._topology.cluster(self._link.source)
        target = self._topology.cluster(self.target)
        level, epoch = self._link.level, self._topology.levels.epoch
        rows = (
            self._spark.readStream.format("dafka-batches")
            .options(**endpoints(source, self._directory))
            .option("subscribePattern", self._pattern)
            .option("startingOffsets", offsets_text(self._starts))
            .option("maxOffsetsPerTrigger", RECORDS_PER_TRIGGER)
            .option("minPartitions", self._spark.sparkContext.defaultParallelism)
            .load()
            # As `in_epoch` has it: flags of another epoch say that it was copied, and no more.
            .where(f"copy_flags = 0 OR epoch = {epoch} AND (copy_flags & {mask(level)}L) = 0")
            .where(without(self._parted))
            .selectExpr(
                *("topic", "partition", "offset", "records"),
                f"copy_flags | {bit(level)}L AS copy_flags",
                f"IF(origin = 0, {source.id}, origin) AS origin",
                f"{epoch} AS epoch",
                "content",
            )
        )
        writer = (
            rows.writeStream.format("dafka-batches")
            .options(**endpoints(target, self._directory))
            .option("checkpointLocation", f"file://{self._checkpoint}")
            .option("logStarts", offsets_text(log_starts))
            .option("compression", self._topology.links.compression_at(level))
        )
        if self._available_now:
            writer = writer.trigger(availableNow=True)
        self._error = ""
        return writer.start()

    def _failed(self, error: Exception) -> None:
        copied = self._copied_by_query()
        self._failures = 1 if copied else self._failures + 1
        self._end_query()
        self._error = str(error).partition("\n")[0]
        facts = {"source": self._link.source, "target": self.target, "error": self._error}
        if self._available_now and self._failures >= FAILURES_MAX:
            raise ProcessError(f"{self._failures} failures in a row: {self._error}") from error
        log.warning("the query has failed and is started again", extra=facts)
        self._due_s = time.monotonic() + min(0.25 * 2**self._failures, self._backoff_s_max)

    def _copied_by_query(self) -> int:
        progress = self._query.lastProgress if self._query is not None else None
        if progress is None:
            return 0
        end = progress["sources"][0]["endOffset"]
        reached = Progress.of_json(json.loads(end) if isinstance(end, str) else end)
        return sum(
            sequence - self._starts.get(partition, 0)
            for partition, sequence in reached.nexts.items()
        )

    def _end_query(self) -> None:
        if self._query is None:
            return
        self._copied_before += self._copied_by_query()
        self._query.stop()
        self._query = None

    def _look_at_targets(self) -> None:
        """Ask all targets for a sign of life now and then; go over to another one if need be."""
        if len(self._link.targets) < 2 or now_ms() < self._probe_due_ms:
            return
        self._probe_due_ms = now_ms() + PROBE_INTERVAL_MS
        for name in self._link.targets:
            event = Probed(name, gives_sign_of_life(self._topology.cluster(name)))
            for effect in self._aim.handle(event, now_ms()):
                self._steer(effect)

    def _look_at_histories(self) -> None:
        """See now and then whether both ends still mean the same; if not, begin anew."""
        if self._query is None or now_ms() < self._look_due_ms:
            return
        found = self._compared().looked()
        if found is None:
            return
        self._look_due_ms = now_ms() + self._look_interval_ms
        if found.keys() != self._parted.keys():
            self._end_query()
            self._leave_out(found)
            self._due_s = time.monotonic()

    def _leave_out(self, parted: Mapping[Partition, int]) -> None:
        """Copy nothing of these, as both ends hold other records under the same name."""
        facts = {"source": self._link.source, "target": self.target}
        for partition, first in parted.items():
            if partition not in self._parted:
                named = {"topic": partition.topic, "address": partition.address, "first": first}
                log.error(MEANINGS[StopReason.DIVERGED], extra={**facts, **named})
        for topic, address in self._parted.keys() - parted.keys():
            log.warning(COPIED_AGAIN, extra={**facts, "topic": topic, "address": address})
        self._parted = dict(parted)

    def _compared(self) -> Histories:
        if self._histories is None:
            self._histories = Histories(self._topology, self._link, self.target)
        return self._histories

    def _forget_histories(self) -> None:
        if self._histories is not None:
            self._histories.close()
        self._histories, self._parted = None, {}
        self._look_due_ms = now_ms() + self._look_interval_ms

    def _steer(self, effect: TargetEffect) -> None:
        if isinstance(effect, Drain):
            # A query that has ended sends nothing more; that is all the draining there is.
            self._end_query()
            for following in self._aim.handle(Drained(), now_ms()):
                self._steer(following)
            return
        self._end_query()
        self._forget_histories()
        self._failures, self._due_s = 0, time.monotonic()
        facts = {"source": self._link.source, "target": self.target}
        log.warning("link is retargeted", extra=facts)

    def _there(self, cluster: str, *, every: bool = False) -> dict[Partition, range]:
        """What a cluster holds of the topics that are copied."""
        with RangeReader(Cluster.declared(self._topology.cluster(cluster))) as asked:
            return asked.there(self._topics(), every=every)

    def _topics(self) -> TopicSelection:
        return TopicSelection(pattern=self._pattern)


def _behind_holes(
    source: Mapping[Partition, range], target: Mapping[Partition, range]
) -> dict[Partition, int]:
    """Where the source begins behind what the target has; stores of the target are told so.

    What retention has taken at the source nobody brings.
    """
    return {
        partition: kept.start
        for partition, kept in source.items()
        if kept.start > target.get(partition, range(0)).stop
    }


def without(partitions: Collection[Partition]) -> Column:
    """Return the condition that a whole batch is of none of these partitions."""
    those = (
        (F.col("topic") == F.lit(octets_of(topic))) & (F.col("partition") == F.lit(octets_of(name)))
        for topic, name in partitions
    )
    return ~reduce(or_, those, F.lit(False))


def offsets_text(starts: dict[Partition, int]) -> str:
    """Return sequences by partition as `startingOffsets` and `endingOffsets` want them."""
    places: dict[str, dict[str, int]] = {}
    for (topic, address), sequence in starts.items():
        places.setdefault(topic, {})[address] = sequence
    return json.dumps(places)
