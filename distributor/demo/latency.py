"""Hop latencies between two readings of the metrics of who copies: distributors and replicas."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from distributor.link.meter import hop_buckets, quantile
from distributor.operations.probe import probe
from topology.processes import ProcessKind

if TYPE_CHECKING:
    from collections.abc import Iterable

    from topology.processes import Process


HopBuckets = dict[tuple[str, str, str], list[tuple[float, float]]]
"""By link: upper bounds in seconds, each with how many hops took no longer since the start."""


class HopLatency(NamedTuple):
    """One link's hop, from delivery at the source to durability at the target.

    Attributes:
        source: Cluster.
        target: Cluster.
        level: Tree level.
        batches: How many hopped.
        p50_s: Upper bound of the bucket that holds the median, in seconds.
        p99_s: The same for 99 of 100.
    """

    source: str
    target: str
    level: str
    batches: int
    p50_s: float
    p99_s: float


def read_hops(processes: Iterable[Process]) -> HopBuckets:
    """Ask all who copy and serve metrics; one that does not answer is left out."""
    kinds = (ProcessKind.DISTRIBUTOR, ProcessKind.REPLICA)
    asked = probe([process for process in processes if process.kind in kinds])
    return hop_buckets(*(vitals.exposition for vitals in asked))


def hop_latencies(before: HopBuckets, after: HopBuckets) -> list[HopLatency]:
    """What hopped between two readings; links of which nothing did are left out."""
    return [
        HopLatency(
            *link,
            batches=int(buckets[-1][1]),
            p50_s=quantile(buckets, 0.5),
            p99_s=quantile(buckets, 0.99),
        )
        for link, told in after.items()
        if (buckets := _grown(dict(before.get(link, ())), told))[-1][1]
    ]


def _grown(
    before: dict[float, float], after: list[tuple[float, float]]
) -> list[tuple[float, float]]:
    """By how much buckets have grown; those of a process begun anew have grown from nothing."""
    if after[-1][1] < before.get(after[-1][0], 0):
        return after
    return [(bound, count - before.get(bound, 0)) for bound, count in after]
