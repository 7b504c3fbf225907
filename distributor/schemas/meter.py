"""What a schema distributor tells Prometheus."""

from __future__ import annotations

from typing import TYPE_CHECKING

from prometheus_client import Counter, Gauge

if TYPE_CHECKING:
    from collections.abc import Mapping


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

    def close(self) -> None:
        """It has ended: others would take what it told last for what holds."""
        self.acting(False)
        SCHEMA_ACTING.remove(self._cluster)
        for pair, reasons in self._skipped.items():
            for reason in reasons:
                SCHEMA_SKIPPED.remove(*pair, reason)
