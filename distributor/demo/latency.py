"""Hop latencies, read from the distributors' own metrics."""

from __future__ import annotations

import urllib.request
from http.client import HTTPException
from typing import TYPE_CHECKING, NamedTuple

from distributor.metrics import hop_buckets
from distributor.processes import Kind

if TYPE_CHECKING:
    from collections.abc import Iterable

    from distributor.processes import Process

_TIMEOUT_S = 2.0

_OPENER = urllib.request.build_opener(urllib.request.ProxyHandler({}))
"""Our own processes are never behind a proxy, whatever the environment says."""


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
    """Ask every distributor that serves metrics; one that does not answer is left out."""
    found: list[HopLatency] = []
    for process in processes:
        if process.kind is Kind.DISTRIBUTOR and process.metrics is not None:
            for (source, target, level), buckets in hop_buckets(_scrape(process.metrics)).items():
                batches = int(buckets[-1][1])
                found.append(
                    HopLatency(
                        source,
                        target,
                        level,
                        batches,
                        _quantile(buckets, 0.5),
                        _quantile(buckets, 0.99),
                    )
                )
    return found


def _scrape(endpoint: str) -> str:
    try:
        with _OPENER.open(f"http://{endpoint}/metrics", timeout=_TIMEOUT_S) as answer:
            return str(answer.read(), "utf-8")
    except (OSError, HTTPException):
        return ""


def _quantile(buckets: list[tuple[float, float]], quantile: float) -> float:
    """The bound of the first bucket that reaches `quantile` of all."""
    wanted = buckets[-1][1] * quantile
    return next(bound for bound, count in buckets if count >= wanted)
