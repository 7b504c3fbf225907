from __future__ import annotations

from dafka.model import Partition
from distributor.link.flow_control import Hops, InflightBatch

P, Q = Partition("flights", "AA"), Partition("flights", "BB")


def hop(end):
    return InflightBatch(end, records=1, size=10, taken_ms=end, pulled=False)


def test_they_are_under_way_until_they_are_stored():
    hops = Hops()
    for end in (2, 4, 9):
        hops.add(P, hop(end))
    hops.add(Q, hop(3))
    assert [one.end for one in hops.stored(P, 4)] == [2, 4]
    assert hops.oldest(P) == hop(9)
    assert list(hops.stored(P, 8)) == []
    assert list(hops.stored(P, 9)) == [hop(9)]
    assert hops.oldest(P) is None
    assert hops.oldest(Q) == hop(3)


def test_nothing_is_kept_of_what_is_forgotten():
    hops = Hops()
    hops.add(P, hop(2))
    hops.forget(P)
    hops.forget(P)
    assert hops.oldest(P) is None
    assert list(hops.stored(P, 9)) == []


def test_who_is_passed_by_and_who_has_most_under_way():
    hops = Hops()
    for partition, end, size in ((P, 1_000, 30), (Q, 2_000, 10), (Q, 9_000, 15)):
        hops.add(partition, InflightBatch(end, 1, size, taken_ms=end, pulled=False))
    assert hops.passed_by(500) == []
    assert list(hops.stored(Q, 2_000))
    assert hops.passed_by(1_000) == [P]
    assert hops.passed_by(1_001) == []
    assert hops.largest(45) == []
    assert hops.largest(44) == [P]
    assert hops.largest(0) == [P, Q]
