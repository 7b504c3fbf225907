"""From `send` to the consumer at steady rates: in one cluster, and with a hop beside it.

Ours and bare pyzmq (`benchmarks/chain.py`) in turn, load by load.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from benchmarks.chain import PLAIN, SHAPED, away, one
from benchmarks.harness import Worker, until_told
from benchmarks.loads import (
    BARE,
    BARE_SHAPED,
    LOADS,
    OURS,
    RATES,
    SECONDS,
    PacedLoad,
    report,
    settled,
)
from benchmarks.pipeline import one_cluster
from benchmarks.publisher import publish_paced
from benchmarks.system import PAIR, SETTLE_S, system
from dafka import Consumer

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from multiprocessing.connection import Connection

    from benchmarks.harness import Results

WAYS_LOAD = PacedLoad(10_000)
WAYS: dict[str, dict[str, str]] = {
    "from the producer": {},
    "from the producer, once stored": {"isolation": "stored"},
    "through a store": {"delivery": "stores"},
}
"""How records may get to a consumer."""


def _listen(pipe: Connection, tower: str, topic: str, count: int, way: dict[str, str]) -> None:
    """Report the latency of each record, in nanoseconds."""
    with Consumer(tower, topic, **way) as consumer:  # type: ignore[arg-type]
        time.sleep(SETTLE_S)
        pipe.send("up")
        arrived: list[tuple[int, int]] = []
        for record in consumer:
            assert record.value is not None
            sent_ns = int.from_bytes(record.value, "big")
            arrived.append((sent_ns, time.monotonic_ns() - sent_ns))
            if len(arrived) == count:
                break
        pipe.send(settled(arrived))
        until_told(pipe)


def latency(results: Results) -> None:
    """One cluster at all loads, a hop at all rates; without linger."""
    with one_cluster() as (tower, _):
        for load in LOADS:
            (ours,) = _latencies(tower, [(tower, {})], load)
            report(results, OURS, load, {"in one cluster": ours})
            report(results, BARE, load, {"in one cluster": one(load)})
            report(results, BARE_SHAPED, load, {"in one cluster": one(load, SHAPED)})
    with system(PAIR) as pair:
        towers: list[tuple[str, dict[str, str]]] = [(pair.tower(name), {}) for name in ("c1", "c2")]
        for load in map(PacedLoad, RATES):
            places = ("beside a hop", "one hop away")
            latencies = _latencies(towers[0][0], towers, load)
            report(results, OURS, load, dict(zip(places, latencies, strict=True)))
            for name, form in ((BARE, PLAIN), (BARE_SHAPED, SHAPED)):
                report(results, name, load, dict(zip(places, away(load, form), strict=True)))


def ways(results: Results) -> None:
    """Three consumers side by side, each in its way."""
    with one_cluster() as (tower, _):
        found = _latencies(tower, [(tower, way) for way in WAYS.values()], WAYS_LOAD)
    for name, latencies in zip(WAYS, found, strict=True):
        report(results, OURS, WAYS_LOAD, {f"{name}, of three consumers": latencies})


def _latencies(
    source: str, places: Sequence[tuple[str, Mapping[str, str]]], load: PacedLoad
) -> list[list[int]]:
    """What listeners at these places, each in its way, see of producers at `source`."""
    topic = f"{load}, {len(places)}"
    listeners = [Worker(_listen, place, topic, load.records, way) for place, way in places]
    for listener in listeners:
        listener.hear()
    each = (source, topic, load.rate // load.producers, SECONDS)
    producers = [Worker(publish_paced, *each) for _ in range(load.producers)]
    for producer in producers:
        producer.hear()
    for producer in producers:
        producer.tell("go")
    found = [listener.hear() for listener in listeners]
    for producer in producers:
        producer.hear()
    for worker in (*producers, *listeners):
        worker.end()
    return found
