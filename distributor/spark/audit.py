"""All clusters compared by content, as a Spark job: what is missing, double, different or astray.

Ranges of records are compared by count and digest first, so that only these travel; the records of
ranges that differ are compared one by one.
"""

from __future__ import annotations

import shutil
from dataclasses import dataclass
from functools import reduce
from operator import or_
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from py4j.protocol import Py4JError
from pyarrow import parquet
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812 (as everybody calls it)

from dafka.arrow.columns import shown
from dafka.errors import MisuseError
from dafka.model import Partition
from dafka.spark.columns import TYPES, all_columns
from distributor.errors import AuditError
from distributor.spark.link_job import offsets_text
from distributor.spark.paths import ways
from distributor.spark.patterns import wanted_pattern
from distributor.spark.source import endpoints
from distributor.survey import survey
from topology.copyflags import EVERY_FLAG

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from pyspark.sql import Column, SparkSession

    from distributor.survey import Holding
    from topology import ClusterSpec, Topology

RANGE_RECORDS = 10_000
"""Records of a partition that are compared at once."""

_FINDINGS, _TEXT = "findings.parquet", "report.txt"

_PLACE = ("topic", "partition", "range")

_PULLED = EVERY_FLAG - (1 << 64)
"""The flags of a copy that was pulled, as a signed number."""

_Held = tuple[str, str, str]
"""ClusterSpec, topic, partition."""


class AuditFinding(NamedTuple):
    """Something is not as it should be.

    Attributes:
        kind: `missing` (between records that are there), `behind` (after all that is there),
            `expired` (before all that is there), `duplicated`, `differs` (from the first cluster
            that has it), or `path` (flags that no way through the tree leaves).
        cluster: Where.
        topic: Of which topic.
        partition: Of which partition.
        first: Sequence of the first such record; for `path` of the first in its range.
        last: Sequence of the last.
        records: How many.
    """

    kind: str
    cluster: str
    topic: str
    partition: str
    first: int
    last: int
    records: int


@dataclass(frozen=True, slots=True)
class Audit:
    """What was compared and found.

    Attributes:
        records: How many each cluster has.
        findings: What is not as it should be; a DataFrame with the fields of `AuditFinding`.
    """

    records: dict[str, int]
    findings: DataFrame

    @property
    def equal(self) -> bool:
        """Whether all is as it should be; clusters may keep partitions from other places on."""
        return bool(self.findings.where("kind <> 'expired'").isEmpty())

    def first_findings(self, count: int) -> list[AuditFinding]:
        """The first so many findings, in order."""
        ordered = self.findings.orderBy("kind", "cluster", "topic", "partition", "first")
        return [AuditFinding(*row) for row in ordered.limit(count).collect()]


def audit(
    spark: SparkSession,
    topology: Topology,
    directory: Path = Path(),
    range_records: int = RANGE_RECORDS,
) -> Audit:
    """Compare all clusters as they are now, of each the topics that are to be there.

    While records flow, the last of them may not be everywhere yet: they are `behind`.

    Args:
        spark: The session; `distributor.spark.register` has been called with it.
        topology: Whose clusters.
        directory: Of the topology's file: what its key files are relative to.
        range_records: Records of a partition that are compared at once.

    Raises:
        AuditError: A cluster does not answer.
    """
    _surveyed(topology)
    everything = _union(
        [
            _records(spark, topology, cluster, directory, range_records)
            for cluster in topology.clusters
        ]
    )
    summary = (
        everything.groupBy("cluster", *_PLACE)
        .agg(
            F.count("*").alias("records"),
            F.bit_xor("digest").alias("digest"),
            F.min("offset").alias("first"),
            F.max("offset").alias("last"),
            F.count_if("astray").alias("astray"),
        )
        .persist()
    )
    ends = {
        (row.cluster, row.topic, row.partition): row.end
        for row in summary.groupBy("cluster", "topic", "partition")
        .agg((F.max("last") + 1).alias("end"))
        .collect()
    }
    holdings = _surveyed(topology)
    spans = _spans(spark, ends, holdings)
    placed = _placed(topology, holdings)
    astray = summary.where("astray > 0").selectExpr(
        *("'path' kind", "cluster", "topic", "partition", "first", "last", "astray records")
    )
    names = [cluster.name for cluster in topology.clusters]
    compared = _union(
        [
            _records(spark, topology, cluster, directory, range_records, _ends(ends, cluster.name))
            for cluster in topology.clusters
        ]
    ).join(F.broadcast(_suspicious(summary, placed, len(names))), [*_PLACE], "left_semi")
    findings = _differences(compared, spans, placed, names).unionByName(astray).persist()
    totals = dict.fromkeys(names, 0)
    for row in summary.groupBy("cluster").agg(F.sum("records").alias("records")).collect():
        totals[row.cluster] = row.records
    return Audit({str(name): count for name, count in totals.items()}, findings)


