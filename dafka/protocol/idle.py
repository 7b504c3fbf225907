"""Where partitions go on that have stood still: all that a consumer still knows of them.

Any number of producers come, publish a little and are gone. Stores forget what retention has taken
of them, but not all at once, and one that was down lists it again. So the position is kept, a third
of what there is to know of a partition that moves.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from dafka.limits import IDLE_AT_ONCE_MAX, IDLE_MAX

if TYPE_CHECKING:
    from collections.abc import Iterable

    from dafka.model import Partition

IDLE_AFTER_MS = 600_000
"""For so long at least nothing of a partition comes before it is idle."""


class IdlePartitions:
    """The partitions of one consumer that have stood still.

    Args:
        after_ms: For how long at least, twice that at most, until they count as idle.
        idle_max: Of how many it is known where they go on; of more, those are forgotten that nobody
            has named for longest. Stores name all that they list, at least every 20 s.
    """

    def __init__(self, after_ms: int = IDLE_AFTER_MS, idle_max: int = IDLE_MAX) -> None:
        self._after_ms = after_ms
        self._idle_max = idle_max
        self._positions: dict[Partition, int] = {}
        """In the order in which they were named last."""
        self._moved: set[Partition] = set()
        """What has moved since all were looked at."""
        self._still: list[Partition] = []
        """What had not moved then, and was not told since."""
        self._look_ms: int | None = None
        """When to look at all again."""

    def __len__(self) -> int:
        return len(self._positions)

    def __contains__(self, partition: object) -> bool:
        return partition in self._positions

    def moved(self, partition: Partition) -> None:
        """Something of it has come."""
        self._moved.add(partition)

    def due(self, tracked: Iterable[Partition], now_ms: int) -> list[Partition]:
        """Return some of these that have stood still; a bounded number, the rest is due at once."""
        if self._look_ms is None or now_ms >= self._look_ms:
            began = self._look_ms is None
            self._look_ms = now_ms + self._after_ms
            self._still = [] if began else [one for one in tracked if one not in self._moved]
            self._moved = set()
        some = self._still[-IDLE_AT_ONCE_MAX:]
        del self._still[-IDLE_AT_ONCE_MAX:]
        return [partition for partition in some if partition not in self._moved]

    def wakeup_ms(self) -> int | None:
        """When `due` has something to say."""
        if self._still and self._look_ms is not None:
            return self._look_ms - self._after_ms
        return self._look_ms

    def rest(self, partition: Partition, position: int) -> None:
        """It is idle, and goes on there."""
        if len(self._positions) >= self._idle_max:
            del self._positions[next(iter(self._positions))]
        self._positions[partition] = position

    def stays(self, partition: Partition, end: int) -> bool:
        """Somebody names a partition, and that it ends there; whether it is idle and stays so."""
        position = self._positions.get(partition)
        if position is None or end > position:
            return False
        self._positions[partition] = self._positions.pop(partition)
        return True

    def leave(self, partition: Partition) -> int | None:
        """It is not idle from now on; returns where it goes on, None if it was not."""
        return self._positions.pop(partition, None)
