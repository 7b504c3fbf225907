"""What compression of batches saves and costs: by codec, and in a link between two clusters."""

from __future__ import annotations

import os
import time
import timeit
from functools import cache, partial
from itertools import cycle, islice
from typing import TYPE_CHECKING

from benchmarks.harness import Results, Worker, rate, until_told
from benchmarks.publisher import CHUNK, FIND_S, TOPIC
from benchmarks.system import PAIR, system
from dafka import Producer
from dafka.records.batch import BatchBuilder, compressed_content, enclosed, expanded_content
from dafka.records.compression import Codec
from distributor.demo.dataset import TOPICS, rows

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from multiprocessing.connection import Connection

FLIGHTS = 20_000
"""So many are different: the demo's, JSON of 350 octets or so."""

BATCH_BYTES = 64 * 1024
"""That of a producer that says nothing else."""

RUNS = 20
DEADLINE_S = 180.0


@cache
def flights() -> list[bytes]:
    """Values of the demo."""
    return [row.value for row in rows(FLIGHTS) if row.topic == TOPICS[0]]


@cache
def noise() -> list[bytes]:
    """Values of a hundred random octets."""
    return [os.urandom(100) for _ in range(FLIGHTS)]


def codecs(results: Results) -> None:
    """How much smaller batches get, and at which pace of one core."""
    for name, values in (("flights", flights()), ("random octets", noise())):
        plain = _batch_of(values)
        for codec in Codec:
            if codec is Codec.NONE:
                continue
            smaller = compressed_content(plain, codec)
            label = f"{name}, {codec.name.lower()}"
            results.add(f"{label}: smaller", "times", len(plain) / len(smaller))
            spent = _seconds(partial(compressed_content, plain, codec))
            results.add(f"{label}: compress", "MB/s", len(plain) / spent / 1e6)
            if smaller is not plain:
                spent = _seconds(partial(expanded_content, smaller, 1 << 20))
                results.add(f"{label}: expand", "MB/s", len(plain) / spent / 1e6)


def link(results: Results, codec: Codec, count: int) -> None:
    """Flights through a hop that compresses so: CPU of the link and of the target's store."""
    name = f"one hop, flights, {codec.name.lower()}"
    with system(PAIR, f"links: {{compression: {codec.name.lower()}}}") as pair:
        producer = Worker(publish, pair.tower("c1"), count)
        producer.hear()
        names = "c1-level-1", "c2-store-1"
        before = [pair.cpu_seconds(one) for one in names]
        began = time.perf_counter()
        producer.tell("go")
        pair.wait_for(count, DEADLINE_S)
        results.add(name, "records/s", rate(count, began))
        producer.end()
        after = [pair.cpu_seconds(one) for one in names]
        for whose, first, last in zip(("link", "store"), before, after, strict=True):
            results.add(f"{name}: CPU of the {whose}", "us/record", (last - first) / count * 1e6)


def publish(pipe: Connection, tower: str, count: int) -> None:
    """Publish flights when told, say so when all are stored."""
    values = cycle(flights())
    with Producer(tower, batch_bytes_max=BATCH_BYTES) as producer:
        time.sleep(FIND_S)
        pipe.send("up")
        until_told(pipe)
        for _ in range(count // CHUNK):
            producer.send_many(TOPIC, list(islice(values, CHUNK)))
        producer.flush(120)
        pipe.send("stored")
        until_told(pipe)


def _batch_of(values: Sequence[bytes]) -> bytes:
    builder = BatchBuilder(BATCH_BYTES)
    builder.extend(1_356_998_400_000, values, 0)
    return enclosed(builder.build(), 0)


def _seconds(step: Callable[[], bytes]) -> float:
    """The fastest of a few: the others were disturbed."""
    return min(timeit.repeat(step, number=RUNS, repeat=5)) / RUNS
