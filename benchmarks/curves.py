"""How cost grows, as pictures: `python -m benchmarks.curves docs/curves`.

Each point is one measurement of real processes, a few seconds, or a count in the simulator; the
exponents tell how things grow, not how fast they are.
"""

from __future__ import annotations

import argparse
import itertools
import random
import time
from collections import defaultdict
from contextlib import ExitStack, closing
from pathlib import Path
from threading import Thread
from typing import TYPE_CHECKING, NamedTuple

from benchmarks.chart import Curve, chart
from benchmarks.harness import PROGRESS, Parts, Worker, cpu_seconds, scratch, until_told
from benchmarks.pipeline import one_cluster
from benchmarks.publisher import FIND_S
from benchmarks.store_counts import store_costs
from benchmarks.trees import tree_costs
from dafka import Consumer, Producer, keep_freed_memory
from dafka.model import Batch, Partition
from dafka.storage.lmdb_log import Durability, LmdbLog

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from multiprocessing.connection import Connection

SIZE = 100
PATIENCE_S = 300.0
OPENED_AT_ONCE = 1_000
"""Topics: what is under way while they are opened stays bounded."""

SIZES = (20, 100, 1_000, 10_000, 100_000, 1_000_000)
SIZES_BYTES = 100_000_000
"""Of values at each size, where that is less than a million records."""

PARTITIONS = (1, 10, 100, 1_000, 10_000, 100_000)
CONSUMERS = (1, 3, 10, 30, 100, 200)
CONSUMER_PROCESSES = 8
TOPICS = (1, 10, 100, 1_000, 10_000)
LOG_RECORDS = (1_000_000, 10_000_000, 100_000_000, 1_000_000_000)

RECORDS = 1_000_000
A_BATCH = 1_000
"""Records in each batch of a synthetic log, whose contents have `SIZE` bytes all the same: what a
log looks for is batches."""

TOGETHER = 1_000
"""Batches that a synthetic log is given at a time."""

STEP = A_BATCH * TOGETHER
"""Records of these."""

LOOKS = 1_000
"""Searches in a log, of which the mean counts."""


class Demand(NamedTuple):
    """What is published and read.

    Attributes:
        topics: So many, in turn, by one producer: as many partitions.
        together: Records for a topic at a time.
        size: Bytes of a value.
        records: Together.
        consumers: Each reads all topics.
    """

    topics: int = 1
    together: int = 1_000
    size: int = SIZE
    records: int = RECORDS
    consumers: int = 1


class Cost(NamedTuple):
    """What it took.

    Attributes:
        rate: Records a second that were stored, and delivered to all.
        producer_us: CPU time of a record.
        store_us: The same.
        consumer_us: The same, of one that is delivered.
    """

    rate: float
    producer_us: float
    store_us: float
    consumer_us: float


def measured(demand: Demand) -> Cost:
    """Publish, store and deliver it, in processes, after each topic has had some records."""
    PROGRESS.print(demand)
    processes = min(demand.consumers, CONSUMER_PROCESSES)
    with one_cluster() as (tower, store), ExitStack() as opened:
        readers = []
        for number in range(processes):
            share = len(range(number, demand.consumers, processes))
            readers.append(Worker(_read, tower, demand, share))
            opened.callback(readers[-1].end)
        for reader in readers:
            reader.hear()
        producer = Worker(_publish, tower, demand)
        opened.callback(producer.end)
        producer.hear(PATIENCE_S)
        store.tell("count")
        for one in (store, *readers):
            one.hear(PATIENCE_S)
        producer.tell("go")
        began, stored, producer_cpu = producer.hear(PATIENCE_S)
        read = [reader.hear(PATIENCE_S) for reader in readers]
        store.tell("counted")
        store_cpu = store.hear()
    ended = max([stored, *(end for end, _ in read)])
    reader_cpu = sum(cpu for _, cpu in read) / max(demand.consumers, 1)
    used = (producer_cpu, store_cpu, reader_cpu)
    return Cost(demand.records / (ended - began), *(cpu / demand.records * 1e6 for cpu in used))


