"""Partitions that stand still, by themselves and in a consumer: it knows where they go on."""

from __future__ import annotations

import pytest

from dafka.limits import IDLE_AT_ONCE_MAX
from dafka.model import Partition
from dafka.protocol.consumer import Start
from dafka.protocol.effects import PartitionFound
from dafka.protocol.events import Woke
from dafka.protocol.idle import IdlePartitions
from dafka.protocol.watermarks import LIVE_PATIENCE_MS
from dafka.wire import messages
from tests.support.consumer_bench import (
    Bench,
    P,
    ack,
    delivered,
    direct,
    fetched,
    head,
    live,
    reasons,
    stored_head,
)

Q, R = (Partition("flights", address) for address in ("BB", "CC"))
AFTER_MS = 1_000


def test_what_has_not_moved_since_the_last_look_is_due_and_then_the_next_look():
    idle = IdlePartitions(AFTER_MS)
    assert idle.due([P, Q], 0) == []
    idle.moved(P)
    assert idle.wakeup_ms() == AFTER_MS
    assert idle.due([P, Q], AFTER_MS - 1) == []
    idle.moved(Q)
    assert idle.due([P, Q, R], AFTER_MS) == [R]
    assert idle.wakeup_ms() == 2 * AFTER_MS
    assert idle.due([P, Q], 2 * AFTER_MS) == [P, Q]


def test_a_bounded_number_is_due_at_once_and_the_rest_without_delay():
    idle = IdlePartitions(AFTER_MS)
    many = [Partition("flights", str(number)) for number in range(IDLE_AT_ONCE_MAX + 2)]
    idle.due(many, 0)
    assert len(idle.due(many, AFTER_MS)) == IDLE_AT_ONCE_MAX
    assert idle.wakeup_ms() == AFTER_MS
    idle.moved(many[0])
    assert idle.due(many, AFTER_MS) == [many[1]]
    assert idle.wakeup_ms() == 2 * AFTER_MS


def test_what_is_named_stays_until_it_is_said_to_go_on():
    idle = IdlePartitions()
    idle.rest(P, 7)
    assert (P in idle, Q in idle, len(idle)) == (True, False, 1)
    assert idle.stays(P, 7)
    assert not idle.stays(P, 8)
    assert not idle.stays(Q, 1)
    assert idle.leave(P) == 7
    assert idle.leave(P) is None


def test_of_more_than_may_be_those_go_that_were_not_named_for_longest():
    idle = IdlePartitions(idle_max=2)
    idle.rest(P, 1)
    idle.rest(Q, 1)
    assert idle.stays(P, 1)
    idle.rest(R, 1)
    assert [one in idle for one in (P, Q, R)] == [True, False, True]


def still_bench(batch, **settings):
    """A consumer that has read ten records of a partition, which then stood still."""
    bench = Bench(idle_after_ms=AFTER_MS, **settings)
    bench.give(Woke())
    assert delivered(bench.hear(live(batch(0, 10)), ack(9))) == [(0, 10)]
    for _ in range(2):
        bench.wait(AFTER_MS)
    assert bench.machine.heads == {}
    return bench


@pytest.mark.parametrize("settings", [{}, {"committed": True}, {"start": Start.LATEST}])
def test_a_producer_that_goes_on_is_read_on(batch, settings):
    bench = still_bench(batch, **settings)
    assert delivered(bench.hear(live(batch(10)), ack(10))) == [(10, 11)]


@pytest.mark.parametrize(
    ("settings", "told"),
    [
        ({}, head(10)),
        ({}, stored_head(10)),
        ({"start": Start.LATEST}, head(10)),
        ({"start": Start.LATEST}, stored_head(10)),
        ({"committed": True}, stored_head(10)),
        ({"committed": True}, ack(10)),
    ],
)
def test_what_goes_on_unheard_is_asked_for_from_its_position_on(batch, settings, told):
    bench = still_bench(batch, **settings)
    effects = bench.hear(told) + bench.wait(LIVE_PATIENCE_MS)
    assert fetched(effects) == [(10, 1)]
    assert delivered(bench.hear(direct(batch(10)))) == [(10, 11)]


@pytest.mark.parametrize("committed", [False, True])
def test_nothing_is_delivered_again_of_what_a_store_still_lists(batch, committed):
    bench = still_bench(batch, committed=committed)
    again = [head(9), stored_head(9), ack(9), live(batch(0, 10)), direct(batch(3, 2))]
    assert bench.hear(*again) == []
    assert bench.machine.heads == {}, "and nothing is kept of it"
    assert bench.machine.acknowledged(P) == 0


def test_what_a_store_has_more_of_in_one_batch_is_delivered_from_the_position_on(batch):
    bench = still_bench(batch)
    assert delivered(bench.hear(live(batch(8, 5)))) == [(10, 13)]


def test_what_lacks_something_or_waits_for_a_store_is_not_idle(batch):
    bench = Bench(idle_after_ms=AFTER_MS, committed=True)
    bench.hear(live(batch(0)), live(batch(0, partition=Q)), ack(0))
    late = messages.Ack(*R, "S1", 0)
    bench.wait(AFTER_MS)
    bench.hear(late)
    bench.wait(AFTER_MS)
    assert bench.machine.heads.keys() == {Q, R}


def test_what_is_assigned_is_not_forgotten_but_by_who_assigns(batch):
    bench = Bench(idle_after_ms=AFTER_MS, start=Start.ASSIGNED)
    found = bench.hear(live(batch(0)))
    assert found == [PartitionFound(P, 0)]
    for _ in range(2):
        bench.wait(AFTER_MS)
    assert bench.hear(live(batch(1))) == [], "it was found already"


def test_room_is_for_partitions_that_move(batch):
    bench = still_bench(batch)
    for number in range(3):
        other = Partition("flights", f"{number}")
        assert reasons(bench.hear(live(batch(0, partition=other)))) == []
        bench.wait(2 * AFTER_MS)
        bench.wait(2 * AFTER_MS)
        assert bench.machine.heads == {}
