"""One link, copied by one process or by several that each copy a share of it.

A machine has few cores, and clusters take theirs. So each link's process has a slice of one core,
which it shares with processes that do nothing else than compute; and what a share costs while
records come is measured by itself, and says where it would end with a core of its own.
"""

from __future__ import annotations

import time
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING

from benchmarks.harness import Results, Worker, cpu_seconds, rate, take_core, until_told
from benchmarks.publisher import BATCH_BYTES, CHUNK, FIND_S, TOPIC
from benchmarks.system import PAIR, system
from dafka import Producer
from dafka.model import PartitionShare, range_of, slot_of
from distributor.link.node import LinkNode
from topology import load, plan

if TYPE_CHECKING:
    from collections.abc import Iterator
    from multiprocessing.connection import Connection
    from pathlib import Path

    from benchmarks.system import System

SHARES_MAX = 4

PRODUCERS = 16
"""As many in each of the most shares, so that all shares are alike."""

SLICES = 8
"""Of the core that processes of links have together."""

DEADLINE_S = 180.0


def catching_up(results: Results, name: str, of: int, count: int, size: int) -> None:
    """Fill one cluster, then let so many processes, each with a slice, copy it to another."""
    count -= count % (PRODUCERS * CHUNK)
    with system(PAIR, links=False) as pair, ExitStack() as stack:
        filling = Worker(fill, pair.tower("c1"), count, size)
        filling.hear()
        filling.end()
        for _ in range(SLICES - of):
            stack.callback(Worker(spin).end)
        with copying(pair, of) as links:
            began = time.perf_counter()
            before = _all(links, "go")
            pair.wait_for(count, DEADLINE_S)
            results.add(name, "records/s", rate(count, began))
            used = sum(_all(links, "end")) - sum(before)
            results.add(f"{name}: CPU of all", "us/record", used / count * 1e6)


def live(results: Results, name: str, of: int, a_second: int, seconds: int) -> None:
    """Let so many processes copy what comes, fewer records than they could; what each pays."""
    count = a_second * seconds // (PRODUCERS * CHUNK) * PRODUCERS * CHUNK
    with system(PAIR, links=False) as pair:
        producing = Worker(produce, pair.tower("c1"), a_second, count)
        first = producing.hear()
        with copying(pair, of) as links:
            _all(links, "go")
            pair.wait_for(first, DEADLINE_S)
            before = _all(links, "begin")
            producing.tell("go")
            producing.hear()
            pair.wait_for(first + count, DEADLINE_S)
            after = _all(links, "end")
        producing.end()
        each = sum(after) / of - sum(before) / of
        results.add(f"{name}: CPU of each", "us/record", each / count * 1e6)
        results.add(f"{name}: with a core for each", "records/s", count / each)


@contextmanager
def copying(pair: System, of: int) -> Iterator[list[Worker]]:
    """Links that are ready, each with a share."""
    links = [Worker(copy, pair.file, number, of) for number in range(of)]
    for link in links:
        link.hear()
    yield links
    for link in links:
        link.end()


def _all(links: list[Worker], word: str) -> list[float]:
    """Tell all of them something; how much CPU time each has used by then."""
    for link in links:
        link.tell(word)
    return [link.hear() for link in links]


def fill(pipe: Connection, tower: str, count: int, size: int) -> None:
    """Publish records of some producers, and say so when all is stored."""
    values = [bytes(size)] * CHUNK
    for producer in producers(tower):
        with producer:
            for _ in range(count // PRODUCERS // CHUNK):
                producer.send_many(TOPIC, values)
            producer.flush(120)
    pipe.send("stored")


def produce(pipe: Connection, tower: str, a_second: int, count: int) -> None:
    """Publish a few records, then, when told, so many at a rate; each time say when all is stored.

    What is published first is a chunk of each producer.
    """
    values = [bytes(100)] * CHUNK
    with ExitStack() as stack:
        open_ones = [stack.enter_context(one) for one in producers(tower)]
        time.sleep(FIND_S)
        for producer in open_ones:
            producer.send_many(TOPIC, values)
            producer.flush(120)
        pipe.send(PRODUCERS * CHUNK)
        until_told(pipe)
        due = time.perf_counter()
        for number in range(count // CHUNK):
            open_ones[number % PRODUCERS].send_many(TOPIC, values)
            due += CHUNK / a_second
            time.sleep(max(0.0, due - time.perf_counter()))
        for producer in open_ones:
            producer.flush(120)
        pipe.send("stored")
        until_told(pipe)


def producers(tower: str) -> Iterator[Producer]:
    """Producers whose addresses are spread evenly over the most shares."""
    for number in range(PRODUCERS):
        while True:
            producer = Producer(tower, batch_bytes_max=BATCH_BYTES)
            if range_of(slot_of(producer.address), SHARES_MAX) == number % SHARES_MAX:
                yield producer
                break
            producer.close()


def copy(pipe: Connection, file: Path, number: int, of: int) -> None:
    """Be ready, copy a share from when told, and say each time what CPU time was used by then."""
    take_core(-1)
    topology = load(file)
    (link,) = [one for one in plan(topology).links if one.source == "c1"]
    share = PartitionShare(number, of)
    node = LinkNode(topology, link, permitted=False, watched=True, share=share)
    while len(node.progress.there) == 0:
        time.sleep(0.05)
    pipe.send("ready")
    until_told(pipe)
    node.permit()
    pipe.send(cpu_seconds())
    while until_told(pipe):
        pipe.send(cpu_seconds())
    node.close()


def spin(pipe: Connection) -> None:
    """Take a slice of the core of links, until told."""
    take_core(-1)
    while not pipe.poll():
        deadline = time.perf_counter() + 0.05
        while time.perf_counter() < deadline:
            pass
