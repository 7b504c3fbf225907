from __future__ import annotations

from dafka.gateway.recent import RecentBatches
from dafka.model import Batch, Partition

A, B = Partition("orders", "A"), Partition("orders", "B")


def batch(partition, sequence, count, size=10):
    return Batch(partition, sequence, count, bytes(size))


def test_a_batch_is_found_by_any_of_its_records():
    recent = RecentBatches(1_000)
    first, second, other = batch(A, 3, 2), batch(A, 5, 1), batch(B, 0, 9)
    for one in (first, second, other):
        recent.add(one)
    assert [recent.at(A, one) for one in (2, 3, 4, 5, 6)] == [None, first, first, second, None]
    assert recent.at(B, 8) is other
    assert recent.at(Partition("orders", "C"), 0) is None


def test_a_gap_holds_nothing():
    recent = RecentBatches(1_000)
    recent.add(batch(A, 0, 2))
    recent.add(batch(A, 4, 2))
    assert recent.at(A, 3) is None


def test_the_oldest_go_first():
    recent = RecentBatches(25)
    for number in range(3):
        recent.add(batch(A, number, 1))
    recent.add(batch(B, 0, 1))
    assert [recent.at(A, one) is None for one in range(3)] == [True, True, False]
    recent.add(batch(B, 1, 1, size=30))
    assert recent.at(A, 2) is recent.at(B, 1) is None
