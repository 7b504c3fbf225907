"""How old a group's position is on the other clusters while it consumes at a steady rate."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from benchmarks.harness import Results, Worker, until_told
from benchmarks.publisher import TOPIC, publish_steady
from benchmarks.system import FOUR, SETTLE_S, system
from dafka import Consumer
from dafka.cluster import Cluster
from dafka.process.clock import wall_ms

if TYPE_CHECKING:
    from multiprocessing.connection import Connection

    from benchmarks.system import System

RATE = 10_000
SECONDS = 12.0
COMMIT_MS = 500
WARM_UP_S = 4.0
"""Until the group is settled and its first commits are everywhere."""

LOOK_S = 0.05
GROUP = "bench"


def _consume(pipe: Connection, tower: str, store: str) -> None:
    """Consume as a group until told."""
    with Consumer(Cluster(tower, store), TOPIC, group=GROUP, auto_commit_ms=COMMIT_MS) as consumer:
        time.sleep(SETTLE_S)
        pipe.send("up")
        while not pipe.poll():
            consumer.poll(0.01)
        until_told(pipe)


def positions(results: Results) -> None:
    """10,000 records a second at c1; how long ago was committed what c2, c3 and c4 hold?"""
    with system(FOUR, "offsets: {translation: timestamp, margin_ms: 1000}") as four:
        store = four.topology.cluster("c1").stores[0].query
        consumer = Worker(_consume, four.tower("c1"), store)
        consumer.hear()
        producer = Worker(publish_steady, four.tower("c1"), RATE, SECONDS)
        for cluster, ages in _watched(four).items():
            for percent in (50, 99):
                value = float(sorted(ages)[len(ages) * percent // 100])
                results.add(f"position age at {cluster}, p{percent}", "ms", value)
        for worker in (producer, consumer):
            worker.end()


def _watched(four: System) -> dict[str, list[int]]:
    """By cluster, the ages of what it held, in milliseconds, looked at again and again."""
    ages: dict[str, list[int]] = {"c2": [], "c3": [], "c4": []}
    clients = {name: four.client(name) for name in ages}
    began = time.monotonic()
    while time.monotonic() < began + SECONDS - 1.0:
        for name, client in clients.items():
            held = client.offsets(GROUP).values()
            if held and time.monotonic() > began + WARM_UP_S:
                ages[name].append(wall_ms() - max(commit.commit_ms for commit in held))
        time.sleep(LOOK_S)
    for client in clients.values():
        client.close()
    return ages
