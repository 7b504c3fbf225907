"""Producers in processes of their own."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from benchmarks.harness import until_told
from dafka import Producer

if TYPE_CHECKING:
    from multiprocessing.connection import Connection

TOPIC = "bench"
CHUNK = 1_000
"""Values handed to `send_many` at once."""

BATCH_BYTES = 128 * 1024
FIND_S = 1.5
"""Beacons: the store has found us."""


def publish(pipe: Connection, tower: str, count: int, size: int, warm_up: int = 0) -> None:
    """Publish when told, and as many as `warm_up` before; say so when all is stored."""
    values = [bytes(size)] * CHUNK
    with Producer(tower, batch_bytes_max=BATCH_BYTES) as producer:
        time.sleep(FIND_S)
        for _ in range(warm_up // CHUNK):
            producer.send_many(TOPIC, values)
        producer.flush(60)
        pipe.send("up")
        until_told(pipe)
        for _ in range(count // CHUNK):
            producer.send_many(TOPIC, values)
        producer.flush(120)
        pipe.send("stored")
        until_told(pipe)


def publish_paced(pipe: Connection, tower: str, topic: str, rate: int, seconds: float) -> None:
    """Publish `rate` records a second, each with the monotonic time in its value, unbatched."""
    with Producer(tower, linger_ms=0) as producer:
        time.sleep(FIND_S)
        pipe.send("up")
        until_told(pipe)
        began = time.monotonic_ns()
        gap_ns = 1_000_000_000 // rate
        for number in range(int(rate * seconds)):
            wait_ns = began + number * gap_ns - time.monotonic_ns()
            if wait_ns > 0:
                time.sleep(wait_ns / 1e9)
            producer.send(topic, time.monotonic_ns().to_bytes(8, "big"))
        producer.flush(60)
        pipe.send("stored")
        until_told(pipe)


def publish_steady(pipe: Connection, tower: str, rate: int, seconds: float) -> None:
    """Publish `rate` records of 100 B a second in batches, for so long."""
    values = [bytes(100)] * max(1, rate // 20)
    deadline = time.monotonic() + seconds
    with Producer(tower, batch_bytes_max=BATCH_BYTES) as producer:
        while time.monotonic() < deadline:
            due = time.monotonic() + len(values) / rate
            producer.send_many(TOPIC, values)
            time.sleep(max(0.0, due - time.monotonic()))
        producer.flush(60)
    pipe.close()
