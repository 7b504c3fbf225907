"""Whether the clusters behind a target get what it takes: its own distributors relay it to them.

A target that takes all and relays nothing looks well from outside. So the other targets of a link
are looked at, too: one that answers and stands still, while the served one goes on, is starved.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping

    from dafka.model import Partition


class _Stood(NamedTuple):
    """How far a cluster had come, and the served one, and since when it stands there."""

    theirs: int
    served: int
    since_ms: int


class RelayWatch:
    """The other targets of one link.

    Args:
        targets: All of them.
        heads: What a cluster has of what the link carries; None if it does not answer.
    """

    def __init__(
        self, targets: tuple[str, ...], heads: Callable[[str], Mapping[Partition, int] | None]
    ) -> None:
        self._targets = targets
        self._heads = heads
        self._stood: dict[str, _Stood] = {}

    def look(self, served: str, well: Collection[str], now_ms: int) -> tuple[str, int]:
        """Return who has been starved for longest, and how long, in ms; 0 if nobody is.

        Args:
            served: The target that the link aims at.
            well: Those that give a sign of life: who does not is not starved but sick.
            now_ms: The time.
        """
        ours = self._heads(served) if served in well else None
        found = {
            name: self._heads(name)
            for name in self._targets
            if ours is not None and name != served and name in well
        }
        self._stood = {
            name: self._now(name, ours, theirs, now_ms)
            for name, theirs in found.items()
            if ours is not None and theirs is not None
        }
        waited = ((now_ms - stood.since_ms, name) for name, stood in self._stood.items())
        longest_ms, who = max(waited, default=(0, ""))
        return who, longest_ms

    def forget(self) -> None:
        """The link aims elsewhere: what was seen says nothing any more."""
        self._stood.clear()

    def _now(
        self,
        name: str,
        served: Mapping[Partition, int],
        theirs: Mapping[Partition, int],
        now_ms: int,
    ) -> _Stood:
        has = sum(theirs.get(partition, -1) + 1 for partition in served)
        due = sum(head + 1 for head in served.values())
        before = self._stood.get(name)
        if before is None or has != before.theirs or due <= before.served or has >= due:
            return _Stood(has, due, now_ms)
        return before
