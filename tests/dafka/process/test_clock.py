from __future__ import annotations

import time

from dafka.process.clock import Pace, now_ms, wall_ms


def test_the_monotonic_clock_never_goes_back():
    times = [now_ms() for _ in range(1_000)]
    assert times == sorted(times)
    assert abs(now_ms() - time.monotonic_ns() // 1_000_000) < 1_000


def test_the_wall_clock_counts_from_1970():
    assert abs(wall_ms() - time.time_ns() // 1_000_000) < 1_000


def test_both_count_whole_milliseconds():
    assert isinstance(now_ms(), int)
    assert isinstance(wall_ms(), int)


def test_a_pace_keeps_repetitions_apart():
    pace = Pace()
    began = time.monotonic()
    for _ in range(3):
        assert 0 <= pace.wait(0.02) < 1_000
    assert time.monotonic() - began >= 0.04
