"""Both ends' heads, one survey after the other: what the target has lost, what nobody brings it.

Flags decide what is pushed, so in health a target's heads only rise, and what the source has more
soon arrives, by this link or by another. Two things are neither:

* a head that falls: the target has lost records (a new disk), whoever had brought them;
* a head that stands still although the source has more: the one whose duty it was is gone.

A target that is far behind but moves is being served; the clock begins anew with every move.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

    from dafka.model import Partition


@dataclass(frozen=True, slots=True)
class SurveyResult:
    """What a survey brought to light, each with the end the target has.

    Attributes:
        lost: Partitions of which the target has less than it had.
        stalled: Partitions of which it has lacked something, without moving, for too long.
    """

    lost: dict[Partition, int]
    stalled: dict[Partition, int]


class Comparison:
    """What is known of both ends.

    Args:
        repair_after_ms: How long a target may stand still behind its source; None for ever.
    """

    def __init__(self, repair_after_ms: int | None) -> None:
        self._repair_after_ms = repair_after_ms
        self._ends: dict[Partition, int] = {}
        """What the target was last known to have."""
        self._asked: dict[Partition, int] = {}
        """The same when the survey under way was begun; its answer may be as old as that."""
        self._behind: dict[Partition, tuple[int, int]] = {}
        """Where the target has stood, and since when, of what the source has more."""
        self._told_ms: dict[Partition, int] = {}
        """When a standstill was last told."""

    def standstill(self, now_ms: int) -> tuple[int, int]:
        """How many partitions the target has fallen behind with, and for how long one stands (ms).

        From both ends' heads, whatever any link believes of itself.
        """
        since = [since_ms for _, since_ms in self._behind.values()]
        return len(since), now_ms - min(since, default=now_ms)

    def end(self, partition: Partition) -> int:
        """The sequence after the last one the target is known to have."""
        return self._ends.get(partition, 0)

    def begin(self) -> None:
        """A survey is begun."""
        self._asked = dict(self._ends)

    def stored(self, partition: Partition, end: int) -> None:
        """The target has acknowledged everything below `end`."""
        if end > self._ends.get(partition, 0):
            self._ends[partition] = end

    def take(
        self,
        source: Mapping[Partition, int],
        target: Mapping[Partition, int],
        now_ms: int,
        begins: Mapping[Partition, int],
    ) -> SurveyResult:
        """Compare the heads that a survey brought.

        Args:
            source: Those of the source.
            target: Those of the target.
            now_ms: The time.
            begins: Log starts of the source, where they are above 0.
        """
        # Of what the source does not list it has no more, and nobody needs to say where it ended.
        lost = {
            partition: end
            for partition, before in self._asked.items()
            if (end := target.get(partition, -1) + 1) < before
            and (partition in source or not source)
        }
        if source:
            there = source.keys() | target.keys()
            self._ends = {one: end for one, end in self._ends.items() if one in there}
        for partition, head in target.items():
            self.stored(partition, head + 1)
        self._ends.update(lost)
        return SurveyResult(lost, self._stalled(source, target, now_ms, begins))

    def _stalled(
        self,
        source: Mapping[Partition, int],
        target: Mapping[Partition, int],
        now_ms: int,
        begins: Mapping[Partition, int],
    ) -> dict[Partition, int]:
        if not source:
            return {}
        behind: dict[Partition, tuple[int, int]] = {}
        stalled = {}
        for partition, head in source.items():
            end = target.get(partition, -1) + 1
            if end > head or (not end and begins.get(partition, 0) > head):
                continue  # all is there, or nothing was and the source keeps nothing any more
            stood, since_ms = self._behind.get(partition, (end, now_ms))
            if stood != end:
                since_ms = now_ms
            behind[partition] = (end, since_ms)
            if self._repair_after_ms is None or now_ms - since_ms < self._repair_after_ms:
                continue
            if now_ms - self._told_ms.get(partition, since_ms) >= self._repair_after_ms:
                stalled[partition] = end
        told = {partition: at for partition, at in self._told_ms.items() if partition in behind}
        self._told_ms = {**told, **dict.fromkeys(stalled, now_ms)}
        self._behind = behind
        return stalled
