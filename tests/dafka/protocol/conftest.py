"""Hand-made batches for the machines."""

from __future__ import annotations

import pytest

from dafka.model import Batch, Partition
from dafka.records.batch import BatchBuilder, Run, enclosed

P = Partition("flights", "AA")


def make_batch(
    sequence: int,
    count: int = 1,
    *,
    partition: Partition = P,
    size: int = 1,
    run: Run | None = None,
) -> Batch:
    builder = BatchBuilder(8 << 20, run)
    for number in range(sequence, sequence + count):
        builder.append(number, None, str(number).encode().ljust(size), ())
    return Batch(partition, sequence, count, enclosed(builder.build(), sequence))


@pytest.fixture(scope="session")
def batch():
    """A function that makes a batch of values that are their own sequences."""
    return make_batch
