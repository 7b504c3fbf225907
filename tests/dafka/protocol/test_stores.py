"""Which stores there are, and which of them is asked."""

from __future__ import annotations

import pytest

from dafka.limits import FETCH_ANSWER_BYTES_MAX, FETCHED_BYTES_MAX, STORES_MAX
from dafka.model import ALL_SLOTS, SLOTS, Partition, Slots, slot_of
from dafka.protocol.fetches import FETCH_SILENCE_MS
from dafka.protocol.receiver import Inflow
from dafka.protocol.stores import (
    FRESH_MS,
    HEADS_INTERVAL_MS_MAX,
    SETTLING_MS,
    SETTLING_MS_MAX,
    STORE_SILENCE_MS,
    Baseline,
    Inquiry,
    KnownStores,
)


def test_a_store_is_alive_until_it_has_been_silent_for_long():
    stores = KnownStores()
    assert stores.heard_from("S1", 0)
    assert stores.heard_from("S2", 5)
    assert [*stores.alive(STORE_SILENCE_MS - 1)] == ["S1", "S2"]
    assert [*stores.alive(STORE_SILENCE_MS)] == ["S2"]
    assert stores.heard_from("S1", STORE_SILENCE_MS)
    assert [*stores.alive(STORE_SILENCE_MS)] == ["S1", "S2"]


def test_of_a_partition_those_may_have_something_that_keep_its_slot():
    kept, own = Partition("orders", "AA"), Partition("__consumer_offsets", "AA")
    slot = slot_of(kept.address)
    stores = KnownStores()
    for store in ("all", "before", "at", "behind"):
        stores.heard_from(store, 0)
    stores.keeps("before", Slots.of([range(slot)]))
    stores.keeps("at", Slots.of([range(slot, slot + 1)]))
    stores.keeps("behind", Slots.of([range(slot + 1, SLOTS)]))
    assert [*stores.keepers(kept, 0)] == ["all", "at"]
    assert [*stores.keepers(own, 0)] == ["all", "before", "at", "behind"]
    stores.keeps("behind", ALL_SLOTS)
    assert [*stores.keepers(kept, 0)] == ["all", "at", "behind"]
    assert [*stores.keepers(kept, STORE_SILENCE_MS)] == []


def test_who_tells_of_a_partition_keeps_it_whatever_he_said_before():
    """Slots move, and the hello that says so may be lost: then it is waited for."""
    kept = Partition("orders", "AB" * 16)
    slot = slot_of(kept.address)
    stores = KnownStores()
    stores.heard_from("S1", 0)
    stores.keeps("S1", Slots.of([range(slot, slot + 1)]))
    stores.told_of(kept, "S1")
    assert stores.slots_of("S1") != ALL_SLOTS
    stores.keeps("S1", Slots.of([range(slot + 1, SLOTS)]))
    assert [*stores.keepers(kept, 0)] == []
    stores.told_of(kept, "S1")
    assert [*stores.keepers(kept, 0)] == ["S1"]


def test_what_those_keep_is_forgotten_with_them():
    stores = KnownStores(1)
    stores.heard_from("S1", 0)
    stores.keeps("S1", Slots.of([range(9)]))
    assert stores.heard_from("S2", STORE_SILENCE_MS)
    assert stores.slots_of("S1") == ALL_SLOTS


def test_whoever_is_there_is_heard_of_in_time():
    assert HEADS_INTERVAL_MS_MAX + FRESH_MS + 5_000 <= STORE_SILENCE_MS


def test_none_is_taken_for_gone_that_was_not_asked_in_time():
    stores = KnownStores()
    assert not stores.all_fresh(0)
    asked = []
    for now_ms in range(0, 200_000, HEADS_INTERVAL_MS_MAX):
        stores.heard_from("S1", now_ms)
        if not stores.all_fresh(now_ms):
            asked.append(now_ms)
            stores.heard_from("S2", now_ms)
        elif now_ms == 0:
            stores.heard_from("S2", 1)
        assert [*stores.alive(now_ms + HEADS_INTERVAL_MS_MAX - 1)] == ["S1", "S2"]
    assert asked == [*range(HEADS_INTERVAL_MS_MAX, 200_000, HEADS_INTERVAL_MS_MAX)]


