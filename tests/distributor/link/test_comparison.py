"""Comparing both ends: losses and standstills, and nothing else."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dafka.model import Partition
from distributor.link.comparison import Comparison, SurveyResult

P = Partition("flights", "AA")
NOTHING = SurveyResult({}, {})


def survey(comparison, source, target, now_ms=0, begin=0):
    comparison.begin()
    heads = {} if target < 0 else {P: target}
    return comparison.take({P: source}, heads, now_ms, {P: begin})


def test_a_head_that_falls_is_a_loss_told_once():
    comparison = Comparison(None)
    assert survey(comparison, 9, 5) == NOTHING
    assert survey(comparison, 9, 2) == SurveyResult({P: 3}, {})
    assert survey(comparison, 9, 2) == NOTHING
    assert survey(comparison, 9, -1) == SurveyResult({P: 0}, {})


def test_what_was_acknowledged_counts_as_there():
    comparison = Comparison(None)
    comparison.stored(P, 4)
    assert survey(comparison, 9, 1) == SurveyResult({P: 2}, {})


def test_an_answer_older_than_an_acknowledgement_is_no_loss():
    comparison = Comparison(None)
    comparison.begin()
    comparison.stored(P, 4)
    assert comparison.take({P: 9}, {}, 0, {}) == NOTHING


def test_a_standstill_is_told_after_the_time_and_again_after_as_long():
    comparison = Comparison(1_000)
    told = [now for now in range(0, 3_001, 250) if survey(comparison, 9, 3, now).stalled]
    assert told == [1_000, 2_000, 3_000]


def test_what_retention_has_taken_before_it_came_is_not_waited_for():
    comparison = Comparison(1_000)
    for now_ms in (0, 1_000, 2_000):
        assert survey(comparison, 9, -1, now_ms, begin=10) == NOTHING
        assert comparison.standstill(now_ms) == (0, 0)
    # One record that is kept, or a target that has had some, is another matter.
    assert survey(comparison, 9, -1, 3_000, begin=9) == NOTHING
    assert comparison.standstill(3_500) == (1, 500)
    assert survey(comparison, 9, 3, 4_000, begin=10) == NOTHING
    assert survey(comparison, 9, 3, 5_000, begin=10).stalled == {P: 4}


def test_the_clock_begins_anew_with_every_move():
    comparison = Comparison(1_000)
    for step in range(9):
        assert survey(comparison, 9, step, step * 900) == NOTHING


def test_a_source_that_does_not_answer_changes_nothing():
    comparison = Comparison(1_000)
    survey(comparison, 9, 3, 0)
    assert comparison.take({}, {P: 3}, 900, {}) == NOTHING
    assert survey(comparison, 9, 3, 1_000).stalled == {P: 4}


def test_what_neither_end_lists_any_more_is_not_lost():
    comparison = Comparison(1_000)
    survey(comparison, 9, 9, 0)
    other = Partition("orders", "other")
    comparison.begin()
    assert comparison.take({other: 1}, {other: 1}, 900, {}) == NOTHING
    assert comparison.end(P) == 0


@given(st.lists(st.integers(0, 20), min_size=1), st.integers(1, 5))
def test_a_target_that_only_rises_and_keeps_up_is_never_suspected(heads, steps):
    comparison = Comparison(steps)
    for now_ms, head in enumerate(sorted(heads)):
        assert survey(comparison, head, head, now_ms) == NOTHING


@pytest.mark.parametrize("repair_after_ms", [None, 10])
def test_nothing_is_stalled_where_the_target_has_more(repair_after_ms):
    comparison = Comparison(repair_after_ms)
    for now_ms in range(0, 100, 10):
        assert survey(comparison, 3, 9, now_ms) == NOTHING
