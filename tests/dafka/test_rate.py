from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dafka.rate import BURST_MS, Rate


def test_without_a_bound_nothing_waits():
    rate = Rate()
    rate.sent(1 << 40, 1 << 30, 5)
    assert rate.due_ms <= 5


@pytest.mark.parametrize(
    ("rate", "size", "records", "due_ms"),
    [
        (Rate(bytes_per_s=1_000), 2_000, 1, 2_000),
        (Rate(records_per_s=10), 1, 5, 500),
        (Rate(bytes_per_s=1_000, records_per_s=10), 1_000, 50, 5_000),
    ],
    ids=["bytes", "records", "the scarcer of both"],
)
def test_what_was_sent_must_be_paid_for(rate, size, records, due_ms):
    rate.sent(size, records, 0)
    assert rate.due_ms == due_ms - BURST_MS


def test_what_was_not_used_is_not_saved_up():
    rate = Rate(bytes_per_s=1_000)
    rate.sent(1_000, 1, 100_000)
    assert rate.due_ms == 101_000 - BURST_MS


@given(
    st.lists(st.tuples(st.integers(1, 5_000), st.integers(0, 300)), min_size=1),
    st.integers(100, 10_000),
)
def test_whoever_waits_until_it_is_due_never_sends_more_than_the_rate_and_a_burst(story, bound):
    rate, now_ms, total = Rate(bytes_per_s=bound), 0, 0
    for size, pause_ms in story:
        now_ms = max(now_ms + pause_ms, rate.due_ms)
        assert total <= bound * (now_ms + BURST_MS + 1) / 1_000
        rate.sent(size, 1, now_ms)
        total += size