def _names(demand: Demand) -> list[str]:
    return [f"t{number}" for number in range(demand.topics)]


def _publish(pipe: Connection, tower: str, demand: Demand) -> None:
    """Open all topics; when told, publish, and say from when until when, and what CPU that took."""
    keep_freed_memory()
    names, values = _names(demand), [bytes(demand.size)] * demand.together
    with Producer(tower) as producer:
        time.sleep(FIND_S)
        for number, name in enumerate(names, 1):
            producer.send_many(name, values)
            if number % OPENED_AT_ONCE == 0:
                producer.flush(PATIENCE_S)
        producer.flush(PATIENCE_S)
        pipe.send("open")
        until_told(pipe)
        began, began_cpu = time.perf_counter(), cpu_seconds()
        for number in range(demand.records // demand.together):
            producer.send_many(names[number % demand.topics], values)
        producer.flush(PATIENCE_S)
        pipe.send((began, time.perf_counter(), cpu_seconds() - began_cpu))
        until_told(pipe)


def _read(pipe: Connection, tower: str, demand: Demand, consumers: int) -> None:
    """Read all with so many consumers, a thread each; say when that was done, and what CPU.

    `perf_counter` is one clock for all processes of a machine, where that is Linux.
    """
    with ExitStack() as opened:
        ours = [opened.enter_context(Consumer(tower, _names(demand))) for _ in range(consumers)]
        pipe.send("up")
        _take_all(ours, demand.topics * demand.together)
        pipe.send("open")
        began_cpu = cpu_seconds()
        _take_all(ours, demand.records)
        pipe.send((time.perf_counter(), cpu_seconds() - began_cpu))
        until_told(pipe)


def _take_all(ours: Sequence[Consumer], count: int) -> None:
    threads = [Thread(target=_take, args=(one, count), daemon=True) for one in ours]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def _take(consumer: Consumer, count: int) -> None:
    for batch in consumer.batches():
        count -= len(batch.values())
        if count <= 0:
            return


def record_sizes() -> str:
    """One producer, a store and a consumer; records of 20 bytes to a megabyte."""
    costs = []
    for size in SIZES:
        together = max(1, min(1_000, 100_000 // size))
        count = min(RECORDS, SIZES_BYTES // size)
        costs.append((size, measured(Demand(1, together, size, count))))
    return chart("Size of a record", "bytes of a record", _curves(costs, "records/s"))


def partitions() -> str:
    """Ten records for each of so many partitions in turn, into a store."""
    demands = [(number, Demand(number, 10, consumers=0)) for number in PARTITIONS]
    costs = [(number, measured(demand)) for number, demand in demands]
    return chart("Partitions of a store", "partitions", _curves(costs, "records/s", readers=False))


def consumers() -> str:
    """Every consumer reads all that one producer publishes."""
    costs = []
    for number in CONSUMERS:
        cost = measured(
            Demand(records=max(RECORDS // number, 10_000) // 1_000 * 1_000, consumers=number)
        )
        costs.append((number, cost._replace(rate=cost.rate * number)))
    return chart("Consumers of a topic", "consumers", _curves(costs, "deliveries/s"))


def topics() -> str:
    """Ten records for each of so many topics in turn, to a consumer that reads all of them."""
    costs = [(number, measured(Demand(number, 10, records=RECORDS // 5))) for number in TOPICS]
    return chart("Topics of a consumer", "topics", _curves(costs, "records/s"))


def _curves(costs: Sequence[tuple[int, Cost]], rate: str, *, readers: bool = True) -> list[Curve]:
    curves = [
        Curve(rate, tuple((place, cost.rate) for place, cost in costs)),
        Curve("producer, µs CPU a record", tuple((at, cost.producer_us) for at, cost in costs)),
        Curve("store, µs CPU a record", tuple((at, cost.store_us) for at, cost in costs)),
    ]
    if readers:
        points = tuple((place, cost.consumer_us) for place, cost in costs)
        curves.append(Curve("consumer, µs CPU a delivery", points))
    return curves


def log_sizes() -> str:
    """Opening, appending, searching and reading in logs of up to a billion records.

    Synthetic: a batch says that it has a thousand records, and has `SIZE` bytes.
    """
    costs: dict[str, list[tuple[float, float]]] = defaultdict(list)
    with scratch() as directory:
        appends = 0
        for records in LOG_RECORDS:
            with closing(_opened(directory, appends)) as log:
                costs["append, µs a batch"].append((records, _fill(log, records)))
            appends = records // STEP
            began = time.perf_counter()
            with closing(_opened(directory, appends)) as log:
                costs["open, µs"].append((records, (time.perf_counter() - began) * 1e6))
                place, ends = next(iter(log.heads().items()))
                chosen = [random.randrange(ends) for _ in range(LOOKS)]  # noqa: S311 (no secret)
                began = time.perf_counter()
                for sequence in chosen:
                    log.find(place, sequence // STEP)
                found = time.perf_counter()
                for sequence in chosen:
                    log.read(place, sequence, 1, SIZE)
                read = time.perf_counter()
            costs["find a time, µs"].append((records, (found - began) / LOOKS * 1e6))
            costs["read a batch, µs"].append((records, (read - found) / LOOKS * 1e6))
    curves = [Curve(name, tuple(points)) for name, points in costs.items()]
    return chart("Records of a log", "records", curves)


def _opened(directory: Path, appends: int) -> LmdbLog:
    # What has no time of its own has that of its arrival: here that is the number of the append.
    times = itertools.count(appends)
    return LmdbLog(directory / "log", durability=Durability.OS, clock=lambda: next(times))


def _fill(log: LmdbLog, records: int) -> float:
    """Append until there are so many records; what a batch took at the end, in µs."""
    place, content, took = Partition("bench", "A" * 32), bytes(SIZE), 0.0
    for first in range(log.heads().get(place, -1) + 1, records, STEP):
        sequences = range(first, first + STEP, A_BATCH)
        batches = [Batch(place, sequence, A_BATCH, content) for sequence in sequences]
        began = time.perf_counter()
        log.append(batches)
        took = time.perf_counter() - began
    return took / TOGETHER * 1e6


def clusters() -> str:
    """A record's way through binary trees of so many clusters, counted in the simulator."""
    curves = [Curve(f"{name} a record", tuple(at)) for name, at in tree_costs().items()]
    return chart("Clusters in a tree (simulated)", "clusters", curves)


def stores() -> str:
    """Batches of 256 producers into stores that share the slots, counted in the simulator."""
    curves = [Curve(name, tuple(at)) for name, at in store_costs().items()]
    return chart("Stores that share slots (simulated)", "stores", curves)


CHARTS: dict[str, Callable[[], str]] = {
    "record-size": record_sizes,
    "partitions": partitions,
    "consumers": consumers,
    "topics": topics,
    "clusters": clusters,
    "stores": stores,
    "log-size": log_sizes,
}


def main() -> None:
    """Measure and draw."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.curves", description=__doc__)
    parser.add_argument("directory", type=Path, help="where the pictures go")
    parser.add_argument(
        "--only", action="append", choices=CHARTS, help="one of them; may be repeated"
    )
    arguments = parser.parse_args()
    arguments.directory.mkdir(parents=True, exist_ok=True)
    parts = Parts()
    for name in arguments.only or CHARTS:
        with parts.part(name):
            drawn = CHARTS[name]()
            (arguments.directory / f"{name}.svg").write_text(drawn, encoding="utf-8")
    parts.end()


if __name__ == "__main__":
    main()
