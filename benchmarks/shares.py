"""One link, copied by one process or by several that each copy a share of it."""

from __future__ import annotations

import os
import time
from typing import TYPE_CHECKING

from benchmarks.harness import Results, Worker, cpu_seconds, rate, until_told
from benchmarks.publisher import BATCH_BYTES, CHUNK, TOPIC
from benchmarks.system import PAIR, system
from dafka import Producer
from dafka.model import PartitionShare
from distributor.link.node import LinkNode
from topology import load, plan

if TYPE_CHECKING:
    from multiprocessing.connection import Connection
    from pathlib import Path

PARTITIONS = 16
"""Producers, whose addresses are drawn: shares are about as large."""

DEADLINE_S = 180.0


def shares(results: Results, name: str, of: int, count: int, size: int) -> None:
    """Fill one cluster, then let so many processes copy all of it to another."""
    count -= count % (PARTITIONS * CHUNK)
    with system(PAIR, links=False) as pair:
        filling = Worker(fill, pair.tower("c1"), count, size)
        filling.hear()
        filling.end()
        links = [Worker(copy, pair.file, number, of) for number in range(of)]
        for link in links:
            link.hear()
        began = time.perf_counter()
        for link in links:
            link.tell("go")
        pair.wait_for(count, DEADLINE_S)
        results.add(name, "records/s", rate(count, began))
        used = 0.0
        for link in links:
            link.tell("end")
            used += link.hear()
            link.end()
        results.add(f"{name}: CPU of all", "us/record", used / count * 1e6)


def fill(pipe: Connection, tower: str, count: int, size: int) -> None:
    """Publish records of some producers, and say so when all is stored."""
    values = [bytes(size)] * CHUNK
    for _ in range(PARTITIONS):
        with Producer(tower, batch_bytes_max=BATCH_BYTES) as producer:
            for _ in range(count // PARTITIONS // CHUNK):
                producer.send_many(TOPIC, values)
            producer.flush(120)
    pipe.send("stored")


def copy(pipe: Connection, file: Path, number: int, of: int) -> None:
    """Be ready, copy a share when told, and say what CPU time that took."""
    cores = sorted(os.sched_getaffinity(0))
    os.sched_setaffinity(0, {cores[number % len(cores)]})
    topology = load(file)
    (link,) = [one for one in plan(topology).links if one.source == "c1"]
    share = PartitionShare(number, of)
    node = LinkNode(topology, link, permitted=False, watched=True, share=share)
    while len(node.progress.there) == 0:
        time.sleep(0.05)
    pipe.send("ready")
    until_told(pipe)
    before = cpu_seconds()
    node.permit()
    until_told(pipe)
    pipe.send(cpu_seconds() - before)
    node.close()
