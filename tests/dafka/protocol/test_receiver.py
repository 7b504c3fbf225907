"""Receiving in order: gaps are fetched exactly, patiently, and within bounds."""

from __future__ import annotations

import random

import pytest

from dafka.errors import RecordError
from dafka.limits import (
    BATCH_RECORDS_MAX,
    FETCH_ANSWER_BYTES_MAX,
    FETCHED_BYTES_MAX,
    PARTITIONS_MAX,
    REORDER_BATCHES_MAX,
    REORDER_BYTES_MAX,
    STORES_MAX,
)
from dafka.model import ALL_SLOTS, Batch, Partition, Slots, replace, slot_of
from dafka.protocol.fetches import FETCH_SILENCE_MS
from dafka.protocol.receiver import PROBE_RECORDS, SETTLING_MS, Inflow, arrived
from dafka.protocol.stores import STORE_SILENCE_MS
from dafka.wire import messages


def message(one):
    topic, address = one.partition
    return messages.Records(topic, address, one.sequence, one.count, one.content)


def test_a_whole_batch_is_taken_as_it_is(batch):
    assert arrived(message(batch(3, 2))) == batch(3, 2)


@pytest.mark.parametrize(
    ("lie", "reason"),
    [
        ({"sequence": 4}, "batch sequence"),
        ({"count": 3}, "batch count"),
        ({"count": 0}, "batch count"),
    ],
)
def test_a_message_that_lies_about_its_batch_is_refused(batch, lie, reason):
    with pytest.raises(RecordError) as refusal:
        arrived(replace(message(batch(3, 2)), **lie))
    assert refusal.value.reason == reason


P = Partition("flights", "AA")

UNKNOWN = FETCHED_BYTES_MAX // FETCH_ANSWER_BYTES_MAX
"""FETCHes under way as long as no record was seen."""


def fetched(inflow, now_ms, room=FETCHED_BYTES_MAX):
    """The FETCHes of a node that is woken, and has nothing left to take in."""
    inflow.wake(now_ms)
    return inflow.fetches(now_ms, room)


@pytest.fixture
def inflow():
    inflow = Inflow("ME")
    inflow.start(P, 0)
    return inflow


def ranges(fetches):
    return [(fetch.sequence, fetch.count) for fetch in fetches]


def taken(inflow, partition=P):
    return [(one.sequence, one.count) for one in inflow.take(partition)]


def test_what_arrives_in_order_is_ready_at_once(inflow, batch):
    assert inflow.offer(batch(0, 2)) is None
    assert inflow.offer(batch(2)) is None
    assert taken(inflow) == [(0, 2), (2, 1)]
    assert fetched(inflow, 0) == []


def test_what_was_received_before_is_a_duplicate(inflow, batch):
    inflow.offer(batch(0, 2))
    assert inflow.offer(batch(0, 2)) == "duplicate"
    assert inflow.offer(batch(1)) == "duplicate"


def test_exactly_the_missing_range_is_fetched_once(inflow, batch):
    inflow.offer(batch(0, 2))
    inflow.offer(batch(7))
    inflow.offer(batch(9))
    fetches = fetched(inflow, 0)
    assert ranges(fetches) == [(2, 5)]
    assert (fetches[0].requester, fetches[0].topic, fetches[0].address) == ("ME", "flights", "AA")
    assert fetched(inflow, 0) == []


def test_a_closed_gap_frees_what_waited_behind_it(inflow, batch):
    inflow.offer(batch(4, 2))
    inflow.offer(batch(2, 2))
    assert taken(inflow) == []
    inflow.offer(batch(0, 2))
    assert taken(inflow) == [(0, 2), (2, 2), (4, 2)]
    assert fetched(inflow, 0) == []
    inflow.check()


def test_a_batch_that_overlaps_is_taken_from_where_it_is_new(inflow, batch):
    inflow.offer(batch(3, 4))
    inflow.offer(batch(0, 5))
    assert taken(inflow) == [(0, 5), (3, 4)]
    assert inflow.expected(P) == 7
    inflow.check()


def test_a_head_makes_what_is_missing_known(inflow):
    inflow.heard(P, 9)
    assert ranges(fetched(inflow, 0)) == [(0, 10)]
    assert inflow.head(P) == 9


def test_a_fetch_asks_for_no_more_than_a_batch_may_hold(inflow, batch):
    inflow.heard(P, 10**12)
    assert ranges(fetched(inflow, 0)) == [(0, PROBE_RECORDS)]
    inflow.offer(batch(0, 10))
    inflow.answered(P, None, 10**12)
    assert ranges(fetched(inflow, 0, room=10**12)) == [(10, BATCH_RECORDS_MAX)]


def lacking(inflow, count, head):
    """Let so many further partitions lack everything up to `head`."""
    partitions = [Partition("others", f"A{number}") for number in range(count)]
    for partition in partitions:
        inflow.start(partition, 0)
        inflow.heard(partition, head)
    return partitions


