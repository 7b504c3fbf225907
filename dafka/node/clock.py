"""The two clocks. Timers use the monotonic one, record timestamps the wall; they never mix."""

from __future__ import annotations

import time


def now_ms() -> int:
    """Milliseconds of the monotonic clock."""
    return time.monotonic_ns() // 1_000_000


def wall_ms() -> int:
    """Milliseconds since 1970."""
    return time.time_ns() // 1_000_000
