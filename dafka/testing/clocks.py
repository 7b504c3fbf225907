"""The clocks of simulated machines: none agrees with another, and some are wrong."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dafka.process.clock import Clock

if TYPE_CHECKING:
    from collections.abc import Callable

EPOCH_MS = 1_700_000_000_000
"""The true wall time at which every run begins."""

BOOTED_MS_MAX = 1 << 40
"""How long ago a machine was booted at most: two monotonic clocks have nothing to do with each
other."""


class SimClock:
    """The clocks of one machine, by the time of its world.

    Args:
        world_ms: The time of its world.
        booted_ms: What its monotonic clock shows when the world begins.
        ahead_ms: By how much its wall clock is ahead of the true time.
    """

    def __init__(self, world_ms: Callable[[], int], booted_ms: int = 0, ahead_ms: int = 0) -> None:
        self.ahead_ms = ahead_ms
        """By how much its wall clock is ahead of the true time; whoever sets it lets it jump."""
        self._booted_ms = booted_ms
        self._stood_ms = 0
        self.clock = Clock(
            now_ms=lambda: world_ms() + booted_ms,
            wall_ms=lambda: EPOCH_MS + world_ms() + self.ahead_ms,
            seconds=lambda: (world_ms() + booted_ms - self._stood_ms) / 1_000,
            sleep=lambda _seconds: None,
        )
        """As the nodes on it know it."""

    def world_ms(self, now_ms: int) -> int:
        """When its world is as far as its monotonic clock is at `now_ms`."""
        return now_ms - self._booted_ms

    def suspended(self, milliseconds: int) -> None:
        """It was suspended for so long: what does not count that stood still."""
        self._stood_ms += milliseconds
