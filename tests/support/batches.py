"""Batches of records that a test fills logs with."""

from __future__ import annotations

from dafka.model import Batch, Partition, replace
from dafka.records.batch import BatchBuilder, enclosed
from dafka.records.envelope import FRESH
from tests.support.hostile_node import garbled

ORDERS = Partition("orders", "AB" * 16)


def make_batch(values, sequence=0, partition=ORDERS, envelope=FRESH, timestamp_ms=5):
    """A batch of records with these values."""
    builder = BatchBuilder(1 << 20)
    for value in values:
        assert builder.append(timestamp_ms, b"key", value, [("h", b"1")])
    content = enclosed(builder.build(), sequence, envelope)
    return Batch(partition, sequence, len(values), content)


def unreadable_from(batch, place):
    """The batch with a record in the middle that nobody can read, under a right checksum."""
    at = -1
    for _ in range(place + 1):
        at = batch.content.index(b"\x02h\x021", at + 1)
    return replace(batch, content=garbled(batch.content, at + 1, b"\xff"))