def test_of_what_nobody_knows_the_size_of_only_a_few_are_asked_for():
    inflow = Inflow("ME")
    lacking(inflow, UNKNOWN + 1, 0)
    assert len(fetched(inflow, 0)) == UNKNOWN


def test_of_few_partitions_more_is_asked_for_than_of_many(inflow, batch):
    size = len(batch(0).content)
    inflow.offer(batch(0))
    room = 800 * size
    lacking(inflow, 3, PROBE_RECORDS)
    assert [fetch.count for fetch in fetched(inflow, 0, room)] == [100] * 3
    few = Inflow("ME")
    few.start(P, 0)
    few.offer(batch(0))
    lacking(few, 20, 9)
    assert [fetch.count for fetch in fetched(few, 0, room)] == [10] * 20


def test_what_is_asked_for_fits_into_the_room(inflow, batch):
    size = len(batch(0).content)
    inflow.offer(batch(0))
    lacking(inflow, 20, 9)
    room = 50 * size
    assert [fetch.count for fetch in fetched(inflow, 0, room)] == [6] * 9
    assert fetched(inflow, 0, room) == []
    assert len(fetched(inflow, 0, 2 * room)) == 5


def test_what_is_missing_is_as_large_as_what_came(inflow, batch):
    size = len(batch(0).content)
    inflow.offer(batch(0))
    assert not inflow.misses(0)
    inflow.heard(P, 10)
    lacking(inflow, 2, 4)
    assert inflow.misses(20 * size - 1)
    assert not inflow.misses(20 * size)
    assert fetched(inflow, 0)
    assert inflow.misses(20 * size - 1), "asked for is not had"
    fetched(inflow, FETCH_SILENCE_MS)
    assert not inflow.misses(1), "it was asked for in vain"


def test_the_wait_begins_anew_when_something_has_come(inflow, batch):
    inflow.heard(P, 9)
    while (now_ms := inflow.wakeup_ms() or 0) < 30_000:
        fetched(inflow, now_ms)
    while not fetched(inflow, now_ms):
        now_ms = inflow.wakeup_ms()
    inflow.offer(batch(0, 4))  # and what would have said that this is all was lost
    asked_ms = now_ms
    while not fetched(inflow, now_ms):
        now_ms = inflow.wakeup_ms()
    assert now_ms - asked_ms == 3 * FETCH_SILENCE_MS, "one with, one without, one of rest"


def test_silence_is_judged_when_woken_and_not_by_who_has_still_to_read(inflow, batch):
    inflow.heard(P, 9)
    inflow.fetches(0)
    late_ms = 10 * FETCH_SILENCE_MS  # it has written for so long
    assert inflow.fetches(late_ms) == []
    inflow.offer(batch(0, 4))
    assert inflow.fetches(late_ms) == []
    inflow.answered(P, "S1", 9)
    assert [(one.sequence, one.store) for one in inflow.fetches(late_ms)] == [(4, "S1")]


def test_an_unanswerable_fetch_gives_its_place_to_others(batch):
    inflow = Inflow("ME")
    lacking(inflow, UNKNOWN, 0)
    fetched(inflow, 0)
    inflow.start(P, 0)
    inflow.heard(P, 0)
    assert fetched(inflow, 0) == []
    assert [fetch.topic for fetch in fetched(inflow, FETCH_SILENCE_MS)] == ["flights"]


def test_an_answered_window_is_followed_by_the_next_at_once(inflow, batch):
    inflow.heard(P, 9)
    fetched(inflow, 0)
    inflow.offer(batch(0, 4))
    inflow.answered(P, "S1", 9)
    assert ranges(fetched(inflow, 0)) == [(4, 6)]


def test_an_answer_that_brought_nothing_is_not_followed_at_once(inflow):
    inflow.heard(P, 9)
    fetched(inflow, 0)
    inflow.answered(P, "S1", 9)
    assert fetched(inflow, 0) == []


def late(inflow, head=99):
    """A stream that has asked long enough for log starts to be believed."""
    inflow.heard(P, head)
    inflow.stored(P, "S0", head)
    fetched(inflow, 0)
    now_ms = 0
    while not (fetched(inflow, now_ms) and now_ms >= SETTLING_MS):
        now_ms = inflow.wakeup_ms()
    return now_ms


def test_what_every_known_store_lacks_is_skipped(inflow, batch):
    now_ms = late(inflow)
    inflow.heard_from("S1", now_ms)
    inflow.heard_from("S2", now_ms)
    assert inflow.log_start(P, "S1", 50, now_ms) is None, "S2 may have it"
    assert inflow.log_start(P, "S2", 40, now_ms) == 40
    inflow.offer(batch(60))
    inflow.skip(P, 40)
    inflow.check()
    (fetch,) = fetched(inflow, now_ms)
    assert (fetch.sequence, fetch.store) == (40, None)
    assert inflow.expected(P) == 40


