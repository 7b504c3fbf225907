"""What stores have acknowledged."""

from __future__ import annotations

from dafka.model import Partition
from dafka.protocol.watermarks import LIVE_PATIENCE_MS, HighWatermarks
from tests.support.consumer_bench import P

Q, R = (Partition("flights", address) for address in ("BB", "CC"))


def test_it_knows_how_far_stores_have_a_partition():
    durable = HighWatermarks()
    assert durable.end(P) == 0
    assert durable.reached(P, 7)
    assert (durable.end(P), durable.end(Q)) == (7, 0)


def test_partitions_are_bounded_and_those_known_go_on():
    durable = HighWatermarks(partitions_max=2)
    assert durable.reached(P, 1)
    assert durable.reached(Q, 1)
    assert not durable.reached(R, 1)
    assert durable.reached(P, 2)
    assert (durable.end(P), durable.end(R)) == (2, 0)


def test_each_is_waited_for_as_long_from_the_first_time_on():
    durable = HighWatermarks()
    assert durable.wakeup_ms() is None
    durable.reached(P, 3)
    durable.wait_for(P, 0)
    durable.wait_for(Q, 10)
    durable.reached(P, 5)
    durable.wait_for(P, 20)
    assert durable.wakeup_ms() == LIVE_PATIENCE_MS
    assert list(durable.overdue(LIVE_PATIENCE_MS - 1)) == []
    assert list(durable.overdue(LIVE_PATIENCE_MS)) == [(P, 3)]
    assert durable.wakeup_ms() == LIVE_PATIENCE_MS + 10


def test_what_is_overdue_may_be_waited_for_again_at_once():
    durable = HighWatermarks()
    durable.wait_for(P, 0)
    for _ in durable.overdue(LIVE_PATIENCE_MS):
        durable.wait_for(P, LIVE_PATIENCE_MS)
    assert durable.wakeup_ms() == 2 * LIVE_PATIENCE_MS
