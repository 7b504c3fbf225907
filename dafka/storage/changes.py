"""In which order partitions last changed, so that who has listed them all need not do so again.

Ten thousand partitions are a list that takes a store, and who reads it, some tens of milliseconds;
of these a few hundred have changed since the last one.
"""

from __future__ import annotations

from itertools import islice, takewhile
from typing import TYPE_CHECKING, NamedTuple

from dafka.limits import CHANGES_MAX

if TYPE_CHECKING:
    from collections.abc import Iterable

    from dafka.model import Partition


class Mark(NamedTuple):
    """A moment in the history of a log.

    Attributes:
        opening: Of the log's openings, the one that it belongs to; it means nothing in another.
        changes: How many there had been.
    """

    opening: str
    changes: int


class Changes:
    """Those of one log since it was opened.

    Args:
        opening: A name that no other opening of a log on disk has.
    """

    def __init__(self, opening: str) -> None:
        self._opening = opening
        self._count = 0
        self._last: dict[Partition, int] = {}
        """Of each partition the number of its last change, in this order."""

    @property
    def now(self) -> Mark:
        """The present moment."""
        return Mark(self._opening, self._count)

    def note(self, partitions: Iterable[Partition]) -> None:
        """These have changed."""
        for partition in partitions:
            self._count += 1
            self._last.pop(partition, None)
            self._last[partition] = self._count

    def since(self, mark: Mark) -> list[tuple[Partition, Mark]] | None:
        """Return what has changed since `mark`, and up to where that has then been seen.

        Returns:
            Those that changed longest ago first; None if the mark means nothing here, or that long
            ago that it is no less work to list all.
        """
        if mark.opening != self._opening or mark.changes > self._count:
            return None
        newest_first = takewhile(lambda item: item[1] > mark.changes, reversed(self._last.items()))
        found = [
            (partition, Mark(self._opening, count))
            for partition, count in islice(newest_first, CHANGES_MAX + 1)
        ]
        found.reverse()
        return found if len(found) <= CHANGES_MAX else None