def write_report(found: Audit, directory: Path, text: str) -> None:
    """Write `findings.parquet` and `report.txt` into a directory here, over what is there.

    Raises:
        OSError: It cannot be written.
    """
    directory.mkdir(parents=True, exist_ok=True)
    findings = directory / _FINDINGS
    if findings.is_dir():  # executors wrote it so, once
        shutil.rmtree(findings)
    parquet.write_table(found.findings.toArrow(), findings)
    (directory / _TEXT).write_text(text)


def check_writable(spark: SparkSession, uri: str) -> None:
    """Make sure that Spark can write below a URI: the job may run for hours before it does.

    Raises:
        MisuseError: It cannot.
    """
    try:
        spark.range(0).write.mode("overwrite").parquet(f"{uri}/{_FINDINGS}")
    except (PySparkException, Py4JError) as error:
        # The calls that Java has made stand behind a tab, what went wrong in them does not.
        reasons = [line for line in str(error).splitlines() if line and line[0] != "\t"]
        raise MisuseError(
            f"cannot write to {uri!r}: {reasons[-1]}; say another --report"
        ) from error


def write_report_at(found: Audit, uri: str, text: str) -> None:
    """Write the same below a URI, each as a directory, as Spark writes; over what is there."""
    found.findings.write.mode("overwrite").parquet(f"{uri}/{_FINDINGS}")
    lines = found.findings.sparkSession.createDataFrame([(text,)], "text STRING").coalesce(1)
    lines.write.mode("overwrite").text(f"{uri}/{_TEXT}")


def _records(
    spark: SparkSession,
    topology: Topology,
    cluster: ClusterSpec,
    directory: Path,
    range_records: int,
    ends: str = "latest",
) -> DataFrame:
    """A cluster's records: place, digest of what shall be the same everywhere, astray or not."""
    source = spark.read.format("dafka").options(
        **endpoints(cluster, directory),
        subscribePattern=wanted_pattern(topology, cluster.name),
        endingOffsets=ends,
        # What retention takes meanwhile is not there any more; log starts tell it from a loss.
        failOnDataLoss=False,
    )
    # Each store has its own for what came as bare values.
    own_time = F.when(F.col("timestampType") == 0, F.col("timestamp"))
    columns = all_columns(headers=True).add("epoch", TYPES["epoch"])
    return (
        source.schema(columns)
        .load()
        .select(
            F.lit(cluster.name).alias("cluster"),
            "topic",
            "partition",
            (F.col("offset") - F.col("offset") % range_records).alias("range"),
            "offset",
            F.xxhash64("offset", own_time, "key", "value", "headers").alias("digest"),
            (~_in_order(topology, cluster)).alias("astray"),
        )
    )


def _in_order(topology: Topology, cluster: ClusterSpec) -> Column:
    """Whether a record's flags can be: those of a way from its origin to here, or of a pulled copy.

    Flags of another epoch say only that it was copied. Of topics that are not on all clusters the
    ways are fewer than the tree has; what the tree permits is permitted.
    """
    flags = F.col("copy_flags")
    told_nothing = (flags != 0) & (F.col("epoch") != topology.levels.epoch)
    permitted = [told_nothing, flags == _PULLED] + [
        (F.col("origin") == way.origin)
        & (flags.bitwiseAND(F.lit(way.demanded)) == way.demanded)
        & (flags.bitwiseAND(F.lit(~(way.demanded | way.allowed))) == 0)
        for way in ways(topology)
        if way.cluster == cluster.name
    ]
    return reduce(lambda one, other: one | other, permitted)


