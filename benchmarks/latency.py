"""From `send` to the consumer at a steady rate: at home, and one hop away."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from benchmarks.harness import Results, Worker, until_told
from benchmarks.publisher import TOPIC, publish_paced
from benchmarks.system import PAIR, SETTLE_S, system
from dafka import Consumer

if TYPE_CHECKING:
    from multiprocessing.connection import Connection

RATE = 10_000
SECONDS = 4.0
WARM_UP_S = 1.0
"""What is sent so early is not counted."""


def _listen(pipe: Connection, tower: str, count: int) -> None:
    """Report the latency of each record, in nanoseconds."""
    with Consumer(tower, TOPIC) as consumer:
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
    """10,000 records a second without linger; every record its own batch."""
    count = int(RATE * SECONDS)
    with system(PAIR) as pair:
        listeners = [Worker(_listen, pair.tower(name), count) for name in ("c1", "c2")]
        for listener in listeners:
            listener.hear()
        producer = Worker(publish_paced, pair.tower("c1"), RATE, SECONDS)
        producer.hear()
        producer.tell("go")
        home, away = (listener.hear() for listener in listeners)
        for place, latencies in (("at home", home), ("one hop away", away)):
            for percent in (50, 99):
                value = latencies[len(latencies) * percent // 100] / 1e6
                results.add(f"latency {place}, p{percent}", "ms", value)
        for worker in (producer, *listeners):
            worker.end()
