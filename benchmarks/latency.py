"""From `send` to the consumer at a steady rate: in one cluster, and with a hop beside it."""

from __future__ import annotations

import time
from itertools import pairwise
from typing import TYPE_CHECKING

from benchmarks.harness import Results, Worker, until_told
from benchmarks.pipeline import one_cluster
from benchmarks.publisher import TOPIC, publish_paced
from benchmarks.system import PAIR, SETTLE_S, system
from dafka import Consumer

if TYPE_CHECKING:
    from multiprocessing.connection import Connection

RATE = 10_000
SECONDS = 4.0
WARM_UP_S = 1.0
"""What is sent so early is not counted."""


WAYS = {
    "from the producer": {},
    "from the producer, once stored": {"isolation": "stored"},
    "through a store": {"delivery": "stores"},
}
"""How records may get to a consumer."""


def _listen(pipe: Connection, tower: str, count: int, way: dict[str, str]) -> None:
    """Report the latency of each record, in nanoseconds."""
    with Consumer(tower, TOPIC, **way) as consumer:  # type: ignore[arg-type]
        time.sleep(SETTLE_S)
        pipe.send("up")
        latencies: list[int] = []
        for record in consumer:
            assert record.value is not None
            latencies.append(time.monotonic_ns() - int.from_bytes(record.value, "big"))
            if len(latencies) == count:
                break
        pipe.send(sorted(latencies[int(RATE * WARM_UP_S) :]))
        until_told(pipe)


def latency(results: Results) -> None:
    """10,000 records a second without linger."""
    with one_cluster() as (tower, _):
        (alone,) = _latencies(tower, [(tower, {})])
    with one_cluster() as (tower, _):
        ways = _latencies(tower, [(tower, way) for way in WAYS.values()])
    with system(PAIR) as pair:
        home, away = _latencies(pair.tower("c1"), [(pair.tower(name), {}) for name in ("c1", "c2")])
    report(results, "", {"in one cluster": alone})
    for name, latencies in zip(WAYS, ways, strict=True):
        report(results, "", {f"{name}, of three consumers": latencies})
    report(results, "", {"beside a hop": home, "one hop away": away})


def report(results: Results, whose: str, places: dict[str, list[int]]) -> None:
    """Add what was measured at these places, and what each adds to the one before, in the median.

    Args:
        results: Where to.
        whose: Put before each name.
        places: Latencies in ns, sorted.
    """
    medians = []
    for place, latencies in places.items():
        for percent in (50, 99):
            value = latencies[len(latencies) * percent // 100] / 1e6
            results.add(f"{whose}latency {place}, p{percent}", "ms", value)
        medians.append(latencies[len(latencies) // 2] / 1e6)
    for near, far in pairwise(medians):
        results.add(f"{whose}a hop adds, p50", "ms", far - near)


def _latencies(source: str, places: list[tuple[str, dict[str, str]]]) -> list[list[int]]:
    """What listeners at these places, each in its way, see of a producer at `source`."""
    count = int(RATE * SECONDS)
    listeners = [Worker(_listen, place, count, way) for place, way in places]
    for listener in listeners:
        listener.hear()
    producer = Worker(publish_paced, source, RATE, SECONDS)
    producer.hear()
    producer.tell("go")
    found = [listener.hear() for listener in listeners]
    producer.hear()
    for worker in (producer, *listeners):
        worker.end()
    return found
