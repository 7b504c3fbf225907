"""What grows with what is kept: partitions, records, time."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from benchmarks.harness import Results, Worker, own_bytes, rate, scratch, until_told
from benchmarks.pipeline import one_cluster
from benchmarks.publisher import FIND_S
from benchmarks.storage import RECORDS, batch_of
from benchmarks.system import PAIR, SETTLE_S, system
from dafka import Consumer, Producer, keep_freed_memory
from dafka.model import Batch
from dafka.storage.lmdb_log import Durability, LmdbLog

if TYPE_CHECKING:
    from multiprocessing.connection import Connection

FEW, MANY = 10, 10_000
TOPICS = [f"t{number}" for number in range(MANY)]
DEADLINE_S = 120.0
VALUES = [bytes(100)] * 580
"""Just below the default size of a batch: few partitions and many get batches alike."""

WARM_UP = 1_000_000
"""Records before anything is measured: what a process holds by then it would hold anyway."""

OPENED_AT_ONCE = 1_000
"""Partitions: what their batches take while they are under way is not what an idle one takes."""

APPENDED_AT_ONCE = 20


def _spread(pipe: Connection, tower: str, count: int) -> None:
    """Open `n` partitions when told a number, then send over all of them."""
    keep_freed_memory()  # as docs/performance.md says of applications with thousands of topics
    with Producer(tower) as producer:
        time.sleep(FIND_S)
        for _ in range(WARM_UP // len(VALUES)):
            producer.send_many("warm-up", VALUES)
        producer.flush(60)
        pipe.send(own_bytes())
        topics = TOPICS[: pipe.recv()]
        for first in range(0, len(topics), OPENED_AT_ONCE):
            for topic in topics[first : first + OPENED_AT_ONCE]:
                producer.send(topic, b"")
            producer.flush(60)
        pipe.send(own_bytes())
        pipe.recv()
        for number in range(count // len(VALUES)):
            producer.send_many(topics[number % len(topics)], VALUES)
        producer.flush(120)
        pipe.send("stored")
        until_told(pipe)


def partitions(results: Results, count: int) -> None:
    """The same batches over 10 and over 10,000 partitions, through one hop; memory of idle ones.

    Each in processes and files of its own: there whatever came later cost a store more, ten
    partitions too.
    """
    for number in (FEW, MANY):
        with system(PAIR) as pair:
            producer = Worker(_spread, pair.tower("c1"), count)
            publisher = producer.hear()
            sent = WARM_UP // len(VALUES) * len(VALUES)
            pair.wait_for(sent, DEADLINE_S)
            resident = pair.own_bytes() | {"producer": publisher}
            producer.tell(number)
            publisher = producer.hear()
            sent += number
            pair.wait_for(sent, DEADLINE_S)
            if number == MANY:
                for name, grown in (pair.own_bytes() | {"producer": publisher}).items():
                    if "store" in name or "level" in name or name == "producer":
                        idle = (grown - resident[name]) / MANY
                        results.add(f"memory of an idle partition, {name}", "bytes", idle)
            began = time.perf_counter()
            producer.tell("go")
            producer.hear()
            pair.wait_for(sent + count // len(VALUES) * len(VALUES), DEADLINE_S)
            results.add(f"{number:,} partitions, one hop", "records/s", rate(count, began))
            producer.end()


def _open_all(pipe: Connection, tower: str) -> None:
    """One record in the first topic, and when told one in each of the others."""
    with Producer(tower) as producer:
        time.sleep(FIND_S)
        producer.send(TOPICS[0], b"")
        producer.flush(60)
        pipe.send("begun")
        until_told(pipe)
        for first in range(1, MANY, OPENED_AT_ONCE):
            for topic in TOPICS[first : first + OPENED_AT_ONCE]:
                producer.send(topic, b"")
            producer.flush(60)
        until_told(pipe)


def _hear_all(pipe: Connection, tower: str) -> None:
    """Say what the partitions beyond the first take in a consumer that has read them all."""
    with Consumer(tower, TOPICS) as consumer:
        records = iter(consumer)
        next(records)
        time.sleep(SETTLE_S)
        resident = own_bytes()
        pipe.send("begun")
        for _ in range(1, MANY):
            next(records)
        time.sleep(SETTLE_S)
        pipe.send((own_bytes() - resident) / (MANY - 1))
        until_told(pipe)


def listening(results: Results) -> None:
    """Memory of an idle partition in a consumer."""
    with one_cluster() as (tower, _):
        consumer, producer = Worker(_hear_all, tower), Worker(_open_all, tower)
        producer.hear()
        consumer.hear()
        producer.tell("go")
        results.add("memory of an idle partition, consumer", "bytes", consumer.hear())
        for worker in (producer, consumer):
            worker.end()


def opening(results: Results, records: int) -> None:
    """How long a store takes to open a log of so many records of 100 B."""
    content = batch_of(0, 100)
    with scratch() as directory:
        log = LmdbLog(directory / "log", durability=Durability.OS)
        step = RECORDS * APPENDED_AT_ONCE
        for first in range(0, records, step):
            log.append(
                [
                    Batch(content.partition, sequence, RECORDS, content.content)
                    for sequence in range(first, first + step, RECORDS)
                ]
            )
        log.close()
        began = time.perf_counter()
        log = LmdbLog(directory / "log")
        results.add(f"open a log of {records:,} records", "s", time.perf_counter() - began)
        log.close()
