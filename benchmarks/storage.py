"""The log on disk by itself: appends with fsync, range reads from the page cache."""

from __future__ import annotations

import time

from benchmarks.harness import Results, rate, scratch
from dafka.model import Batch, Partition
from dafka.records.batch import BatchBuilder, enclosed
from dafka.storage.lmdb_log import LmdbLog

P = Partition("bench", "A" * 32)
RECORDS = 1_000
READ_BYTES = 4 * 1024 * 1024


def batch_of(sequence: int, size: int) -> Batch:
    """A batch of a thousand records."""
    builder = BatchBuilder(1 << 24)
    builder.extend(0, [bytes(size)] * RECORDS, 0)
    return Batch(P, sequence, RECORDS, enclosed(builder.build(), sequence))


def storage(results: Results, batches: int, size: int) -> int:
    """Append, then read everything; returns the bytes of one batch."""
    content = batch_of(0, size).content
    with scratch() as directory:
        log = LmdbLog(directory / "log")
        began = time.perf_counter()
        for number in range(batches):
            log.append([Batch(P, number * RECORDS, RECORDS, content)])
        results.add("log append, fsync", "batches/s", rate(batches, began))
        began, position, read = time.perf_counter(), 0, 0
        while position < batches * RECORDS:
            found = log.read(P, position, 1 << 30, READ_BYTES)
            read += sum(len(batch.content) for batch in found)
            position = found[-1].end
        results.add("log range read", "MB/s", rate(read, began) / 1e6)
        log.close()
    return len(content)
