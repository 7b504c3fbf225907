"""Copies between clusters: what one hop costs, and what a tree of four delivers."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from benchmarks.harness import Results, Worker, rate
from benchmarks.publisher import publish
from benchmarks.system import FOUR, PAIR, System, system

if TYPE_CHECKING:
    from collections.abc import Sequence

DEADLINE_S = 120.0
WARM_UP = 20_000


def hop(results: Results, name: str, count: int, size: int) -> None:
    """One producer at one cluster, one distributor to the other, fsync at both."""
    with system(PAIR) as pair:
        # By the same producer: what a new partition costs until its place is known is another cost.
        producer = Worker(publish, pair.tower("c1"), count, size, WARM_UP)
        producer.hear()
        pair.wait_for(WARM_UP, DEADLINE_S)
        before = pair.cpu_seconds("c1-level-1"), pair.cpu_seconds("c2-level-1")
        began = time.perf_counter()
        producer.tell("go")
        pair.wait_for(WARM_UP + count, DEADLINE_S)
        results.add(name, "records/s", rate(count, began))
        producer.end()
        there = pair.cpu_seconds("c1-level-1") - before[0]
        back = pair.cpu_seconds("c2-level-1") - before[1]
        results.add(f"{name}: CPU distributor", "us/record", there / count * 1e6)
        results.add(f"{name}: CPU of the one back, which skips", "us/record", back / count * 1e6)
        results.add(f"{name}: per core", "MB/s of its CPU", count * size / there / 1e6)


def tree(results: Results, name: str, count: int, size: int) -> None:
    """Producers at all four clusters of the demo's tree; every record goes to the other three."""
    with system(FOUR) as four:
        names = [cluster.name for cluster in four.topology.clusters]
        warm_up(four, names, size)
        producers = [Worker(publish, four.tower(name), count // 4, size) for name in names]
        for producer in producers:
            producer.hear()
        began = time.perf_counter()
        for producer in producers:
            producer.tell("go")
        four.wait_for(4 * WARM_UP + count // 4 * 4, DEADLINE_S)
        results.add(name, "deliveries/s", rate(count * 4, began))
        for producer in producers:
            producer.end()


def warm_up(clusters: System, names: Sequence[str], size: int) -> None:
    """Send some records from each of these and wait until they are everywhere."""
    for name in names:
        producer = Worker(publish, clusters.tower(name), WARM_UP, size)
        producer.hear()
        producer.tell("go")
        producer.hear()
        producer.end()
    clusters.wait_for(len(names) * WARM_UP, DEADLINE_S)
