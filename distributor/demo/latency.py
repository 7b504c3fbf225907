"""Hop latencies, read from the metrics of who copies: distributors and replicas."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from distributor.link.meter import hop_buckets, quantile
from distributor.operations.probe import probe
from topology.processes import ProcessKind

if TYPE_CHECKING:
    from collections.abc import Iterable

    from topology.processes import Process


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


def hop_latencies(processes: Iterable[Process]) -> list[HopLatency]:
    """Ask all who copy and serve metrics; one that does not answer is left out."""
    kinds = (ProcessKind.DISTRIBUTOR, ProcessKind.REPLICA)
    asked = probe([process for process in processes if process.kind in kinds])
    told = hop_buckets(*(vitals.exposition for vitals in asked))
    return [
        HopLatency(
            *link,
            batches=int(buckets[-1][1]),
            p50_s=quantile(buckets, 0.5),
            p99_s=quantile(buckets, 0.99),
        )
        for link, buckets in told.items()
    ]