def _placed(topology: Topology, holdings: Iterable[Holding]) -> dict[tuple[str, ...], list[str]]:
    """By the clusters that they are to be on, the topics there are that are not to be on all."""
    topics = {partition.topic for holding in holdings for partition in holding.heads}
    placed: dict[tuple[str, ...], list[str]] = {}
    for topic in sorted(topics):
        span = topology.placed_on(topic)
        if len(span) < len(topology.clusters):
            placed.setdefault(span, []).append(shown(topic))
    return placed


def _suspicious(
    summary: DataFrame, placed: Mapping[tuple[str, ...], list[str]], clusters: int
) -> DataFrame:
    """Ranges that are not the same wherever they are to be, or hold more records than sequences."""
    due = F.lit(clusters)
    for span, topics in placed.items():
        due = F.when(F.col("topic").isin(topics), len(span)).otherwise(due)
    return (
        summary.groupBy(*_PLACE)
        .agg(
            F.count_distinct("records", "digest").alias("versions"),
            F.count("*").alias("clusters"),
            F.max(F.col("records") > F.col("last") - F.col("first") + 1).alias("double"),
        )
        .where((F.col("versions") > 1) | (F.col("clusters") < due) | F.col("double"))
        .select(*_PLACE)
    )


def _surveyed(topology: Topology) -> list[Holding]:
    found = survey(topology)
    silent = [holding for holding in found if holding.store is None]
    if silent:
        raise AuditError("; ".join(f"{one.cluster} does not answer: {one.error}" for one in silent))
    return found


def _spans(spark: SparkSession, ends: Mapping[_Held, int], holdings: list[Holding]) -> DataFrame:
    """What each cluster keeps of each partition: from its log start to the end in the first pass.

    Log starts are asked for, not read off the records: of some nothing may be left.
    """
    rows = []
    for holding in holdings:
        for (topic, address), start in holding.starts.items():
            place = (holding.cluster, shown(topic), shown(address))
            rows.append((*place, start, ends.get(place, start) - 1))
    names = "cluster STRING, topic STRING, partition STRING, span_first LONG, span_last LONG"
    return spark.createDataFrame(rows, names)


def _ends(ends: Mapping[_Held, int], cluster: str) -> str:
    """Where each of a cluster's partitions ended in the first pass: the second ends there too."""
    return offsets_text(
        {
            Partition(topic, address): end
            for (name, topic, address), end in ends.items()
            if name == cluster
        }
    )


def _differences(
    records: DataFrame,
    spans: DataFrame,
    placed: Mapping[tuple[str, ...], list[str]],
    names: Sequence[str],
) -> DataFrame:
    elsewhere = (
        F.col("topic").isin(topics) & ~F.col("cluster").isin(*span)
        for span, topics in placed.items()
    )
    per_cluster = [
        F.struct(
            F.lit(name).alias("cluster"),
            F.count_if(F.col("cluster") == name).alias("copies"),
            F.min(F.when(F.col("cluster") == name, F.col("digest"))).alias("digest"),
        )
        for name in names
    ]
    places = records.groupBy(*_PLACE, "offset").agg(F.array(*per_cluster).alias("held"))
    first = F.filter("held", lambda one: one.copies > 0)[0].digest
    held = places.select(
        *_PLACE, "offset", first.alias("expected"), F.explode("held").alias("one")
    ).select(*_PLACE, "offset", "expected", "one.*")
    kinds = held.join(F.broadcast(spans), ["cluster", "topic", "partition"], "left").withColumn(
        "kind",
        F.when((F.col("copies") == 0) & (F.col("offset") < F.col("span_first")), "expired")
        .when((F.col("copies") == 0) & (F.col("offset") < F.col("span_last")), "missing")
        .when(F.col("copies") == 0, "behind")
        .when(F.col("copies") > 1, "duplicated")
        .when(F.col("digest") != F.col("expected"), "differs"),
    )
    return (
        kinds.where("kind IS NOT NULL")
        .where(~reduce(or_, elsewhere, F.lit(False)))
        .groupBy("kind", "cluster", *_PLACE)
        .agg(
            F.min("offset").alias("first"),
            F.max("offset").alias("last"),
            F.count("*").alias("records"),
        )
        .drop("range")
    )


def _union(frames: list[DataFrame]) -> DataFrame:
    return reduce(DataFrame.unionByName, frames)
