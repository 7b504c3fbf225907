"""How the gap between batches follows the load."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dafka.errors import MisuseError
from dafka.limits import RECORD_BYTES_MAX
from dafka.model import Partition
from dafka.node import batching
from dafka.node.batching import (
    EVEN_S,
    GAP_S_MAX,
    GAP_S_MIN,
    TIMED_EVERY,
    OpenBatch,
    OpenBatches,
    SealGap,
    check_size,
    check_time,
)
from dafka.process.clock import now_ms
from dafka.records.batch import Run
from dafka.records.compression import Codec

P, Q = Partition("orders", "AA"), Partition("flights", "AA")


def acknowledged(gap, took_s, times=1):
    for number in range(TIMED_EVERY * times):
        gap.published(P, number, number)
        gap.stored(P, number, number + took_s)
    return gap.seconds


def test_without_stores_it_is_the_least():
    gap = SealGap()
    for number in range(100):
        gap.published(P, number, number / 100)
    assert gap.seconds == GAP_S_MIN


def test_it_grows_with_the_square_of_what_stores_take_and_comes_back():
    gap = SealGap()
    assert acknowledged(gap, 0.0006) == pytest.approx(0.00036)
    assert 0.00036 < acknowledged(gap, 0.001) < acknowledged(gap, 0.001) < EVEN_S
    assert acknowledged(gap, 0.001, 100) == pytest.approx(EVEN_S)
    assert acknowledged(gap, 0.5, 100) == GAP_S_MAX
    assert acknowledged(gap, 0.0001, 100) == GAP_S_MIN


def test_one_that_takes_long_tells_no_more_than_that_it_is_long():
    gap = SealGap()
    acknowledged(gap, 0.0006, 100)
    assert acknowledged(gap, 0.9) < 0.001


def test_one_of_many_is_timed_and_nothing_is_to_be_sealed_until_it_is_stored():
    gap = SealGap()
    gap.published(P, 0, 10.0)
    assert gap.left_s(10.0) == pytest.approx(GAP_S_MAX)
    assert gap.left_s(10.0 + GAP_S_MAX) == 0.0, "it takes long: that is known now"
    gap.stored(P, 0, 10.001)
    for number in range(1, TIMED_EVERY):
        gap.published(P, number, 11.0)
        assert gap.left_s(11.0) == 0.0
    gap.published(P, TIMED_EVERY, 11.0)
    assert gap.left_s(11.0) == pytest.approx(GAP_S_MAX)


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
    assert acknowledged(gap, 0.1) > GAP_S_MIN


def test_a_new_one_is_empty_and_knows_its_age():
    before = now_ms()
    batch = OpenBatch(1_000, Run(1, 0), Codec.NONE)
    assert batch.builder.count == 0
    assert before <= batch.opened_ms <= now_ms()


def test_they_are_known_in_the_order_they_were_opened_in(monkeypatch):
    batches = OpenBatches()
    assert batches.oldest_ms() is None
    for opened_ms, topic in ((1, "b"), (5, "a"), (5, "c"), (9, "d")):
        monkeypatch.setattr(batching, "now_ms", lambda now=opened_ms: now)
        batches[topic] = OpenBatch(1_000, Run(1, 0), Codec.NONE)
    assert batches.oldest_ms() == 1
    assert batches.older(5) == ["b", "a", "c"]
    del batches["b"]
    assert batches.oldest_ms() == 5
    assert batches.older(4) == []


def test_a_record_may_have_so_many_bytes_and_no_more():
    half = bytes(RECORD_BYTES_MAX // 2)
    check_size("orders", half, half, [("", None)])
    with pytest.raises(MisuseError, match=f"at most {RECORD_BYTES_MAX}"):
        check_size("orders", half, half, [("x", b"y")])


def test_a_record_is_of_1970_or_later():
    check_time("orders", 0)
    with pytest.raises(MisuseError, match="0 or more since 1970, got -1"):
        check_time("orders", -1)


@pytest.mark.parametrize("headers", [5, [5], [("name",)], [("name", 5)]])
def test_what_has_no_size_is_refused(headers):
    with pytest.raises(MisuseError, match="'orders' cannot be sent"):
        check_size("orders", None, b"", headers)


def test_a_bare_batch_takes_values_and_nothing_else():
    builder = OpenBatch(1_000, Run(1, 0), Codec.NONE, bare=True).builder
    assert builder.append(1, None, b"value", ())
    assert builder.extend(1, [b"one", b""], 0) == 2
    for key, value, headers in ((b"key", b"", ()), (None, b"", [("a", b"")]), (None, None, ())):
        with pytest.raises(ValueError, match="raw content"):
            builder.append(1, key, value, headers)
    with pytest.raises(ValueError, match="raw content"):
        builder.extend(1, [b"one", None], 0)
    assert builder.count == 3