def test_who_speaks_all_the_time_need_not_be_asked_but_for_those_that_are_silent():
    stores = KnownStores()
    stores.heard_from("S1", 0)
    stores.heard_from("S2", 5_000)
    assert stores.all_fresh(5_000)
    stores.heard_from("S2", 10 * STORE_SILENCE_MS)
    assert not stores.all_fresh(10 * STORE_SILENCE_MS), "an answer may have been lost"
    stores.heard_from("S1", 10 * STORE_SILENCE_MS)
    assert stores.all_fresh(10 * STORE_SILENCE_MS)


def test_who_does_not_answer_is_not_asked_alone_until_heard_of():
    stores = KnownStores()
    stores.heard_from("S1", 0)
    stores.fell_silent({"S1", "never heard of"})
    assert not stores.answers("S1")
    assert stores.answers("S2")
    assert stores.answers("never heard of"), "or they would pile up"
    stores.heard_from("S1", 1)
    assert stores.answers("S1")


def test_invented_stores_do_not_pile_up():
    stores = KnownStores()
    assert all(stores.heard_from(f"S{number}", 0) for number in range(STORES_MAX))
    assert not stores.heard_from("one more", 0)
    assert stores.heard_from("S0", 1)
    assert len([*stores.alive(1)]) == STORES_MAX


def test_the_silent_make_room():
    stores = KnownStores()
    for number in range(STORES_MAX):
        stores.heard_from(f"S{number}", 0)
    assert stores.heard_from("later", STORE_SILENCE_MS)
    assert [*stores.alive(STORE_SILENCE_MS)] == ["later"]


def test_what_stores_keep_is_forgotten_with_them():
    stores = KnownStores()
    for number in range(STORES_MAX):
        stores.heard_from(f"S{number}", 0)
    stores.keeps("S0", Slots(0))
    assert "S0" not in [*stores.keepers(P, 0)]
    assert len([*stores.keepers(P, 0)]) == STORES_MAX - 1
    stores.heard_from("later", STORE_SILENCE_MS)
    assert stores._slots == {}
    system = Partition("_groups", "AA")
    stores.keeps("later", Slots(0))
    assert [*stores.keepers(system, STORE_SILENCE_MS)] == ["later"], "all keep it"


P = Partition("flights", "AA")


@pytest.fixture
def inflow():
    inflow = Inflow("ME")
    inflow.start(P, 0)
    return inflow


def fetched(inflow, now_ms, room=FETCHED_BYTES_MAX):
    """The FETCHes of a node that is woken, and has nothing left to take in."""
    inflow.wake(now_ms)
    return inflow.fetches(now_ms, room)


def asked(inflow, now_ms=0):
    return [(fetch.sequence, fetch.store) for fetch in fetched(inflow, now_ms)]


def test_the_store_whose_answer_was_of_use_is_asked_alone_from_then_on(inflow, batch):
    inflow.heard(P, 9)
    assert asked(inflow) == [(0, None)]
    inflow.offer(batch(0, 4))
    inflow.answered(P, "S1", 9)
    assert asked(inflow) == [(4, "S1")]
    inflow.answered(P, "S2", 3)  # late, and of the first FETCH
    assert asked(inflow) == []
    inflow.offer(batch(4, 2))
    inflow.answered(P, "S1", 9)
    assert asked(inflow) == [(6, "S1")]


def test_the_first_store_that_says_it_has_it_is_asked_alone(inflow):
    inflow.heard(P, 9)
    inflow.answered(P, "BEHIND", -1)
    inflow.answered(P, None, 9)
    inflow.answered(P, "S1", 9)
    inflow.answered(P, "S2", 9)
    assert asked(inflow) == [(0, "S1")]


def test_a_store_that_has_no_more_is_left_at_once(inflow, batch):
    inflow.heard(P, 9)
    fetched(inflow, 0)
    inflow.offer(batch(0, 4))
    inflow.answered(P, "S1", 9)
    fetched(inflow, 0)
    inflow.answered(P, "S1", 3)
    assert asked(inflow) == [(4, None)]


def test_a_store_that_falls_silent_is_left_in_time(inflow, batch):
    inflow.heard(P, 9)
    fetched(inflow, 0)
    inflow.offer(batch(0, 4))
    inflow.answered(P, "S1", 9)
    fetched(inflow, 0)
    assert asked(inflow, FETCH_SILENCE_MS) == []
    assert asked(inflow, 2 * FETCH_SILENCE_MS) == [(4, None)]


