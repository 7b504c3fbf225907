"""Producer to store (fsync, ACK) and consumer at once, as processes, through the public API."""

from __future__ import annotations

import time
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING, NamedTuple

from benchmarks.harness import (
    Results,
    Worker,
    cpu_seconds,
    free_ports,
    rate,
    scratch,
    take_core,
    until_told,
)
from dafka import Consumer, Producer, Store, Tower
from dafka.model import ALL_SLOTS, Slots
from dafka.process.memory import collect_rarely, keep_freed_memory

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from multiprocessing.connection import Connection
    from pathlib import Path

TOPIC = "bench"
WARM_UP = 5_000
CHUNK = 1_000
"""Values handed to `send_many` at once."""


class StoreShare(NamedTuple):
    """What a store has to do, and with what.

    Attributes:
        slots: Which it keeps.
        core: The only one that it runs on, if that is said, by its number.
    """

    slots: Slots = ALL_SLOTS
    core: int | None = None


def _serve(pipe: Connection, tower: str) -> None:
    with Tower(tower):
        pipe.send("up")
        until_told(pipe)


def _store(pipe: Connection, tower: str, query: str, data: Path, share: StoreShare) -> None:
    if share.core is not None:
        take_core(share.core)
    keep_freed_memory()  # as `dafka store` does
    collect_rarely()
    with Store(data, tower, query=query, slots=share.slots):
        pipe.send("up")
        if not until_told(pipe):
            return
        began_cpu = cpu_seconds()
        pipe.send("counting")
        until_told(pipe)
        pipe.send(cpu_seconds() - began_cpu)
        until_told(pipe)


def produce(pipe: Connection, tower: str, count: int, size: int, bulk: bool) -> None:
    """A producer, in a process of its own: warms up, and publishes so many records when told."""
    value = bytes(size)
    values = [value] * CHUNK
    with Producer(tower, batch_bytes_max=128 * 1024) as producer:
        until_told(pipe)
        for _ in range(WARM_UP):
            producer.send(TOPIC, value)
        producer.flush(60)
        pipe.send("warm")
        until_told(pipe)
        began, began_cpu = time.perf_counter(), cpu_seconds()
        if bulk:
            for _ in range(count // CHUNK):
                producer.send_many(TOPIC, values)
        else:
            for _ in range(count):
                producer.send(TOPIC, value)
        producer.flush(120)
        pipe.send((rate(count, began), (cpu_seconds() - began_cpu) / count))
        until_told(pipe)


def consume(pipe: Connection, tower: str, count: int, bulk: bool, skip: int) -> None:
    """A consumer, in a process of its own, of so many records behind those to skip."""
    with Consumer(tower, TOPIC) as consumer:
        records = iter(consumer)
        pipe.send("up")
        for _ in range(skip):
            next(records)
        began, began_cpu = time.perf_counter(), cpu_seconds()
        left = count
        if bulk:
            for batch in consumer.batches():
                left -= len(batch.values())
                if left <= 0:
                    break
        else:
            for _ in range(count):
                next(records)
        pipe.send((rate(count, began), (cpu_seconds() - began_cpu) / count))
        until_told(pipe)


@contextmanager
def one_cluster() -> Iterator[tuple[str, Worker]]:
    """A tower and a store; yields where nodes find them, and the store's process."""
    with cluster_of([StoreShare()]) as (tower, (store,)):
        yield tower, store


@contextmanager
def cluster_of(shares: Sequence[StoreShare]) -> Iterator[tuple[str, list[Worker]]]:
    """A tower and a store for each share; the same of all of them."""
    first = free_ports(2 + len(shares))
    tower, *queries = (
        f"tcp://127.0.0.1:{port}" for port in (first, *range(first + 2, first + 2 + len(shares)))
    )
    with scratch() as data, ExitStack() as opened:
        server = Worker(_serve, tower)
        opened.callback(server.end)
        server.hear()
        stores = []
        for number, (query, share) in enumerate(zip(queries, shares, strict=True)):
            stores.append(Worker(_store, tower, query, data / str(number), share))
            opened.callback(stores[-1].end)
        for store in stores:
            store.hear()
        yield tower, stores


class Ends(NamedTuple):
    """What produces and what consumes."""

    produce: Callable[..., None]
    consume: Callable[..., None]


THREADS = Ends(produce, consume)


def pipeline(
    results: Results, name: str, count: int, size: int, *, bulk: bool, ends: Ends = THREADS
) -> None:
    """Everything at once; then a consumer that comes late, after the producer has left."""
    with one_cluster() as (tower, store):
        consumer = Worker(ends.consume, tower, count, bulk, WARM_UP)
        producer = Worker(ends.produce, tower, count, size, bulk)
        consumer.hear()
        time.sleep(2.0)  # beacons: everybody has found everybody
        producer.tell("warm up")
        producer.hear()
        store.tell("count")
        store.hear()
        producer.tell("go")
        stored_rate, producer_cpu = producer.hear()
        consumed_rate, consumer_cpu = consumer.hear()
        store.tell("counted")
        store_cpu = store.hear() / count
        results.add(name, "records/s", min(stored_rate, consumed_rate))
        results.add(f"{name}: CPU producer", "us/record", producer_cpu * 1e6)
        results.add(f"{name}: CPU store", "us/record", store_cpu * 1e6)
        results.add(f"{name}: CPU consumer", "us/record", consumer_cpu * 1e6)
        producer.end()
        consumer.end()
        late = Worker(ends.consume, tower, count, bulk, 1)
        late.hear()
        late_rate, late_cpu = late.hear()
        results.add(f"{name}, late consumer", "records/s", late_rate)
        results.add(f"{name}, late consumer: CPU", "us/record", late_cpu * 1e6)
        late.end()
