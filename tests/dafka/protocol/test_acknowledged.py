"""What stores have acknowledged, by itself and in a consumer that takes nothing else."""

from __future__ import annotations

import pytest
from consumer_bench import (
    Bench,
    P,
    ack,
    delivered,
    direct,
    fetched,
    head,
    live,
    stored_head,
)

from dafka.model import Partition
from dafka.protocol import acknowledged, live_edge
from dafka.protocol.acknowledged import LIVE_PATIENCE_MS, Acknowledged
from dafka.protocol.consumer_settings import Start
from dafka.protocol.effects import Listen, Publish
from dafka.protocol.events import Drained, Positioned, Unassigned, Woke
from dafka.protocol.live_edge import AWAY_MS
from dafka.wire import messages
from dafka.wire.fields import SEQUENCE_MAX
from dafka.wire.messages import GetHeads, MessageId

Q, R = (Partition("flights", address) for address in ("BB", "CC"))


def test_it_knows_how_far_stores_have_a_partition():
    durable = Acknowledged()
    assert durable.end(P) == 0
    assert durable.reached(P, 7)
    assert (durable.end(P), durable.end(Q)) == (7, 0)


def test_partitions_are_bounded_and_those_known_go_on(monkeypatch):
    monkeypatch.setattr(acknowledged, "PARTITIONS_MAX", 2)
    durable = Acknowledged()
    assert durable.reached(P, 1)
    assert durable.reached(Q, 1)
    assert not durable.reached(R, 1)
    assert durable.reached(P, 2)
    assert (durable.end(P), durable.end(R)) == (2, 0)


def test_each_is_waited_for_as_long_from_the_first_time_on():
    durable = Acknowledged()
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
    durable = Acknowledged()
    durable.wait_for(P, 0)
    for _ in durable.overdue(LIVE_PATIENCE_MS):
        durable.wait_for(P, LIVE_PATIENCE_MS)
    assert durable.wakeup_ms() == 2 * LIVE_PATIENCE_MS


def test_committed_delivers_only_what_a_store_has(batch):
    bench = Bench(committed=True)
    assert Listen(MessageId.ACK, "") in bench.give(Woke())
    assert delivered(bench.hear(live(batch(0)), live(batch(1)))) == []
    assert delivered(bench.hear(ack(0))) == [(0, 1)]
    assert delivered(bench.hear(stored_head(1))) == [(1, 2)]


def test_committed_does_not_believe_a_producers_own_head(batch):
    bench = Bench(committed=True)
    bench.hear(live(batch(0)))
    assert bench.hear(messages.DirectHead("ME", "flights", "AA", 0), head(0)) == []


def test_committed_asks_the_stores_of_what_is_said_to_be_stored(batch):
    bench = Bench(committed=True)
    bench.hear(live(batch(0)), ack(0), live(batch(1)))
    assert fetched(bench.hear(messages.Head("flights", "AA", 0, stored=True))) == []
    assert fetched(bench.hear(messages.Head("flights", "AA", 1, stored=True))) == [
        (SEQUENCE_MAX, 1)
    ]
    assert delivered(bench.hear(stored_head(1))) == [(1, 2)]
    assert fetched(bench.hear(messages.Head("flights", "AA", 1, stored=True))) == []


def test_who_takes_all_asks_nobody_what_is_stored(batch):
    bench = Bench()
    bench.hear(live(batch(0)))
    assert fetched(bench.hear(messages.Head("flights", "AA", 0, stored=True))) == []


def test_committed_finds_partitions_by_acks_alone():
    bench = Bench(committed=True)
    assert fetched(bench.hear(ack(3))) == [(0, 4)]


def test_an_ack_may_overtake_the_records_that_come_live(batch):
    bench = Bench(committed=True)
    bench.give(Woke())
    bench.hear(live(batch(0)), ack(0))
    for number in range(1, 4):
        assert fetched(bench.hear(ack(number))) == []
        assert delivered(bench.hear(live(batch(number)))) == [(number, number + 1)]
    assert bench.machine.wakeup_ms() == LIVE_PATIENCE_MS
    assert fetched(bench.wait(LIVE_PATIENCE_MS)) == []


def test_each_ack_that_overtakes_is_waited_for_as_long(batch):
    bench = Bench(committed=True)
    bench.hear(live(batch(0)), ack(0), ack(1), live(batch(1)))
    bench.now_ms = LIVE_PATIENCE_MS - 1
    bench.hear(ack(2))
    assert fetched(bench.wait(1)) == []
    assert fetched(bench.wait(LIVE_PATIENCE_MS - 1)) == []
    assert fetched(bench.wait(1)) == [(2, 1)]


def test_away_from_the_live_topics_nothing_is_waited_for(batch, monkeypatch):
    monkeypatch.setattr(live_edge, "LEAVING_BYTES", 1)
    size = len(batch(0).content)
    bench = Bench(committed=True, buffer_bytes_max=2 * size)
    bench.hear(*(live(batch(number)) for number in range(4)))
    assert bench.machine._live.away
    assert fetched(bench.hear(ack(5))) == []  # full
    bench.give(Drained(2 * size))
    assert bench.machine.heads == {P: 5}


def asked_for_heads(effects):
    return [one for one in effects if isinstance(one, Publish) and type(one.message) is GetHeads]


@pytest.mark.parametrize("committed", [True, False])
def test_who_hears_acks_leaves_and_comes_back_without_asking_for_heads(
    batch, monkeypatch, committed
):
    monkeypatch.setattr(live_edge, "LEAVING_BYTES", 1)
    size = len(batch(0).content)
    bench = Bench(committed=committed, buffer_bytes_max=2 * size)
    assert asked_for_heads(bench.give(Woke()))
    bench.hear(*(live(batch(number)) for number in range(4)))
    assert bench.machine._live.away
    assert bool(asked_for_heads(bench.wait(1))) is not committed
    bench.hear(ack(3))
    bench.give(Drained(2 * size))
    bench.hear(direct(batch(2)), direct(batch(3)))
    bench.give(Drained(2 * size))
    bench.wait(AWAY_MS)
    assert not bench.machine._live.away
    assert bool(asked_for_heads(bench.wait(1))) is not committed
    assert bench.machine.next(P) == 4


def test_what_is_known_to_be_durable_is_asked_for_when_it_is_positioned(batch):
    bench = Bench(committed=True)
    bench.hear(live(batch(0)), ack(9))
    bench.give(Unassigned(P))
    bench.wait(LIVE_PATIENCE_MS)
    assert fetched(bench.give(Positioned(P, 1))) == [(1, 9)]


def test_who_is_behind_learns_from_an_ack_at_once(batch):
    bench = Bench(committed=True)
    bench.hear(live(batch(0)), stored_head(1))
    assert fetched(bench.hear(ack(9), direct(batch(1)))) == [(2, 8)]


def test_a_partition_given_up_while_it_is_awaited_is_not_asked_for(batch):
    bench = Bench(committed=True, start=Start.ASSIGNED)
    bench.hear(live(batch(0)))
    bench.give(Positioned(P, 0))
    bench.hear(ack(9))
    bench.give(Unassigned(P))
    assert fetched(bench.wait(LIVE_PATIENCE_MS)) == []
