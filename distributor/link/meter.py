"""What a link tells Prometheus, and what can be read back of it.

Labels name a link: source, target, level. There are as many as links in the plan. Links of topics
that are not on all clusters have their patterns behind the level, and shares of a link which one
of how many it is.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, NamedTuple

from prometheus_client import Counter, Gauge, Histogram
from prometheus_client.parser import text_string_to_metric_families

from dafka.model import WHOLE
from dafka.process.metrics import Tally
from distributor.link.events import StopReason

if TYPE_CHECKING:
    from collections.abc import Mapping

    from dafka.model import PartitionShare
    from distributor.link.events import Hopped, Skipped
    from distributor.link.tracing import HopTracer
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
REFUSED_PARTITIONS = Gauge(
    "distributor_refused_partitions",
    "Partitions not copied for the moment, as the target acknowledges nothing of them",
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
_GAUGES = (
    *(LAG_RECORDS, LAG_SECONDS, BEHIND_PARTITIONS, STANDSTILL_SECONDS),
    *(DIVERGED_PARTITIONS, OVERTAKEN_PARTITIONS, REFUSED_PARTITIONS, SHORTENED_PARTITIONS),
)
"""What holds as long as a link runs; all else counts what it has done."""

_COPIED = ("forwarded", "pulled")
"""Results of records that are traffic: not those that are skipped, nor the clusters' own."""

_SHARE = re.compile(r" share \d+/\d+$")
"""What stands behind the level of a share."""


class LinkMeter:
    """The series of one link towards one of its targets, and spans of sampled records.

    Args:
        link: Which.
        target: Where it aims; by default its preferred one.
        share: Which of its partitions.
        tracer: What tells of hops of sampled records, if anybody wants that.
    """

    def __init__(
        self,
        link: Link,
        target: str = "",
        share: PartitionShare = WHOLE,
        tracer: HopTracer | None = None,
    ) -> None:
        self._tracer = tracer
        part = "" if share == WHOLE else f" share {share.number}/{share.of}"
        labels = self._labels = (link.source, target or link.target, link.crossing + part)
        copied = BATCHES.labels(*labels), BYTES.labels(*labels)
        self._forwarded = Tally(RECORDS.labels(*labels, "forwarded"), *copied)
        self._pulled = Tally(RECORDS.labels(*labels, "pulled"), *copied)
        self._skipped = RECORDS.labels(*labels, "skipped")
        self._skipped_records = 0
        """Not told yet."""
        self._internal = RECORDS.labels(*labels, "internal")
        self._hop_seconds = HOP_SECONDS.labels(*labels)
        self._behind = BEHIND_PARTITIONS.labels(*labels)
        self._standstill = STANDSTILL_SECONDS.labels(*labels)
        self._diverged = DIVERGED_PARTITIONS.labels(*labels)
        self._overtaken = OVERTAKEN_PARTITIONS.labels(*labels)
        self._refused = REFUSED_PARTITIONS.labels(*labels)
        self._shortened = SHORTENED_PARTITIONS.labels(*labels)
        self._lag_records = LAG_RECORDS.labels(*labels)
        self._lag_seconds = LAG_SECONDS.labels(*labels)

    def hopped(self, hopped: Hopped) -> None:
        """A batch is durable at the target.

        What the clusters say to each other is counted, and is no traffic: a tree that only has
        heartbeats to copy looks idle.
        """
        if hopped.internal:
            self._internal.inc(hopped.records)
            return
        (self._pulled if hopped.pulled else self._forwarded).add(hopped.records, hopped.size)
        self._hop_seconds.observe(hopped.latency_ms / 1_000)
        if self._tracer is not None:
            self._tracer.hopped(hopped)

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

    def standstill(self, behind: int, standstill_ms: int) -> None:
        """What the last survey of both ends has found."""
        self._behind.set(behind)
        self._standstill.set(standstill_ms / 1_000)

    def stopped(self, counts: Mapping[StopReason, int], shortened: int) -> None:
        """How many partitions are not copied, by reason, and are copied without their beginning."""
        self._diverged.set(counts[StopReason.DIVERGED])
        self._overtaken.set(counts[StopReason.OVERTAKEN])
        self._refused.set(counts[StopReason.REFUSED])
        self._shortened.set(shortened)

    def lag(self, records: int, age_ms: int) -> None:
        """How far behind the link is now."""
        self._lag_records.set(records)
        self._lag_seconds.set(age_ms / 1_000)

    def close(self) -> None:
        """It has ended, or aims at another target: how far it was says nothing any more."""
        for gauge in _GAUGES:
            gauge.remove(*self._labels)


def hop_buckets(*expositions: str) -> dict[tuple[str, str, str], list[tuple[float, float]]]:
    """Read hop histograms back from the text of `/metrics`: (bound in seconds, count) by link.

    Args:
        expositions: Of processes that may have copied some of the same link; they add up, as shares
            do.
    """
    counts: dict[tuple[str, str, str], dict[float, float]] = {}
    for exposition in expositions:
        for family in text_string_to_metric_families(exposition):
            if family.name == "distributor_hop_seconds":
                for sample in family.samples:
                    if sample.name.endswith("_bucket"):
                        bounds = counts.setdefault(_link_of(sample.labels), {})
                        bound = float(sample.labels["le"])
                        bounds[bound] = bounds.get(bound, 0) + sample.value
    return {link: sorted(bounds.items()) for link, bounds in counts.items()}


def _link_of(labels: Mapping[str, str]) -> tuple[str, str, str]:
    """The link of which a series, or a share of it, is."""
    return (labels["source"], labels["target"], _SHARE.sub("", labels["level"]))


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
            link = _link_of(labels)
            total = totals.get(link, LinkTotal())
            if sample.name == "distributor_records_total" and labels["result"] in _COPIED:
                totals[link] = total._replace(records=total.records + sample.value)
            elif sample.name == "distributor_bytes_total":
                totals[link] = total._replace(size=total.size + sample.value)
    return totals
