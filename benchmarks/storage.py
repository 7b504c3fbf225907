"""The log on disk by itself, and what bare programs make of the same bytes in the same seconds."""

from __future__ import annotations

import random
import time
from collections import defaultdict
from contextlib import ExitStack, closing
from os import urandom
from typing import TYPE_CHECKING, NamedTuple

from benchmarks.bare_logs import BARE_LOGS, BareSegment, room_for, seconds
from benchmarks.harness import Results, rate, scratch
from dafka.model import Batch, Partition
from dafka.records.batch import BatchBuilder, enclosed
from dafka.storage.lmdb_log import Durability, LmdbLog

if TYPE_CHECKING:
    from collections.abc import Sequence

P = Partition("bench", "A" * 32)
RECORDS = 1_000
READ_BYTES = 4 * 1024 * 1024

BLOCK = 20
"""Transactions of one, before the next one has its turn: a disk that others use, too, changes its
pace within seconds."""

WARM_UP = 100
"""Transactions before the clock starts."""


class TransactionShape(NamedTuple):
    """What a transaction consists of."""

    partitions: int
    records: int
    """Of each partition."""
    size: int
    """Bytes of a record."""

    def __str__(self) -> str:
        """For people."""
        return f"{self.partitions:,} x {self.records:,} x {self.size:,} B"


SHAPES = (
    TransactionShape(1, 1_000, 100),
    TransactionShape(1, 100, 1_000),
    TransactionShape(10, 100, 100),
    TransactionShape(1_000, 1, 100),
)


def batch_of(sequence: int, size: int, records: int = RECORDS) -> Batch:
    """A batch of records that no disk and no compression makes smaller."""
    builder = BatchBuilder(1 << 24)
    builder.extend(0, [urandom(size) for _ in range(records)], 0)
    return Batch(P, sequence, records, enclosed(builder.build(), sequence))


def storage(results: Results, transactions: int) -> None:
    """Append in every way, in turn; then read by range what the log and a bare segment have."""
    for shape in SHAPES:
        appends(results, shape, transactions)
    reads(results, transactions)


def appends(results: Results, shape: TransactionShape, transactions: int) -> None:
    """The same transactions in every way."""
    contents = [batch_of(0, shape.size, shape.records).content for _ in range(shape.partitions)]
    partitions = [Partition("bench", f"{number:032X}") for number in range(shape.partitions)]

    def transaction(number: int) -> list[Batch]:
        first = number * shape.records
        pairs = zip(partitions, contents, strict=True)
        return [Batch(partition, first, shape.records, content) for partition, content in pairs]

    transactions = -(-transactions // BLOCK) * BLOCK
    room = room_for(transaction(0), WARM_UP + transactions)
    spent: dict[str, float] = defaultdict(float)
    with ExitStack() as opened:
        directory = opened.enter_context(scratch())
        logs = {}
        for number, (name, made) in enumerate(BARE_LOGS.items()):
            place = directory / str(number)
            place.mkdir()
            logs[name] = opened.enter_context(closing(made(place, room)))
        for log in logs.values():
            seconds(log, [transaction(number) for number in range(WARM_UP)])
        for first in range(WARM_UP, WARM_UP + transactions, BLOCK):
            block = [transaction(first + number) for number in range(BLOCK)]
            for name in random.sample(list(logs), len(logs)):
                spent[name] += seconds(logs[name], block)
    for name in BARE_LOGS:
        results.add(f"{name}, {shape}", "transactions/s", transactions / spent[name])


def reads(results: Results, batches: int) -> None:
    """By range from the page cache."""
    content = batch_of(0, 100).content
    written: Sequence[Batch] = [
        Batch(P, number * RECORDS, RECORDS, content) for number in range(batches)
    ]
    with (
        scratch() as directory,
        closing(LmdbLog(directory / "log", durability=Durability.OS)) as log,
        closing(BareSegment(directory)) as segment,
    ):
        for batch in written:
            log.append([batch])
            segment.append([batch])
        segment.write_index()
        began, position, read = time.perf_counter(), 0, 0
        while position < batches * RECORDS:
            found = log.read(P, position, 1 << 30, READ_BYTES)
            read += sum(len(batch.content) for batch in found)
            position = found[-1].end
        results.add("log range read", "MB/s", rate(read, began) / 1e6)
        began, position, read = time.perf_counter(), 0, 0
        while position < batches * RECORDS:
            contents = segment.read(position, READ_BYTES)
            read += sum(map(len, contents))
            position += len(contents) * RECORDS
        results.add("segment range read", "MB/s", rate(read, began) / 1e6)