def test_a_store_that_falls_silent_is_left_by_all_partitions_until_it_speaks(batch):
    inflow = Inflow("ME")
    inflow.heard_from("S1", 0)
    places = [Partition(f"flights-{number}", "AA") for number in range(1_000)]
    for place in places:
        inflow.start(place, 0)
        inflow.heard(place, 0)
        inflow.answered(place, "S1", 0)
    now_ms = alone = 0
    while inflow.lacking:
        for fetch in fetched(inflow, now_ms):
            if fetch.store is None:
                inflow.offer(batch(0, partition=Partition(fetch.topic, fetch.address)))
            else:
                alone += 1
        now_ms = max(now_ms, inflow.wakeup_ms() or 0)
    assert now_ms == 2 * FETCH_SILENCE_MS
    assert alone == FETCHED_BYTES_MAX // FETCH_ANSWER_BYTES_MAX
    assert inflow.heard_from("S1", now_ms)
    inflow.heard(places[-1], 1)
    assert asked(inflow, now_ms) == [(1, "S1")]


def test_a_store_that_has_given_all_it_was_asked_for_is_asked_for_the_rest_at_once(inflow, batch):
    inflow.heard_from("S1", 0)
    inflow.heard(P, 3)
    inflow.stored(P, "S1", 3)
    assert [fetch.count for fetch in fetched(inflow, 0)] == [4]
    inflow.heard(P, 9)
    inflow.offer(batch(0, 2))
    assert asked(inflow) == []
    inflow.offer(batch(2, 2))
    assert asked(inflow) == [(4, "S1")]


def test_a_store_whose_answer_was_cut_short_has_not_fallen_silent(inflow, batch):
    other = Partition("flights", "BB")
    inflow.start(other, 0)
    inflow.heard_from("S1", 0)
    inflow.heard(P, 3)
    inflow.stored(P, "S1", 3)
    fetched(inflow, 0)
    inflow.offer(batch(0, 2))
    assert asked(inflow, FETCH_SILENCE_MS) == []
    assert asked(inflow, 2 * FETCH_SILENCE_MS) == []
    inflow.heard(other, 0)
    inflow.stored(other, "S1", 0)
    assert asked(inflow, 2 * FETCH_SILENCE_MS) == [(0, "S1")]


def test_what_comes_while_there_is_news_was_there_before():
    baseline = Baseline()
    assert baseline.is_old(10 * SETTLING_MS), "nobody was heard of yet"
    baseline.heard(0)
    for now_ms in (0, SETTLING_MS - 1, 2 * SETTLING_MS - 2):
        baseline.heard(now_ms)
        assert baseline.is_old(now_ms)
    assert not baseline.is_old(3 * SETTLING_MS - 2)
    baseline.begin(4 * SETTLING_MS)
    assert baseline.is_old(5 * SETTLING_MS - 1)
    assert not baseline.is_old(6 * SETTLING_MS - 1)


def test_news_without_end_is_new_in_the_end():
    baseline = Baseline()
    baseline.heard(0)
    assert all(baseline.is_old(now_ms) for now_ms in range(0, SETTLING_MS_MAX, SETTLING_MS // 2))
    assert not baseline.is_old(SETTLING_MS_MAX)


def test_it_asks_ever_more_rarely_up_to_a_bound():
    inquiry = Inquiry(2_000)
    assert not inquiry.asked(0)
    inquiry.renew(0)
    asked = [now_ms for now_ms in range(0, 10_000, 100) if inquiry.asked(now_ms)]
    assert asked == [0, 500, 1_500, 3_500, 5_500, 7_500, 9_500]


def test_whoever_is_new_is_asked_at_once_and_again_soon():
    inquiry = Inquiry(60_000)
    inquiry.renew(0)
    for now_ms in range(0, 20_000, 100):
        inquiry.asked(now_ms)
    inquiry.renew(20_000)
    asked = [now_ms for now_ms in range(20_000, 24_000, 100) if inquiry.asked(now_ms)]
    assert asked == [20_000, 20_500, 21_500, 23_500]


def test_what_was_told_by_other_ways_is_only_asked_of_whoever_is_new():
    inquiry = Inquiry(2_000)
    inquiry.renew(0)
    asked = [now_ms for now_ms in range(0, 8_000, 100) if inquiry.asked(now_ms, told=True)]
    assert asked == [0, 500]
    assert inquiry.passed_ms == 7_500
    inquiry.renew(8_000)
    asked = [now_ms for now_ms in range(8_000, 16_000, 100) if inquiry.asked(now_ms, told=True)]
    assert asked == [8_000, 8_500]
    asked = [now_ms for now_ms in range(16_000, 20_000, 100) if inquiry.asked(now_ms)]
    assert asked == [17_500, 19_500]
