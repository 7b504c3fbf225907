from __future__ import annotations

from dafka.gateway.unstored import Unstored
from dafka.model import Batch, Partition

A, B = Partition("orders", "A"), Partition("orders", "B")


def test_bytes_are_much_until_they_are_stored():
    unstored = Unstored(bytes_max=10, batches_max=9)
    unstored.add(Batch(A, 0, 2, b"x" * 6))
    unstored.add(Batch(A, 2, 1, b"x" * 4))
    assert not unstored.is_much
    unstored.add(Batch(B, 0, 1, b"x"))
    assert unstored.is_much
    unstored.stored(A, 2, 6)
    assert not unstored.is_much


def test_many_small_batches_are_much():
    unstored = Unstored(bytes_max=1_000, batches_max=2)
    for sequence in range(3):
        unstored.add(Batch(A, sequence, 1, b"x"))
    assert unstored.is_much
    unstored.stored(A, 1, 1)
    assert not unstored.is_much
    unstored.add(Batch(B, 0, 1, b"x"))
    assert unstored.is_much
    unstored.stored(A, 3, 2)
    unstored.stored(B, 1, 1)
    assert not unstored._ends, "what is stored takes nothing"
