"""What a distributor tells Prometheus: the only importer of `prometheus_client` in this package.

Labels name a link: source, target, level. There are as many as links in the plan. Links of topics
that are not on all clusters have their patterns behind the level.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, NamedTuple

from prometheus_client import Counter, Gauge, Histogram
from prometheus_client.parser import text_string_to_metric_families

from dafka.process.metrics import Tally
from distributor.comparing.verdict import Kind
from distributor.link.stops import Reason

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from distributor.comparing.verdict import Verdict
    from distributor.link.events import Hopped, Skipped
    from distributor.offsets.events import Brought, PassedOver
    from topology.plan import Link

_LINK = ["source", "target", "level"]

RECORDS = Counter("distributor_records", "Records, by what became of them", [*_LINK, "result"])
BYTES = Counter("distributor_bytes", "Bytes of batches stored at the target", _LINK)
BATCHES = Counter("distributor_batches", "Batches stored at the target", _LINK)
LAG_RECORDS = Gauge("distributor_lag_records", "Records the target lacks of what is due", _LINK)
LAG_SECONDS = Gauge("distributor_lag_seconds", "Age of the oldest batch under way", _LINK)
BEHIND_PARTITIONS = Gauge(
    "distributor_behind_partitions",
    "Partitions of which the source's stores have more than the target's, whoever is to bring it",
    _LINK,
)
STANDSTILL_SECONDS = Gauge(
    "distributor_standstill_seconds",
    "How long the target has stood still with one of them, by the heads of both ends",
    _LINK,
)
DIVERGED_PARTITIONS = Gauge(
    "distributor_diverged_partitions",
    "Partitions not copied, as the target holds other records under the same name",
    _LINK,
)
OVERTAKEN_PARTITIONS = Gauge(
    "distributor_overtaken_partitions",
    "Partitions not copied, as the source keeps no more what follows at the target",
    _LINK,
)
SHORTENED_PARTITIONS = Gauge(
    "distributor_shortened_partitions",
    "Partitions that the target got without their beginning, as the source kept it no more",
    _LINK,
)
HOP_SECONDS = Histogram(
    "distributor_hop_seconds",
    "From a batch's delivery at the source to its durability at the target",
    _LINK,
    buckets=(0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 30),
)
_PATH = ["origin", "cluster"]

END_TO_END_SECONDS = Histogram(
    "distributor_end_to_end_seconds",
    "From a heartbeat's origin to a cluster, through every level between them",
    _PATH,
    buckets=(0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 30, 60, 300, 3_600),
)
RECOVERY_POINT = Gauge(
    "distributor_recovery_point_timestamp_seconds",
    "When the newest heartbeat of an origin was sent that has come to a cluster; 0 for never",
    _PATH,
)
OFFSETS = Counter(
    "distributor_offsets",
    "Commits of groups, by what became of them: brought to the target, or why they were not",
    [*_LINK, "result"],
)
POSITION_AGE_SECONDS = Gauge(
    "distributor_position_age_seconds",
    "For how long the target has lacked the oldest position of a group that the source has",
    [*_LINK, "group"],
)
_TOPOLOGY = ["topology"]

AUDIT_RUNS = Counter(
    "distributor_audit_runs", "Comparisons of all clusters, by result", [*_TOPOLOGY, "result"]
)
AUDIT_RECORDS = Counter("distributor_audit_records", "Records compared by content", _TOPOLOGY)
AUDIT_SECONDS = Gauge("distributor_audit_seconds", "How long the last comparison took", _TOPOLOGY)
AUDIT_LAST = Gauge(
    "distributor_audit_last_timestamp_seconds", "When the last comparison ended", _TOPOLOGY
)
AUDIT_MISSING = Gauge(
    "distributor_audit_missing_records",
    "Records that others have and this cluster lacks, at the last comparison",
    [*_TOPOLOGY, "cluster"],
)
AUDIT_DIFFERING = Gauge(
    "distributor_audit_differing_partitions",
    "Partitions in which this cluster has other, damaged or irretrievable records",
    [*_TOPOLOGY, "cluster"],
)


class AuditMeter:
    """The series of an audit of one topology.

    Args:
        topology: Its name.
        clusters: Their names.
    """

    def __init__(self, topology: str, clusters: Sequence[str]) -> None:
        self._topology = topology
        self._clusters = clusters

    def compared(self, verdict: Verdict, seconds: float, now_wall_ms: int) -> None:
        """A comparison has ended."""
        topology = self._topology
        AUDIT_RUNS.labels(topology, _RESULTS[verdict.exit_code]).inc()
        AUDIT_RECORDS.labels(topology).inc(verdict.records)
        AUDIT_SECONDS.labels(topology).set(seconds)
        AUDIT_LAST.labels(topology).set(now_wall_ms / 1_000)
        for cluster in self._clusters:
            mine = [one for one in verdict.differences if one.cluster == cluster]
            missing = sum(one.records for one in mine if one.kind is Kind.BEHIND)
            differing = {(one.topic, one.address) for one in mine if one.kind is not Kind.BEHIND}
            AUDIT_MISSING.labels(topology, cluster).set(missing)
            AUDIT_DIFFERING.labels(topology, cluster).set(len(differing))


_RESULTS = {0: "equal", 1: "missing", 3: "differs", 4: "incomplete"}
"""By the exit code of `distributor verify`."""

_PAIR = ["source", "target"]

SCHEMA_ACTING = Gauge(
    "distributor_schema_acting", "1 if it copies, as its cluster is the primary", ["source"]
)
SCHEMA_ENTRIES = Counter(
    "distributor_schema_entries",
    "Decisions about schemas copied from one registry to another",
    _PAIR,
)
SCHEMA_LAG_ENTRIES = Gauge(
    "distributor_schema_lag_entries", "Decisions that a registry lacks, as far as is known", _PAIR
)
SCHEMA_LAG_SECONDS = Gauge(
    "distributor_schema_lag_seconds",
    "How long ago a registry was last known to lack nothing",
    _PAIR,
)
SCHEMA_SKIPPED = Gauge(
    "distributor_schema_skipped_entries",
    "Decisions that cannot be copied: the other cluster has no name for them, or no room",
    [*_PAIR, "reason"],
)


class HeartbeatMeter:
    """The series of the heartbeats that one cluster hears.

    Args:
        cluster: Its name.
        origins: The names of all.
        point_ms: Wall time of the newest heartbeat of one; asked whenever metrics are read.
    """

    def __init__(
        self, cluster: str, origins: Sequence[str], point_ms: Callable[[str], int]
    ) -> None:
        self._cluster = cluster
        for origin in origins:
            RECOVERY_POINT.labels(origin, cluster).set_function(partial(_seconds, point_ms, origin))

    def heard(self, origin: str, took_ms: int) -> None:
        """A heartbeat has come."""
        END_TO_END_SECONDS.labels(origin, self._cluster).observe(took_ms / 1_000)


def _seconds(point_ms: Callable[[str], int], origin: str) -> float:
    return point_ms(origin) / 1_000


class LinkMeter:
    """The series of one link towards one of its targets."""

    def __init__(self, link: Link, target: str = "") -> None:
        labels = (link.source, target or link.target, link.crossing)
        copied = BATCHES.labels(*labels), BYTES.labels(*labels)
        self._forwarded = Tally(RECORDS.labels(*labels, "forwarded"), *copied)
        self._pulled = Tally(RECORDS.labels(*labels, "pulled"), *copied)
        self._skipped = RECORDS.labels(*labels, "skipped")
        self._skipped_records = 0
        """Not told yet."""
        self._hop_seconds = HOP_SECONDS.labels(*labels)
        self._behind = BEHIND_PARTITIONS.labels(*labels)
        self._standstill = STANDSTILL_SECONDS.labels(*labels)
        self._diverged = DIVERGED_PARTITIONS.labels(*labels)
        self._overtaken = OVERTAKEN_PARTITIONS.labels(*labels)
        self._shortened = SHORTENED_PARTITIONS.labels(*labels)
        self._lag_records = LAG_RECORDS.labels(*labels)
        self._lag_seconds = LAG_SECONDS.labels(*labels)

    def hopped(self, hopped: Hopped) -> None:
        """A batch is durable at the target."""
        (self._pulled if hopped.pulled else self._forwarded).add(hopped.records, hopped.size)
        self._hop_seconds.observe(hopped.latency_ms / 1_000)

    def tell(self) -> None:
        """Add what has hopped and what was skipped to the series; once for many."""
        self._forwarded.tell()
        self._pulled.tell()
        if self._skipped_records:
            self._skipped.inc(self._skipped_records)
            self._skipped_records = 0

    def skipped(self, skipped: Skipped) -> None:
        """Records need not cross this level."""
        self._skipped_records += skipped.records

    def standing(self, behind: int, standstill_ms: int) -> None:
        """What the last survey of both ends has found."""
        self._behind.set(behind)
        self._standstill.set(standstill_ms / 1_000)

    def stopped(self, counts: Mapping[Reason, int], shortened: int) -> None:
        """How many partitions are not copied, by reason, and are copied without their beginning."""
        self._diverged.set(counts[Reason.DIVERGED])
        self._overtaken.set(counts[Reason.OVERTAKEN])
        self._shortened.set(shortened)

    def lag(self, records: int, age_ms: int) -> None:
        """How far behind the link is now."""
        self._lag_records.set(records)
        self._lag_seconds.set(age_ms / 1_000)


class SchemaMeter:
    """The series of one cluster's schema distributor.

    Args:
        cluster: Which.
    """

    def __init__(self, cluster: str) -> None:
        self._cluster = cluster
        self._equal_ms: dict[str, int] = {}
        """By target, when it was last known to lack nothing."""
        self._skipped: dict[tuple[str, str], set[str]] = {}

    def acting(self, acting: bool) -> None:
        """Whether this distributor copies; if not, it knows nothing of others."""
        SCHEMA_ACTING.labels(self._cluster).set(acting)
        if not acting:
            for target in self._equal_ms:
                SCHEMA_LAG_ENTRIES.remove(self._cluster, target)
                SCHEMA_LAG_SECONDS.remove(self._cluster, target)
            self._equal_ms.clear()

    def lag(self, target: str, entries: int, now_ms: int) -> None:
        """How much a registry lacks."""
        SCHEMA_LAG_ENTRIES.labels(self._cluster, target).set(entries)
        if not entries:
            self._equal_ms[target] = now_ms
        self.unreachable(target, now_ms)

    def unreachable(self, target: str, now_ms: int) -> None:
        """What it lacks is not known: as much as before, for longer."""
        since_ms = self._equal_ms.setdefault(target, now_ms)
        SCHEMA_LAG_ENTRIES.labels(self._cluster, target)
        SCHEMA_LAG_SECONDS.labels(self._cluster, target).set((now_ms - since_ms) / 1_000)

    def skipped(self, source: str, target: str, reasons: Mapping[str, int]) -> None:
        """What cannot be copied from one to the other."""
        known = self._skipped.setdefault((source, target), set())
        known.update(reasons)
        for reason in known:
            SCHEMA_SKIPPED.labels(source, target, reason).set(reasons.get(reason, 0))

    def written(self, source: str, target: str, entries: int) -> None:
        """So much was copied from one to the other."""
        SCHEMA_ENTRIES.labels(source, target).inc(entries)


METERED_GROUPS_MAX = 100
"""Groups that have a series of their own; labels must be bounded."""

OTHER_GROUPS = ""
"""The label of all others together."""


class OffsetsMeter:
    """The series of the positions that one link brings to one of its targets."""

    def __init__(self, link: Link, target: str) -> None:
        self._labels = (link.source, target, str(link.level))
        self._own: set[str] = set()

    def brought(self, brought: Brought) -> None:
        """Commits are durable at the target."""
        OFFSETS.labels(*self._labels, "brought").inc(brought.count)

    def passed_over(self, passed: PassedOver) -> None:
        """Commits were not brought there, or not now."""
        OFFSETS.labels(*self._labels, passed.reason.value).inc(passed.count)

    def ages(self, ages: Mapping[str, int]) -> None:
        """How old the oldest position is that the target lacks, by group, in milliseconds."""
        for group in ages:
            if len(self._own) < METERED_GROUPS_MAX:
                self._own.add(group)
        others = [age_ms for group, age_ms in ages.items() if group not in self._own]
        shown = {group: ages.get(group, 0) for group in self._own}
        if others:
            shown[OTHER_GROUPS] = max(others)
        for group, age_ms in shown.items():
            POSITION_AGE_SECONDS.labels(*self._labels, group).set(age_ms / 1_000)


def hop_buckets(exposition: str) -> dict[tuple[str, str, str], list[tuple[float, float]]]:
    """Read hop histograms back from the text of `/metrics`: (bound in seconds, count) by link."""
    buckets: dict[tuple[str, str, str], list[tuple[float, float]]] = {}
    for family in text_string_to_metric_families(exposition):
        if family.name == "distributor_hop_seconds":
            for sample in family.samples:
                if sample.name.endswith("_bucket"):
                    labels = sample.labels
                    link = (labels["source"], labels["target"], labels["level"])
                    buckets.setdefault(link, []).append((float(labels["le"]), sample.value))
    return buckets


def quantile(buckets: list[tuple[float, float]], share: float) -> float:
    """The bound of the first bucket that reaches `share` of all."""
    wanted = buckets[-1][1] * share
    return next(bound for bound, count in buckets if count >= wanted)


class LinkTotal(NamedTuple):
    """What a link has copied since its process began."""

    records: float = 0.0
    size: float = 0.0


def link_totals(exposition: str) -> dict[tuple[str, str, str], LinkTotal]:
    """Read what each link has copied back from the text of `/metrics`."""
    totals: dict[tuple[str, str, str], LinkTotal] = {}
    for family in text_string_to_metric_families(exposition):
        for sample in family.samples:
            labels = sample.labels
            if not labels.keys() >= set(_LINK):
                continue
            link = (labels["source"], labels["target"], labels["level"])
            total = totals.get(link, LinkTotal())
            if sample.name == "distributor_records_total" and labels["result"] != "skipped":
                totals[link] = total._replace(records=total.records + sample.value)
            elif sample.name == "distributor_bytes_total":
                totals[link] = total._replace(size=sample.value)
    return totals
