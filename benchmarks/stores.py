"""One cluster whose stores share the slots of the ring: what a record costs as they become more.

Two cores do not show how a rate grows with stores that all run at once. So it is measured in two
ways. `sharing` lets all stores share one core, whoever publishes has another: what grows with
their number costs CPU time there. `each_alone` gives each store a core for itself, one store after
the other: as much waits for each as it can take, and the others stand still meanwhile. What the
slowest takes says how much they would take together with a core and a disk for each.
"""

from __future__ import annotations

import time
from contextlib import ExitStack
from typing import TYPE_CHECKING

from benchmarks.harness import Results, Worker, cpu_seconds, rate, take_core, until_told
from benchmarks.pipeline import StoreShare, cluster_of
from benchmarks.publisher import CHUNK, FIND_S, TOPIC
from benchmarks.shares import PRODUCERS, producers
from dafka.model import ALL_SLOTS, SLOTS, Slots

if TYPE_CHECKING:
    from collections.abc import Sequence
    from multiprocessing.connection import Connection

    from dafka import Producer

WARM_UP = 10
"""Chunks of each producer before anything is measured."""

ROUNDS = 3
"""So often something waits for each store."""

WAITING = 1_000_000
"""Records, for each store: of as many as four, all producers have room for them."""

HANDED_OVER_S = 0.3
"""Until what was sent last is with ZeroMQ."""


def sharing(results: Results, name: str, stores: int, count: int, *, all_keep_all: bool) -> None:
    """Publish from one core into so many stores on another.

    Args:
        results: Get rate and CPU time.
        name: Of the case.
        stores: How many.
        count: About how many records.
        all_keep_all: Whether they share nothing, as without slots.
    """
    count -= count % (PRODUCERS * CHUNK)
    parts = [ALL_SLOTS] * stores if all_keep_all else parts_of(stores)
    with cluster_of([StoreShare(slots, core=-1) for slots in parts]) as (tower, workers):
        producing = Worker(publish, tower, count)
        producing.hear()
        _all(workers, "count")
        producing.tell("go")
        stored_rate, producer_cpu = producing.hear()
        used = _all(workers, "counted")
        producing.end()
    results.add(name, "records/s", stored_rate)
    results.add(f"{name}: CPU producers", "us/record", producer_cpu / count * 1e6)
    results.add(f"{name}: CPU stores", "us/record", sum(used) / count * 1e6)


def each_alone(results: Results, name: str, stores: int) -> None:
    """Let records wait for each of so many stores, and let one after the other take them.

    Args:
        results: Get the rate that all would have together, and the CPU time of a store.
        name: Of the case.
        stores: How many, up to four.
    """
    parts = parts_of(stores)
    took = [0.0] * stores
    with cluster_of([StoreShare(slots, core=-1) for slots in parts]) as (tower, workers):
        producing = Worker(pile_up, tower, WAITING * stores)
        producing.hear()
        _all(workers, "count")
        for _ in range(ROUNDS):
            with ExitStack() as paused:
                for worker in workers:
                    worker.pause()
                    paused.callback(worker.go_on)
                producing.tell(None)
                producing.hear()
                for number, worker in enumerate(workers):
                    began = time.perf_counter()
                    worker.go_on()
                    producing.tell(parts[number])
                    producing.hear()
                    took[number] += time.perf_counter() - began
                    worker.pause()
        used = _all(workers, "counted")
        producing.end()
    count = WAITING * ROUNDS
    results.add(name, "records/s", stores * count / max(took))
    results.add(f"{name}: CPU of a store", "us/record", max(used) / count * 1e6)


def parts_of(stores: int, copies: int = 1) -> list[Slots]:
    """What each of so many stores keeps, where each slot is kept by so many, who keep the same."""
    parts = stores // copies
    ends = [SLOTS * number // parts for number in range(parts + 1)]
    return [
        Slots.of([range(ends[number // copies], ends[number // copies + 1])])
        for number in range(stores)
    ]


def _all(workers: list[Worker], word: str) -> list[float]:
    """Tell all stores something; what they answer."""
    for worker in workers:
        worker.tell(word)
    return [worker.hear() for worker in workers]


def publish(pipe: Connection, tower: str, count: int) -> None:
    """Publish from producers that are spread evenly over the ring, on one core, when told."""
    take_core(0)
    with ExitStack() as stack:
        open_ones = [stack.enter_context(one) for one in producers(tower)]
        time.sleep(FIND_S)
        for sent in (PRODUCERS * WARM_UP * CHUNK, count):
            began, began_cpu = time.perf_counter(), cpu_seconds()
            _send(open_ones, sent)
            for producer in open_ones:
                producer.flush(120)
            pipe.send((rate(count, began), cpu_seconds() - began_cpu))
            until_told(pipe)


def pile_up(pipe: Connection, tower: str, count: int) -> None:
    """Publish so many from the same producers when told None; when told slots, see them stored."""
    take_core(0)
    with ExitStack() as stack:
        open_ones = [stack.enter_context(one) for one in producers(tower)]
        time.sleep(FIND_S)
        _send(open_ones, PRODUCERS * WARM_UP * CHUNK)
        due = ALL_SLOTS
        while True:
            for producer in open_ones:
                if due.keeps(TOPIC, producer.address):
                    producer.flush(120)
            pipe.send("done")
            try:
                told: Slots | None = pipe.recv()
            except EOFError:
                return
            due = Slots.of(()) if told is None else told
            if told is None:
                _send(open_ones, count)
                time.sleep(HANDED_OVER_S)


def _send(open_ones: Sequence[Producer], count: int) -> None:
    values = [bytes(100)] * CHUNK
    for number in range(count // CHUNK):
        open_ones[number % PRODUCERS].send_many(TOPIC, values)
