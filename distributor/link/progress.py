"""How far a link is, by what both ends' stores say and by what it has done itself."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Mapping

    from dafka.model import Partition
    from distributor.link.events import HeadsRead


class LinkProgress(NamedTuple):
    """Of each partition, the sequence after the last one that is done.

    Attributes:
        taken: What the link has read and decided on, or need not.
        there: What is at the target, whoever wrote it, or is not for it.
        done: From where this link would go on; never ahead of what is taken.
    """

    taken: Mapping[Partition, int]
    there: Mapping[Partition, int]
    done: Mapping[Partition, int]


class TargetEnds:
    """What the target has of what the source keeps, as the last survey has found."""

    def __init__(self) -> None:
        self._ends: Mapping[Partition, int] = {}

    def surveyed(self, heads: HeadsRead) -> None:
        """Take in a survey; where the source did not answer, what it keeps is as before."""
        partitions = heads.source or self._ends
        self._ends = {one: heads.target.get(one, -1) + 1 for one in partitions}

    def progress(
        self, taken: Mapping[Partition, int], done: Mapping[Partition, int]
    ) -> LinkProgress:
        """How far a link is that has taken and done this; with others it begins at the target's."""
        there = {**self._ends, **done}
        for partition, end in self._ends.items():
            there[partition] = max(end, there[partition])
        return LinkProgress({**self._ends, **taken}, there, {**self._ends, **done})
