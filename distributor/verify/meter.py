"""What comparisons of all clusters tell Prometheus."""

from __future__ import annotations

from typing import TYPE_CHECKING

from prometheus_client import Counter, Gauge

from distributor.verify.verdict import DifferenceKind

if TYPE_CHECKING:
    from collections.abc import Sequence

    from distributor.verify.verdict import Verdict

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
_RESULTS = {0: "equal", 1: "missing", 3: "differs", 4: "incomplete"}
"""By the exit code of `distributor verify`."""


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
            missing = sum(one.records for one in mine if one.kind is DifferenceKind.BEHIND)
            differing = {one.partition for one in mine if one.kind is not DifferenceKind.BEHIND}
            AUDIT_MISSING.labels(topology, cluster).set(missing)
            AUDIT_DIFFERING.labels(topology, cluster).set(len(differing))