def test_a_store_that_does_not_keep_the_slot_does_not_hold_a_skip_up(inflow):
    slot = slot_of(P.address)
    now_ms = late(inflow)
    for store, kept in (("S1", True), ("S2", False), ("S3", True)):
        inflow.heard_from(store, now_ms)
        inflow.keeps(store, Slots.of([range(slot, slot + 1)] if kept else [range(slot)]))
    assert inflow.log_start(P, "S1", 50, now_ms) is None, "S3 may have it"
    assert inflow.log_start(P, "S3", 40, now_ms) == 40


def test_where_all_stores_are_named_each_has_to_lack_it_however_long_that_takes(inflow):
    now_ms = late(inflow)
    asked = {"S1", "AWAY"}
    while now_ms < 2 * STORE_SILENCE_MS:
        assert inflow.log_start(P, "S1", 50, now_ms, asked) is None, "AWAY may have it"
        assert inflow.log_start(P, "S1", 50, now_ms, ()) is None, "nobody has said who is there"
        now_ms = inflow.wakeup_ms()
        fetched(inflow, now_ms)
    inflow.heard_from("AWAY", now_ms)
    while not fetched(inflow, now_ms):
        now_ms = inflow.wakeup_ms()
    assert inflow.log_start(P, "S1", 50, now_ms, asked) is None
    assert inflow.log_start(P, "AWAY", 40, now_ms, asked) == 40


def test_a_store_that_has_not_come_so_far_does_not_hold_a_skip_up(inflow):
    now_ms = late(inflow)
    inflow.heard_from("S1", now_ms)
    inflow.heard_from("S2", now_ms)
    inflow.answered(P, "S2", -1)
    assert inflow.log_start(P, "S1", 50, now_ms) == 50


def test_a_store_that_does_not_keep_the_slot_holds_no_skip_up(inflow):
    now_ms = late(inflow)
    for store in ("S1", "S2", "S3"):
        inflow.heard_from(store, now_ms)
    kept = Slots(1 << slot_of(P.address))
    inflow.keeps("S2", ALL_SLOTS.without(kept))
    inflow.keeps("S3", kept)
    assert inflow.log_start(P, "S1", 50, now_ms) is None, "S3 may have it"
    assert inflow.log_start(P, "S3", 50, now_ms) == 50


def test_a_store_that_is_gone_holds_a_skip_up_for_six_windows_only(inflow):
    now_ms = late(inflow)
    inflow.heard_from("S1", now_ms)
    inflow.heard_from("GONE", now_ms)
    tries = 1
    while inflow.log_start(P, "S1", 50, now_ms) is None:
        now_ms = inflow.wakeup_ms()
        tries += bool(fetched(inflow, now_ms))
        assert now_ms < 60_000
    assert tries == 6
    assert now_ms > 8_000, "one that is started again meanwhile is asked first"


def test_what_stores_answer_late_counts_until_they_are_asked_again(inflow):
    now_ms = late(inflow) + FETCH_SILENCE_MS
    inflow.heard_from("S1", now_ms)
    inflow.heard_from("S2", now_ms)
    assert inflow.fetches(now_ms) == [], "it rests"
    assert inflow.log_start(P, "S1", 50, now_ms) is None
    assert inflow.log_start(P, "S2", 40, now_ms) == 40


def test_while_what_came_is_of_no_use_nothing_is_skipped(inflow):
    now_ms = late(inflow)
    inflow.rest(P, now_ms, 1_000)
    assert inflow.log_start(P, "S1", 50, now_ms) is None


def test_a_store_not_heard_of_for_long_is_not_waited_for(inflow):
    inflow.heard_from("GONE", 0)
    inflow.heard(P, 99)
    fetched(inflow, 0)
    inflow.stored(P, "S1", 99)
    inflow.start(P, 0)
    fetched(inflow, STORE_SILENCE_MS)
    assert inflow.log_start(P, "S1", 50, STORE_SILENCE_MS) == 50


def test_nothing_is_skipped_before_stores_can_have_been_found(inflow):
    inflow.heard(P, 99)
    fetched(inflow, 0)
    assert inflow.log_start(P, "S1", 50, SETTLING_MS - 1) is None


def test_a_log_start_that_nobody_asked_for_or_that_makes_no_sense_is_nothing(inflow, batch):
    assert inflow.log_start(P, "S1", 50, 0) is None
    now_ms = late(inflow, head=9)
    assert inflow.log_start(P, "S1", 11, now_ms) is None, "behind the partition's end"
    assert inflow.log_start(P, "S1", 0, now_ms) is None
    assert inflow.log_start(P, "S1", 10, now_ms) == 10


