"""The two clocks. Timers use the monotonic one, record timestamps the wall; they never mix."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable


_BOOT_CLOCK = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)
"""It goes on while the machine is suspended, as the leases that others have given do."""


def now_ms() -> int:
    """Milliseconds of the monotonic clock, those included that the machine was suspended."""
    return time.clock_gettime_ns(_BOOT_CLOCK) // 1_000_000


def wall_ms() -> int:
    """Milliseconds since 1970."""
    return time.time_ns() // 1_000_000


wall_ns = time.time_ns
"""Nanoseconds since 1970. The function itself: once a record, a call in between is felt."""


@dataclass(frozen=True, slots=True)
class Clock:
    """What a node knows time by; in the simulator it is another one.

    Attributes:
        now_ms: Monotonic, for timers.
        wall_ms: Since 1970, for what is written down.
        seconds: Monotonic, for what is shorter than a millisecond.
        sleep: Waits for so many seconds.
    """

    now_ms: Callable[[], int] = now_ms
    wall_ms: Callable[[], int] = wall_ms
    seconds: Callable[[], float] = time.monotonic
    sleep: Callable[[float], None] = time.sleep


CLOCK = Clock()
"""This machine's."""


class Pace:
    """Keeps what is repeated apart."""

    def __init__(self, clock: Clock = CLOCK) -> None:
        self._clock = clock
        self._last_s = clock.seconds()

    def wait(self, gap_s: float) -> int:
        """Return at once if the last time is `gap_s` ago, else when it is.

        Returns:
            How many whole milliseconds that took.
        """
        began_s = self._clock.seconds()
        left_s = self._last_s + gap_s - began_s
        if left_s > 0:
            self._clock.sleep(left_s)
        self._last_s = self._clock.seconds()
        return int((self._last_s - began_s) * 1_000)
