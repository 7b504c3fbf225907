from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dafka.limits import REORDER_BYTES_MAX
from dafka.protocol.live_edge import AWAY_MS, CHECK_MS, LEAVING_BYTES, LiveEdge

FEW = REORDER_BYTES_MAX // 4
ROOM = 2 * REORDER_BYTES_MAX


def missing(size):
    """Asked whether more is missing than some bound."""
    return lambda bound: size > bound


@pytest.fixture
def away():
    """One that has left at 0."""
    edge = LiveEdge(ROOM)
    assert edge.overrun(LEAVING_BYTES, 1, 0)
    return edge


def test_it_listens_until_something_has_to_be_dropped(away):
    assert not LiveEdge(ROOM).away
    assert away.away
    assert not away.overrun(LEAVING_BYTES, 1, 1), "it has left already"


def test_it_leaves_when_what_is_dropped_costs_more_than_leaving():
    edge = LiveEdge(ROOM)
    assert not edge.overrun(LEAVING_BYTES, 10, 0)
    assert not edge.overrun(9 * LEAVING_BYTES - 1, 10, 0)
    assert edge.overrun(1, 10, 0)
    assert edge.reached(missing(0), 0, AWAY_MS)
    assert not edge.overrun(LEAVING_BYTES, 10, AWAY_MS), "it counts anew"


def test_it_stays_away_for_a_while_and_then_looks_often(away):
    assert not away.is_due(AWAY_MS - 1)
    assert away.is_due(AWAY_MS)
    assert not away.reached(missing(FEW + 1), 0, AWAY_MS)
    assert away.due_ms == AWAY_MS + CHECK_MS


def test_it_comes_back_with_little_missing_and_room_for_it(away):
    assert not away.reached(missing(FEW + 1), 0, AWAY_MS)
    assert not away.reached(missing(FEW), ROOM // 2 + 1, AWAY_MS)
    assert away.reached(missing(FEW), ROOM // 2, AWAY_MS)
    assert not away.away
    assert away.overrun(LEAVING_BYTES, 1, AWAY_MS + 1), "it may leave again"


@given(st.lists(st.tuples(st.integers(0, 5_000), st.integers(0, 2 * FEW)), max_size=50))
def test_it_never_changes_twice_within_the_least_time_away(steps):
    edge = LiveEdge(ROOM)
    now_ms, left_ms = 0, None
    for passed_ms, size in steps:
        now_ms += passed_ms
        if edge.overrun(LEAVING_BYTES, 1, now_ms):
            left_ms = now_ms
        if edge.is_due(now_ms) and edge.reached(missing(size), 0, now_ms):
            assert now_ms - left_ms >= AWAY_MS
            assert size <= FEW
        assert edge.away == (edge.due_ms is not None)
