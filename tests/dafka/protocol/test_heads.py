"""When HEAD is said again."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dafka.model import Partition
from dafka.protocol.effects import Publish
from dafka.protocol.events import Received
from dafka.protocol.heads import TOGETHER_MS, HeadSchedule, TopicHeads
from dafka.protocol.store import StoreMachine
from dafka.wire import messages

FLIGHTS, MORE_FLIGHTS = Partition("flights", "AA"), Partition("flights", "BB")
WEATHER = Partition("weather", "AA")


def test_the_partitions_of_a_topic():
    heads = TopicHeads({FLIGHTS: 1, WEATHER: 2})
    heads[MORE_FLIGHTS] = 0
    heads[FLIGHTS] = 5
    assert heads == {FLIGHTS: 5, WEATHER: 2, MORE_FLIGHTS: 0}
    assert heads.of(["flights"]) == [FLIGHTS, MORE_FLIGHTS]
    assert heads.of(["flight", "weather"]) == [WEATHER]


def test_each_once_however_often_it_is_named():
    heads = TopicHeads({FLIGHTS: 1, WEATHER: 2})
    assert heads.of(["weather", "flights", "weather"]) == [WEATHER, FLIGHTS]
    assert heads.of(["weather", ""]) == [FLIGHTS, WEATHER]


def test_a_store_that_is_asked_for_one_topic_looks_at_no_other(monkeypatch):
    def walked(_):
        raise AssertionError("looked through all partitions")

    machine = StoreMachine("ME", {FLIGHTS: 1, WEATHER: 2})
    monkeypatch.setattr(TopicHeads, "__iter__", walked)
    effects = machine.handle(Received(messages.GetHeads("weather", "YOU")), 0)
    assert effects == [Publish(messages.DirectHead("YOU", "weather", "AA", 2, "ME"))]


P, Q = Partition("flights", "AA"), Partition("weather", "AA")


@pytest.fixture
def schedule():
    return HeadSchedule(1_000, 8_000)


def times_due(schedule, until_ms):
    times = []
    while (now_ms := schedule.wakeup_ms()) is not None and now_ms <= until_ms:
        times += [(now_ms, partition) for partition in schedule.due(now_ms)]
    return times


def test_nothing_is_due_before_the_first_record(schedule):
    assert schedule.wakeup_ms() is None
    assert schedule.due(1_000_000) == []


def test_the_interval_doubles_while_a_partition_stands_still(schedule):
    schedule.moved(P, 500)
    times = [time for time, _ in times_due(schedule, 35_000)]
    assert times == [1_500, 3_500, 7_500, 15_500, 23_500, 31_500]
    assert schedule.rests(P)


def test_where_all_is_stored_the_interval_is_the_longest_at_once(schedule):
    schedule.moved(P, 0)
    schedule.stored(P, 10)
    assert times_due(schedule, 16_010) == [(8_010, P), (16_010, P)]
    schedule.moved(P, 20_000)
    assert schedule.wakeup_ms() == 21_000
    schedule.stored(Q, 20_000)
    assert Q not in schedule, "nothing of it was published"


def test_who_listens_for_a_topic_by_its_name_needs_heads_of_what_is_stored(schedule):
    schedule.listened("")
    assert not schedule.needed(P)
    schedule.listened(P.topic)
    assert schedule.needed(P)
    schedule.moved(P, 0)
    schedule.stored(P, 10)
    assert times_due(schedule, 7_000) == [(1_000, P), (3_000, P), (7_000, P)]
    assert not schedule.needed(Q)


def test_stored_again_changes_nothing(schedule):
    schedule.moved(P, 0)
    schedule.stored(P, 10)
    schedule.stored(P, 500)
    assert schedule.wakeup_ms() == 8_010


def test_an_even_interval_stays_even():
    schedule = HeadSchedule(1_000, 1_000)
    schedule.moved(P, 0)
    schedule.stored(P, 10)
    assert times_due(schedule, 2_000) == [(1_000, P), (2_000, P)]


def test_a_record_starts_it_anew(schedule):
    schedule.moved(P, 0)
    times_due(schedule, 20_000)
    schedule.moved(P, 20_000)
    assert not schedule.rests(P)
    assert times_due(schedule, 23_000) == [(21_000, P), (23_000, P)]


def test_a_partition_that_keeps_moving_needs_none(schedule):
    for now_ms in range(0, 10_000, 500):
        schedule.moved(P, now_ms)
        assert schedule.due(now_ms) == []


def test_what_is_due_soon_goes_with_what_is_due():
    schedule = HeadSchedule(1_000, 8_000)
    schedule.moved(P, 0)
    schedule.moved(Q, TOGETHER_MS)
    assert schedule.due(999) == []
    assert schedule.due(1_000) == [P, Q]
    schedule.moved(P, 2_000)
    schedule.moved(Q, 2_001 + TOGETHER_MS)
    assert schedule.due(3_000) == [P]


def test_what_is_forgotten_is_not_due_until_it_moves(schedule):
    schedule.moved(P, 0)
    schedule.moved(Q, 0)
    schedule.forget(P)
    schedule.forget(P)
    assert list(schedule) == [Q]
    assert P not in schedule
    assert schedule.due(1_000) == [Q]
    schedule.moved(P, 2_000)
    assert P in schedule


@given(st.lists(st.tuples(st.integers(0, 5), st.integers(0, 3_000)), max_size=60))
def test_none_is_ever_due_later_than_its_interval_says(moves):
    schedule, now_ms, said = HeadSchedule(1_000, 4_000), 0, {}
    for number, pause_ms in moves:
        now_ms += pause_ms
        for partition in schedule.due(now_ms):
            said[partition] = now_ms
        partition = Partition("t", str(number))
        schedule.moved(partition, now_ms)
        said[partition] = now_ms
        assert all(now_ms - time < 4_000 + 3_000 for time in said.values())
        assert set(schedule) == set(said)
        due_ms = schedule.wakeup_ms()
        assert due_ms is not None
        assert due_ms > now_ms
