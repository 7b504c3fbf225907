"""Whether the clusters behind a target get what it takes: its own distributors relay it to them.

A target that takes all and relays nothing looks well from outside. So the other targets of a link
are looked at, too: one that answers and stands still, while the served one goes on, is starved. So
is one that goes on so slowly that it is at what the served one had long ago.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Mapping

    from dafka.model import Partition


LATE_PARTS = 4
"""To be late by so much is as good as to have stood still for this part of it."""

LOOKS_MAX = 64
"""So many looks back it is known how far the served one was."""


class _Stood(NamedTuple):
    """How far a cluster had come, and the served one, and since when it stands there.

    Or, while it moves, how late it is: how long ago the served one had come further. That counts
    only while it becomes later; who catches up does not.
    """

    theirs: int
    served: int
    since_ms: int
    late_ms: int = 0
    later: bool = False

    def starved_ms(self, now_ms: int) -> int:
        """For how long it has got nothing, or as good as nothing."""
        return max(now_ms - self.since_ms, self.late_ms // LATE_PARTS if self.later else 0)


class RelayWatch:
    """The other targets of one link."""

    def __init__(self) -> None:
        self._stood: dict[str, _Stood] = {}
        self._served: deque[tuple[int, int]] = deque(maxlen=LOOKS_MAX)
        """How far the served one had come, and when."""

    def look(
        self, served: str, heads: Mapping[str, Mapping[Partition, int]], now_ms: int
    ) -> tuple[str, int]:
        """Return who has been starved for longest, and how long, in ms; 0 if nobody is.

        Args:
            served: The target that the link aims at.
            heads: What each target has of what the link carries, as far as they answer: who does
                not is not starved but sick.
            now_ms: The time.
        """
        ours = heads.get(served)
        if ours is None:
            self._stood = {}
            return "", 0
        self._served.append((_end(ours), now_ms))
        self._stood = {
            name: self._now(name, ours, theirs, now_ms)
            for name, theirs in heads.items()
            if name != served
        }
        waited = ((stood.starved_ms(now_ms), name) for name, stood in self._stood.items())
        longest_ms, who = max(waited, default=(0, ""))
        return who, longest_ms

    def forget(self) -> None:
        """The link aims elsewhere: what was seen says nothing any more."""
        self._stood.clear()
        self._served.clear()

    def _now(
        self,
        name: str,
        served: Mapping[Partition, int],
        theirs: Mapping[Partition, int],
        now_ms: int,
    ) -> _Stood:
        has = sum(theirs.get(partition, -1) + 1 for partition in served)
        due = _end(served)
        late_ms = next((now_ms - at_ms for end, at_ms in self._served if end > has), 0)
        before = self._stood.get(name)
        if before is None:
            return _Stood(has, due, now_ms, late_ms)
        if has != before.theirs or due <= before.served or has >= due:
            later = due > before.served and late_ms > before.late_ms
            return _Stood(has, due, now_ms, late_ms, later)
        return before._replace(late_ms=late_ms)


def _end(heads: Mapping[Partition, int]) -> int:
    return sum(head + 1 for head in heads.values())
