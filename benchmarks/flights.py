"""Records that differ, as those of the world do: flights from New York, a line of text each."""

from __future__ import annotations

import json
from functools import cache
from typing import TYPE_CHECKING

from dafka.model import Batch, Partition
from dafka.records.batch import BatchBuilder, enclosed
from dafka.storage.lmdb_log import Durability, LmdbLog
from distributor.demo.dataset import TOPICS, rows

if TYPE_CHECKING:
    from pathlib import Path

FLIGHTS = 100_000
"""So many are different: keys of 2 bytes, values of 82 to 99, 91 in the middle."""

TOPIC = "bench"

_FIRST_MS = 1_356_998_400_000


@cache
def flights() -> list[tuple[bytes, bytes]]:
    """Key and value of each: the carrier, and all of it with commas."""
    return [(row.key, _line(row.value)) for row in rows(FLIGHTS) if row.topic == TOPICS[0]]


def _line(value: bytes) -> bytes:
    return ",".join(map(str, json.loads(value).values())).encode()


@cache
def _built(first: int, count: int) -> bytes:
    builder = BatchBuilder(1 << 24)
    for at in range(first, first + count):
        key, value = flights()[at % FLIGHTS]
        builder.append(_FIRST_MS + 37 * at, key, value, ())
    return bytes(builder.build())


def batches_of(number: int, records: int, batch_records: int = 1_000) -> list[Batch]:
    """The batches of a partition, by its number.

    Args:
        number: Which.
        records: How many it has.
        batch_records: How many of them are in a batch.
    """
    count = min(records, batch_records)
    partition = Partition(TOPIC, f"{number:032X}")
    batches = []
    for first in range(0, records, count):
        built = _built((number * records + first) % FLIGHTS, count)
        batches.append(Batch(partition, first, count, enclosed(built, first)))
    return batches


def filled(directory: Path, records: int, partitions: int, batch_records: int = 1_000) -> None:
    """Write a store's log with so many records in so many partitions."""
    log = LmdbLog(directory, durability=Durability.OS)
    for number in range(partitions):
        batches = batches_of(number, records // partitions, batch_records)
        for first in range(0, len(batches), 100):
            log.append(batches[first : first + 100])
    log.close()
