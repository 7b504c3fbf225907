from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from distributor.dashboard.counters import SPAN_S, Counters


def read(*readings):
    counters = Counters()
    for now_s, values in readings:
        counters.read(values, now_s)
    return counters


def test_a_rate_is_what_came_by_the_time_it_took():
    counters = read((1.0, {"a": 10.0}))
    assert counters.rates == {}
    counters.read({"a": 30.0, "b": 5.0}, 3.0)
    assert counters.rates == {"a": 10.0}
    counters.read({"b": 5.0}, 4.0)
    assert counters.rates == {"b": 0.0}


def test_a_counter_begun_anew_counts_from_zero():
    counters = read((0.5, {"a": 100.0}), (2.5, {"a": 4.0}))
    assert (counters.rates, counters.recent) == ({"a": 2.0}, {"a": 4.0})


def test_no_time_makes_no_rate():
    assert read((1.0, {"a": 1.0}), (1.0, {"a": 2.0})).rates == {}


def test_recent_is_what_has_come_in_the_last_minute():
    counters = read((100.0, {"a": 7.0}), (101.0, {"a": 1_007.0}))
    assert counters.recent == {"a": 1_000.0}
    for second in range(1, int(SPAN_S)):
        counters.read({"a": 1_007.0 + second}, 101.0 + second)
    assert counters.recent == {"a": 1_000.0 + SPAN_S - 1}, "all of it is of this minute"
    counters.read({"a": 1_007.0 + SPAN_S}, 101.0 + SPAN_S)
    assert counters.recent == {"a": SPAN_S}, "the burst is over a minute old"


def test_what_came_while_nobody_looked_is_neither_a_rate_nor_recent():
    counters = read((1.0, {"a": 0.0}), (2.0, {"a": 5.0}), (3.0 + SPAN_S, {"a": 9_000.0}))
    assert (counters.rates, counters.recent) == ({}, {})
    counters.read({"a": 9_001.0}, 5.0 + SPAN_S)
    assert (counters.rates, counters.recent) == ({"a": 0.5}, {"a": 1.0})


@given(st.lists(st.tuples(st.floats(0.001, 90), st.floats(0, 1e12)), min_size=2, max_size=10))
def test_nothing_is_ever_negative(readings):
    counters, now_s = Counters(), 0.0
    for wait_s, value in readings:
        now_s += wait_s
        counters.read({"a": value}, now_s)
        told = [*counters.rates.values(), *counters.recent.values()]
        assert all(number >= 0 for number in told)
