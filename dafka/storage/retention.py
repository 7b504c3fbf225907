"""What a log need not keep any more: by age and by bytes, a bounded number of batches at a time.

Whole batches go, from the beginning of their partitions. A batch is as old as the newest record up
to its end, so a wrong clock that ran ahead keeps records longer and never shorter. What time it is
now several clocks say (`dafka.storage.clocks`).
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from fnmatch import fnmatchcase
from heapq import heapify, heappop, heappush
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

    from dafka.model import Partition
    from dafka.storage.log import Extent, Outline, RecordLog

_OUTLINES = 64
"""Batches looked at in one read."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Retention:
    """How long the records of some topics are kept.

    Attributes:
        topics: Pattern of their names, as in a shell; a leading `_` is matched by a `_` only, so
            that no rule for everything drops what the cluster itself needs.
        age_ms: Batches whose newest record is older are dropped; None keeps them.
        bytes_max: Of each topic; beyond it the oldest batches are dropped. None keeps them.
    """

    topics: str
    age_ms: int | None = None
    bytes_max: int | None = None

    def covers(self, topic: str) -> bool:
        """Whether it is for a topic, if no rule before it is."""
        if topic.startswith("_") and not self.topics.startswith("_"):
            return False
        return fnmatchcase(topic, self.topics)


class Retainer:
    """Decides what is to be dropped.

    Args:
        rules: The first whose pattern matches a topic counts; without one, all is kept.
    """

    def __init__(self, rules: Iterable[Retention]) -> None:
        self._rules = tuple(rules)
        self._matched: dict[str, Retention | None] = {}

    def due(self, log: RecordLog, now_ms: int, batches_max: int) -> dict[Partition, int]:
        """Return trims for the log that drop at most `batches_max` batches.

        Args:
            log: Not changed.
            now_ms: Wall time.
            batches_max: When so many are due, more may be due afterwards.

        Raises:
            StorageError: The disk refused.
        """
        if not self._rules:
            return {}
        trims: dict[Partition, int] = {}
        sized: dict[Retention, dict[str, dict[Partition, Extent]]] = {}
        for partition, extent in log.extents().items():
            rule = self._rule(partition.topic)
            if rule is None or extent.start > extent.head:
                continue
            if rule.bytes_max is not None:
                topics = sized.setdefault(rule, {})
                topics.setdefault(partition.topic, {})[partition] = extent
            if rule.age_ms is not None and extent.oldest_ms < now_ms - rule.age_ms:
                batches_max -= _aged(
                    log, partition, extent, now_ms - rule.age_ms, batches_max, trims
                )
        for rule, topics in sized.items():
            for extents in topics.values():
                assert rule.bytes_max is not None
                if trims.keys() & extents.keys():
                    continue  # by age already; the next step sees what that has freed
                over = sum(one.size for one in extents.values()) - rule.bytes_max
                if over > 0 and batches_max > 0:
                    batches_max -= _oversized(log, extents, over, batches_max, trims)
        return trims

    def _rule(self, topic: str) -> Retention | None:
        if topic not in self._matched:
            self._matched[topic] = next((rule for rule in self._rules if rule.covers(topic)), None)
        return self._matched[topic]


def _aged(
    log: RecordLog,
    partition: Partition,
    extent: Extent,
    before_ms: int,
    batches_max: int,
    trims: dict[Partition, int],
) -> int:
    """Add the trim that drops what is older; returns how many batches that is."""
    dropped = 0
    for outline in log.outlines(partition, extent.start, batches_max) if batches_max > 0 else ():
        if outline.newest_ms >= before_ms:
            break
        trims[partition] = outline.end
        dropped += 1
    return dropped


def _oversized(
    log: RecordLog,
    extents: dict[Partition, Extent],
    over: int,
    batches_max: int,
    trims: dict[Partition, int],
) -> int:
    """Add trims that drop the oldest batches of a topic; returns how many that is."""
    waiting: dict[Partition, deque[Outline]] = {}
    oldest = [(extent.oldest_ms, partition) for partition, extent in extents.items()]
    heapify(oldest)
    dropped = 0
    while over > 0 and oldest and dropped < batches_max:
        _, partition = heappop(oldest)
        outlines = waiting.get(partition)
        if not outlines:
            start = max(trims.get(partition, 0), extents[partition].start)
            outlines = waiting[partition] = deque(log.outlines(partition, start, _OUTLINES))
            if not outlines:
                continue
        outline = outlines.popleft()
        over -= outline.size
        trims[partition] = outline.end
        dropped += 1
        if outline.end <= extents[partition].head:
            following = outlines[0].newest_ms if outlines else outline.newest_ms
            heappush(oldest, (following, partition))
    return dropped
