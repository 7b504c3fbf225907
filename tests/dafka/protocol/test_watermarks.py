"""What stores have acknowledged, by itself and in a consumer that takes nothing else."""

from __future__ import annotations

import pytest

from dafka.model import Partition
from dafka.protocol.effects import Deliver, Publish
from dafka.protocol.fetches import FETCH_SILENCE_MS
from dafka.protocol.watermarks import LIVE_PATIENCE_MS, HighWatermarks
from dafka.records.batch import Run
from dafka.wire import messages
from dafka.wire.messages import ANY_STORE
from tests.support.consumer_bench import (
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

Q, R = (Partition("flights", address) for address in ("BB", "CC"))


def test_it_knows_how_far_stores_have_a_partition():
    durable = HighWatermarks()
    assert durable.end(P) == 0
    assert durable.reached(P, ack(6))
    assert (durable.end(P), durable.end(Q)) == (7, 0)


def test_partitions_are_bounded_and_those_known_go_on():
    durable = HighWatermarks(partitions_max=2)
    assert durable.reached(P, ack(0))
    assert durable.reached(Q, ack(0))
    assert not durable.reached(R, ack(0))
    assert durable.reached(P, ack(1))
    assert (durable.end(P), durable.end(R)) == (2, 0)


def test_each_is_waited_for_as_long_from_the_first_time_on():
    durable = HighWatermarks()
    assert durable.wakeup_ms() is None
    durable.reached(P, ack(2))
    durable.wait_for(P, 0)
    durable.wait_for(Q, 10)
    durable.reached(P, ack(4))
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


@pytest.mark.parametrize(
    ("said", "doubted"),
    [
        (ack(4, run=7), False),
        (stored_head(4, run=7), False),
        (ack(4, run=8), True),
        (ack(4), True),
        (stored_head(4), True),
        (messages.Ack("flights", "AA", None, 4), False),
    ],
)
def test_records_of_a_run_are_stored_where_a_store_names_that_run(batch, said, doubted):
    durable = HighWatermarks()
    below, across, behind = (batch(at, 2, run=Run(7, at)) for at in (0, 4, 5))
    assert not durable.doubts(below)
    durable.reached(P, said)
    assert [durable.doubts(one) for one in (below, across, behind)] == [doubted, doubted, False]


def test_records_without_a_run_are_stored_where_no_run_is_named(batch):
    durable = HighWatermarks()
    durable.reached(P, ack(4))
    assert not durable.doubts(batch(0))
    durable.reached(P, ack(5, run=7))
    assert durable.doubts(batch(0))
    durable.forget(P)
    assert not durable.doubts(batch(0))


OURS, THEIRS = (Run(number, 0) for number in (7, 8))
"""Lives of two producers under one address."""


def asked_stores(effects):
    return [
        (one.message.sequence, one.message.store)
        for one in effects
        if isinstance(one, Publish) and isinstance(one.message, messages.Fetch)
    ]


@pytest.mark.parametrize("told", [ack(0, run=7), stored_head(0, run=7), stored_head(0), ack(0)])
def test_committed_takes_from_a_store_what_another_producer_has_sent_live(batch, told):
    bench = Bench(committed=True)
    theirs, ours = batch(0, run=THEIRS), batch(0, run=OURS, size=9)
    effects = bench.hear(live(theirs), told)
    assert delivered(effects) == []
    assert asked_stores(effects + bench.wait(LIVE_PATIENCE_MS)) in ([(0, "S1")], [(0, ANY_STORE)])
    (deliver,) = (one for one in bench.hear(direct(ours)) if isinstance(one, Deliver))
    assert deliver.batch == ours


def test_committed_believes_an_ack_that_names_the_run(batch):
    bench = Bench(committed=True)
    bench.hear(live(batch(0, run=OURS)))
    assert delivered(bench.hear(ack(0, run=7))) == [(0, 1)]
    assert delivered(bench.hear(live(batch(1, run=Run(7, 1))), stored_head(1, run=7))) == [(1, 2)]


def test_committed_drops_live_records_of_another_producer_that_come_behind_the_ack(batch):
    bench = Bench(committed=True)
    bench.hear(ack(0, run=7))
    assert delivered(bench.hear(live(batch(0, run=THEIRS)))) == []
    assert delivered(bench.hear(live(batch(0, run=OURS)))) == [(0, 1)]


def test_committed_does_not_take_an_ack_for_the_word_on_an_earlier_run(batch):
    bench = Bench(committed=True)
    bench.hear(live(batch(0, run=THEIRS)), live(batch(1, run=OURS)))
    effects = bench.hear(ack(1, run=7))
    assert delivered(effects) == []
    assert asked_stores(effects) == [(0, "S1")]
    effects = bench.hear(direct(batch(0, run=THEIRS)), direct(batch(1, run=OURS)))
    assert delivered(effects) == [(0, 1), (1, 2)], "so it was an earlier life of the same one"


def test_committed_looks_at_a_batch_of_which_stores_have_other_first_records(batch):
    bench = Bench(committed=True)
    bench.hear(live(batch(0, 3, run=THEIRS)))
    assert asked_stores(bench.hear(ack(0, run=7))) == [(0, "S1")]
    assert delivered(bench.hear(direct(batch(0, run=OURS)))) == [(0, 1)]


def test_committed_looks_at_what_waits_behind_a_gap(batch):
    bench = Bench(committed=True)
    bench.hear(live(batch(1, run=THEIRS)), ack(1, run=7))
    assert delivered(bench.hear(direct(batch(0, run=OURS)))) == [(0, 1)]


def test_who_takes_only_what_stores_have_asks_nobody_else(batch):
    bench = Bench(committed=True)
    bench.hear(ack(4, run=7))
    silent = bench.wait(FETCH_SILENCE_MS) + bench.wait(FETCH_SILENCE_MS)
    assert asked_stores(silent)[-1] == (0, ANY_STORE)
    bench = Bench()
    assert asked_stores(bench.hear(head(4))) == [(0, None)]


def test_an_ack_of_a_store_of_another_make_says_nothing_of_runs(batch):
    bench = Bench(committed=True)
    unnamed = messages.Ack("flights", "AA", None, 0)
    assert delivered(bench.hear(live(batch(0, run=THEIRS)), unnamed)) == [(0, 1)]


def test_what_a_store_has_now_is_asked_for_at_once_though_it_was_asked_for_in_vain(batch):
    bench = Bench(committed=True)
    bench.hear(live(batch(1)), head(1))
    bench.wait(FETCH_SILENCE_MS)
    assert fetched(bench.hear(ack(1))) == [(0, 1)]
