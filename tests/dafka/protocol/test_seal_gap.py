"""How the gap between batches follows the load."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from dafka.model import Partition
from dafka.protocol.seal_gap import GAP_S_MAX, GAP_S_MIN, SHARE, SealGap

P, Q = Partition("orders", "AA"), Partition("flights", "AA")


def acknowledged(gap, took_s, times=1):
    for number in range(times):
        gap.published(P, number, number)
        gap.stored(P, number, number + took_s)
    return gap.seconds


def test_without_stores_it_is_the_least():
    gap = SealGap()
    for number in range(100):
        gap.published(P, number, number / 100)
    assert gap.seconds == GAP_S_MIN


def test_it_comes_to_a_share_of_what_stores_take_and_back():
    gap = SealGap()
    assert GAP_S_MIN < acknowledged(gap, 0.003) < acknowledged(gap, 0.003)
    assert abs(acknowledged(gap, 0.003, 100) - SHARE * 0.003) < 1e-6
    assert abs(acknowledged(gap, 0.0001, 100) - GAP_S_MIN) < 1e-6


@given(st.lists(st.floats(0, 10)))
def test_it_stays_within_its_bounds(taken_s):
    gap = SealGap()
    for took_s in taken_s:
        assert GAP_S_MIN <= acknowledged(gap, took_s) <= GAP_S_MAX


def test_only_the_batch_that_is_timed_counts():
    gap = SealGap()
    gap.published(P, 10, 0.0)
    gap.published(P, 20, 0.5)
    gap.stored(Q, 10, 0.5)
    gap.stored(P, 9, 0.5)
    assert gap.seconds == GAP_S_MIN
    gap.stored(P, 20, 0.5)
    once = gap.seconds
    assert once > GAP_S_MIN
    gap.stored(P, 30, 0.9)
    assert gap.seconds == once


def test_a_batch_that_is_never_stored_does_not_end_the_timing():
    gap = SealGap()
    gap.published(P, 10, 0.0)
    gap.published(Q, 5, 2.0)
    gap.stored(Q, 5, 3.1)
    assert gap.seconds == GAP_S_MIN  # too late to tell anything of the load
    gap.published(Q, 9, 4.0)
    gap.stored(Q, 9, 4.1)
    assert gap.seconds > GAP_S_MIN
