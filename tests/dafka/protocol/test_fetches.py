"""When to ask for what is lacking, and for how much at once."""

from __future__ import annotations

import pytest

from dafka.limits import (
    BATCH_RECORDS_MAX,
    FETCH_ANSWER_BYTES_MAX,
    FETCHED_BYTES_MAX,
    FETCHES_IN_FLIGHT_MAX,
)
from dafka.model import Batch, Partition
from dafka.protocol.fetches import (
    FETCH_REST_MS_MAX,
    FETCH_SILENCE_MS,
    Gaps,
    RecordSize,
    Stream,
    Turns,
    Window,
)


def test_what_is_not_known_is_taken_for_much():
    size = RecordSize()
    assert size.records_in(1) == BATCH_RECORDS_MAX
    assert size.bytes_of(1) == FETCH_ANSWER_BYTES_MAX


def test_it_is_the_mean_of_all_that_came():
    size = RecordSize()
    size.took(Batch(Partition("flights", "AA"), 0, 1, bytes(1_000)))
    size.took(Batch(Partition("flights", "AA"), 1, 3, bytes(600)))
    assert size.records_in(4_000) == 10
    assert size.records_in(0) == 1, "less cannot be asked for"
    assert size.bytes_of(10) == 4_000
    assert size.bytes_of(1) == 800, "batches come whole"


PARTITIONS = [Partition("flights", f"A{number}") for number in range(FETCHES_IN_FLIGHT_MAX + 2)]
P, Q = PARTITIONS[:2]


@pytest.fixture
def streams():
    return {partition: Stream(0) for partition in PARTITIONS}


@pytest.fixture
def gaps(streams):
    gaps = Gaps(streams)
    yield gaps
    gaps.check()


def asked(gaps, now_ms=0, *, room=FETCHED_BYTES_MAX, size=1):
    """Ask for everything that may be asked for."""
    found = []
    while (due := gaps.due(room)) is not None:
        partition, rest_ms = due
        gaps.asked(partition, Window(0, 1, now_ms + FETCH_SILENCE_MS, rest_ms, None, size))
        found.append(partition)
    return found


def test_nothing_is_lacking_at_first(gaps):
    assert not gaps
    assert gaps.wakeup_ms() is None
    assert asked(gaps) == []


def test_each_is_asked_for_once_in_the_order_of_need(gaps):
    for partition in (Q, P, Q):
        gaps.noted(partition)
    assert asked(gaps) == [Q, P]
    gaps.noted(P)
    assert asked(gaps) == []
    gaps.close(P)
    gaps.noted(P)
    assert asked(gaps) == [P]


def test_what_is_under_way_is_bounded_by_number_and_by_bytes(gaps):
    for partition in PARTITIONS:
        gaps.noted(partition)
    assert len(asked(gaps, room=10, size=3)) == 4
    assert len(asked(gaps)) == FETCHES_IN_FLIGHT_MAX - 4
    gaps.forget(P)
    assert len(asked(gaps)) == 1
    assert not asked(gaps)


def test_more_room_than_is_asked_for_at_once_changes_nothing(gaps):
    for partition in PARTITIONS:
        gaps.noted(partition)
    at_once = FETCHED_BYTES_MAX // FETCH_ANSWER_BYTES_MAX
    room = 2 * FETCHED_BYTES_MAX
    assert len(asked(gaps, room=room, size=FETCH_ANSWER_BYTES_MAX)) == at_once


def test_what_brings_nothing_rests_ever_longer(gaps, streams):
    streams[P].store = "S1"
    gaps.noted(P)
    now_ms, times = 0, []
    while now_ms < 60_000:
        gaps.expire(now_ms)
        if asked(gaps, now_ms):
            times.append(now_ms)
        now_ms = gaps.wakeup_ms()
    assert streams[P].store is None, "somebody else may have it"
    assert times[1] == 2 * FETCH_SILENCE_MS
    assert times[-1] - times[-2] == FETCH_SILENCE_MS + FETCH_REST_MS_MAX


def test_who_rests_is_not_waited_for_and_is_asked_at_once_when_something_came(gaps):
    gaps.noted(P)
    asked(gaps)
    assert list(gaps) == [P]
    gaps.expire(FETCH_SILENCE_MS)
    assert list(gaps) == []
    assert gaps
    gaps.narrowed(P)
    assert asked(gaps, FETCH_SILENCE_MS) == [P]


def test_what_was_of_no_use_is_asked_for_after_a_while(gaps):
    gaps.noted(P)
    asked(gaps)
    gaps.rest(P, 5, FETCH_REST_MS_MAX)
    gaps.noted(P)
    assert asked(gaps) == []
    assert gaps.wakeup_ms() <= 5 + FETCH_REST_MS_MAX
    gaps.expire(4 + FETCH_REST_MS_MAX)
    assert asked(gaps) == []
    gaps.expire(5 + FETCH_REST_MS_MAX)
    assert asked(gaps) == [P]


def test_what_nobody_has_any_more_keeps_nothing_new_waiting(gaps, streams):
    hopeless = [Partition("flights", f"H{number}") for number in range(20 * FETCHES_IN_FLIGHT_MAX)]
    streams |= {partition: Stream(0) for partition in hopeless}
    for partition in hopeless:
        gaps.noted(partition)
    now_ms = 0
    while now_ms < 60_000:
        gaps.expire(now_ms)
        asked(gaps, now_ms)
        now_ms = gaps.wakeup_ms()
    # All places are taken, and hundreds wait for one.
    waits = []
    for partition in PARTITIONS[:10]:
        gaps.noted(partition)
        noted_ms = now_ms
        while partition not in asked(gaps, now_ms):
            now_ms = gaps.wakeup_ms()
            gaps.expire(now_ms)
        gaps.forget(partition)
        waits.append(now_ms - noted_ms)
    assert max(waits) <= FETCH_SILENCE_MS
    # Nor do the new ones keep those waiting.
    for partition in PARTITIONS:
        gaps.noted(partition)
    gaps.expire(now_ms + FETCH_SILENCE_MS)
    found = asked(gaps, now_ms + FETCH_SILENCE_MS)
    assert len(set(found) & set(hopeless)) == len(set(found) - set(hopeless)) > 10


def test_others_are_asked_at_once_where_one_does_not_have_it(gaps):
    gaps.noted(P)
    asked(gaps)
    gaps.again(P)
    assert gaps.window(P) is None
    assert asked(gaps) == [P]
    gaps.forget(P)
    assert not gaps


def test_each_owner_has_its_turn():
    turns = Turns()
    many = [Partition("flights", f"{'E' * 16}{number:016}") for number in range(1_000)]
    for partition in many:
        turns.put(partition, 250)
    other, third = Partition("flights", "F" * 32), Partition("orders", "0" * 32)
    turns.put(other, 500)
    turns.put(third, 250)
    assert [turns.take() for _ in range(5)] == [
        (many[0], 250),
        (other, 500),
        (third, 250),
        (many[1], 250),
        (many[2], 250),
    ]
    assert turns.drop(many[3])
    assert not turns.drop(many[3])
    assert not turns.drop(other)
    assert many[3] not in turns
    assert list(turns) == many[4:]
    for _ in many[4:]:
        turns.take()
    assert not turns
