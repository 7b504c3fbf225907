"""What time it is, by more clocks than this machine's.

Records bring the times of the clocks by which they were published, here and on other clusters, and
a monotonic clock says how long ago that was. One machine whose clock is wrong then neither drops
records that others keep nor stays unnoticed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from dafka.records.batch import has_append_time, newest_ms
from dafka.records.envelope import unpack

if TYPE_CHECKING:
    from collections.abc import Iterable

    from dafka.model import Batch

APART_MS_MAX = 24 * 3_600 * 1_000
"""Records are kept for at most so much longer because others' clocks are behind, or not heard."""

ALONE = 0
"""The number of a cluster that knows of no others."""


class SeenClocks:
    """The clocks of the clusters that records have come from.

    A record shows at least how late it was where it was published, so of each cluster the latest
    counts. Its delay makes a clock seem behind, never ahead.

    Args:
        number: This cluster's among those whose records come here; `ALONE` where there are none.
    """

    def __init__(self, number: int = ALONE) -> None:
        self._number = number
        self._ahead_ms: dict[int, int] = {}
        """By number of the cluster of origin, 0 for this one: its time less the monotonic one's."""

    def seen(self, batches: Iterable[Batch], now_ms: int) -> None:
        """Batches were taken in."""
        for batch in batches:
            envelope, newest = unpack(batch.content), newest_ms(batch.content)
            if envelope is not None and newest is not None:
                # What has lost its disk gets this cluster's records back with its number.
                origin = 0 if envelope.origin == self._number else envelope.origin
                if not origin and has_append_time(batch.content):
                    continue  # a bare value has the time of who took it in: this very machine
                ahead_ms = newest - now_ms
                if ahead_ms > self._ahead_ms.get(origin, ahead_ms - 1):
                    self._ahead_ms[origin] = ahead_ms

    def time_ms(self, wall_ms: int, now_ms: int) -> int:
        """Return the wall time by which records are old: never later than this machine's.

        It is the one in the middle, the earlier of two, of this cluster's clock and the others'.
        Where there are others and none was heard yet, nobody knows whether this one is ahead.

        Args:
            wall_ms: This machine's time.
            now_ms: Of the monotonic clock.
        """
        here = min(wall_ms, now_ms + self._ahead_ms.get(0, wall_ms - now_ms))
        others = self._others(now_ms)
        if self._number != ALONE and not others:
            return wall_ms - APART_MS_MAX
        clocks = sorted([here, *others])
        middle = clocks[(len(clocks) - 1) // 2]
        return max(min(middle, wall_ms), wall_ms - APART_MS_MAX)

    def skew_ms(self, wall_ms: int, now_ms: int) -> int:
        """Return how far this machine's clock is ahead of the others' middle; 0 without others."""
        others = sorted(self._others(now_ms))
        return wall_ms - others[(len(others) - 1) // 2] if others else 0

    def _others(self, now_ms: int) -> list[int]:
        return [now_ms + ahead_ms for origin, ahead_ms in self._ahead_ms.items() if origin]