def test_a_log_start_behind_what_only_a_head_has_spoken_of_is_not_believed(inflow, batch):
    now_ms = late(inflow, head=9)
    inflow.heard(P, 30)
    assert inflow.log_start(P, "LIAR", 31, now_ms) is None, "no store says that there is that much"
    inflow.answered(P, "S1", 20)
    assert inflow.log_start(P, "LIAR", 22, now_ms) is None
    assert inflow.log_start(P, "S1", 21, now_ms) == 21


def test_what_is_there_shows_where_a_log_begins(inflow, batch):
    inflow.heard(P, 99)
    fetched(inflow, 0)
    inflow.offer(batch(40, 5))
    now_ms = 0
    while not (fetched(inflow, now_ms) and now_ms >= SETTLING_MS):
        now_ms = inflow.wakeup_ms()
    assert inflow.log_start(P, "MIRROR", 45, now_ms) is None
    assert inflow.log_start(P, "MIRROR", 42, now_ms) == 42


def test_a_skip_closes_the_gap_before_what_waits(inflow, batch):
    inflow.offer(batch(5, 10))
    inflow.offer(batch(20, 5))
    inflow.skip(P, 18)
    inflow.check()
    assert ranges(fetched(inflow, 0)) == [(18, 2)]
    inflow.skip(P, 20)
    assert taken(inflow) == [(20, 5)]


def test_an_answer_that_still_flows_is_waited_for(inflow, batch):
    inflow.heard(P, 9)
    fetched(inflow, 0)
    inflow.offer(batch(0))
    assert fetched(inflow, FETCH_SILENCE_MS) == []
    assert inflow.wakeup_ms() == 2 * FETCH_SILENCE_MS


def test_the_reorder_buffer_is_bounded(inflow, batch):
    size = 4 << 20
    kept = 0
    for number in range(1, 20):
        if inflow.offer(batch(number, size=size)) is None:
            kept += 1
    assert kept == REORDER_BYTES_MAX // len(batch(1, size=size).content)
    assert inflow.offer(batch(19, size=size)) == "reorder buffer full"
    inflow.check()


def test_small_batches_are_bounded_by_their_number(inflow, batch):
    content = batch(0).content
    for number in range(1, REORDER_BATCHES_MAX + 1):
        assert inflow.offer(Batch(P, 2 * number, 1, content)) is None
    assert inflow.offer(Batch(P, 1_000_001, 1, content)) == "reorder buffer full"
    inflow.check()
    inflow.start(P, 0)
    assert inflow.offer(Batch(P, 2, 1, content)) is None
    inflow.check()


def test_nothing_is_skipped_while_what_lies_before_waits(inflow, batch):
    inflow.heard(P, 99)
    fetched(inflow, 0)
    inflow.answered(P, "S1", 99)
    inflow.offer(batch(0, 5))
    assert inflow.log_start(P, "S1", 50, SETTLING_MS) is None
    inflow.take(P)
    assert inflow.log_start(P, "S1", 50, SETTLING_MS) == 50


def test_invented_senders_of_a_log_start_do_not_pile_up(inflow):
    inflow.heard(P, 99)
    fetched(inflow, 0)
    inflow.answered(P, "S0", 99)
    for number in range(3 * STORES_MAX):
        inflow.log_start(P, f"S{number}", 50, 0)
    assert len(inflow._gaps.window(P).without) == STORES_MAX


def test_starting_again_forgets_what_was_received(inflow, batch):
    inflow.offer(batch(0, 4))
    inflow.offer(batch(6))
    inflow.start(P, 2)
    inflow.check()
    assert taken(inflow) == []
    assert inflow.head(P) == 6
    assert ranges(fetched(inflow, 0)) == [(2, 5)]


def test_taking_stops_at_a_bound(inflow, batch):
    for number in range(4):
        inflow.offer(batch(2 * number, 2))
    assert [one.sequence for one in inflow.take(P, 5)] == [0, 2]
    assert inflow.ready_bytes == sum(len(batch(n, 2).content) for n in (4, 6))


def test_partitions_are_bounded():
    inflow = Inflow("ME")
    for number in range(PARTITIONS_MAX):
        assert inflow.start(Partition("t", str(number)), 0)
    assert not inflow.start(P, 0)
    assert inflow.start(Partition("t", "7"), 5), "known ones may begin again"


def test_any_order_with_repetition_ends_with_everything_once(batch):
    pieces = [batch(2 * number, 2) for number in range(12)]
    for seed in range(50):
        chance = random.Random(seed)
        arriving = pieces * 2
        chance.shuffle(arriving)
        inflow = Inflow("ME")
        inflow.start(P, 0)
        got: list[Batch] = []
        for one in arriving:
            inflow.offer(one)
            inflow.check()
            got += inflow.take(P)
        assert got == pieces
