"""The two clocks. Timers use the monotonic one, record timestamps the wall; they never mix."""

from __future__ import annotations

import time


def now_ms() -> int:
    """Milliseconds of the monotonic clock."""
    return time.monotonic_ns() // 1_000_000


def wall_ms() -> int:
    """Milliseconds since 1970."""
    return time.time_ns() // 1_000_000


wall_ns = time.time_ns
"""Nanoseconds since 1970. The function itself: once a record, a call in between is felt."""


class Pace:
    """Keeps what is repeated apart."""

    def __init__(self) -> None:
        self._last_s = time.monotonic()

    def wait(self, gap_s: float) -> int:
        """Return at once if the last time is `gap_s` ago, else when it is.

        Returns:
            How many whole milliseconds that took.
        """
        began_s = time.monotonic()
        left_s = self._last_s + gap_s - began_s
        if left_s > 0:
            time.sleep(left_s)
        self._last_s = time.monotonic()
        return int((self._last_s - began_s) * 1_000)
