"""The loads under which latency is measured, and what is told of each."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from benchmarks.harness import Results

SECONDS = 3.0
WARM_UP_NS = 1_000_000_000
"""What is sent so early is not counted."""

OURS, BARE, BARE_FILE = "", "bare pyzmq, our log: ", "bare pyzmq, plain files: "
BARE_SHAPED = "bare pyzmq, same shape: "
"""Put before the names of what is measured."""

RATES = (1_000, 10_000, 100_000)
"""Records a second of one producer."""

BUSY = (2, 4, 8)
"""Producers side by side."""

BUSY_RATE = 2_500
"""Records a second of each of these."""


class PacedLoad(NamedTuple):
    """What is sent.

    Attributes:
        rate: Records a second, of all producers together.
        producers: How many processes send them.
    """

    rate: int
    producers: int = 1

    @property
    def records(self) -> int:
        """How many are sent in a run."""
        return int(self.rate // self.producers * SECONDS) * self.producers

    def __str__(self) -> str:
        by = f" of {self.producers} producers" if self.producers > 1 else ""
        return f"{self.rate:,}/s{by}"


LOADS = (*map(PacedLoad, RATES), *(PacedLoad(number * BUSY_RATE, number) for number in BUSY))


def settled(arrived: Iterable[tuple[int, int]]) -> list[int]:
    """Latencies in ns, sorted, of what was sent after the start.

    Args:
        arrived: For each record when it was sent, and how long it took, in ns.
    """
    arrived = list(arrived)
    from_ns = min(sent_ns for sent_ns, _ in arrived) + WARM_UP_NS
    return sorted(took_ns for sent_ns, took_ns in arrived if sent_ns >= from_ns)


def report(results: Results, whose: str, load: PacedLoad, places: Mapping[str, list[int]]) -> None:
    """Add what was measured at these places, and what each adds to the one before, in the median.

    Args:
        results: Where to.
        whose: Put before each name.
        load: Under which it was.
        places: Latencies in ns, sorted.
    """
    medians = []
    for place, latencies in places.items():
        for percent in (50, 99):
            value = latencies[len(latencies) * percent // 100] / 1e6
            results.add(f"{whose}latency {place}, {load}, p{percent}", "ms", value)
        medians.append(latencies[len(latencies) // 2] / 1e6)
    for near, far in pairwise(medians):
        results.add(f"{whose}a hop adds, {load}, p50", "ms", far - near)
