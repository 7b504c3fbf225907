"""What a log need not keep any more: by age and by bytes, a bounded number of batches at a time.

Whole batches go, from the beginning of their partitions. A batch is as old as the newest record up
to its end, so a wrong clock that ran ahead keeps records longer and never shorter. What time it is
now several clocks say (`dafka.storage.clocks`). What is held for a cluster that lacks it stays, up
to bounds of its own (ADR 40).
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from heapq import heapify, heappop, heappush
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from dafka.model import Partition
    from dafka.storage.log import Extent, Outline, RecordLog

    Floor = Callable[[Partition], int]
    """Below which sequence nobody lacks anything of a partition."""

_OUTLINES = 64
"""Batches looked at in one read."""

NO_FLOOR = 2**63 - 1
"""Nobody lacks anything, and nobody will."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HoldBounds:
    """How long, at most, records are kept because a cluster lacks them.

    One of them at least, each no less than that of its rule, which has to have it.

    Attributes:
        age_ms: Batches whose newest record is older are dropped all the same; None keeps them.
        bytes_max: Of each topic; beyond it the oldest batches are dropped all the same.
    """

    age_ms: int | None = None
    bytes_max: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Retention:
    """How long the records of some topics are kept.

    Attributes:
        topics: Pattern of their names, as in a shell; a leading `_` is matched by a `_` only, so
            that no rule for everything drops what the cluster itself needs.
        age_ms: Batches whose newest record is older are dropped; None keeps them.
        bytes_max: Of each topic; beyond it the oldest batches are dropped. None keeps them.
        hold: Of what clusters lack; None drops it with the rest.
    """

    topics: str
    age_ms: int | None = None
    bytes_max: int | None = None
    hold: HoldBounds | None = None

    def covers(self, topic: str) -> bool:
        """Whether it is for a topic, if no rule before it is."""
        if topic.startswith("_") and not self.topics.startswith("_"):
            return False
        return fnmatchcase(topic, self.topics)


@dataclass(slots=True)
class Due:
    """What is to be dropped, and what is not as it is held.

    Attributes:
        trims: For the log.
        floors: Those that were asked for.
        used: How much of a hold's bound is used by what is kept for it alone, where that is most:
            1 is all of it.
    """

    trims: dict[Partition, int] = field(default_factory=dict)
    floors: dict[Partition, int] = field(default_factory=dict)
    used: float = 0.0

    def released(self, extents: Mapping[Partition, Extent]) -> dict[Partition, int]:
        """Return how many records the trims drop that are held.

        Args:
            extents: Before.
        """
        beyond = {
            one: self.trims[one] - max(extents[one].start, floor)
            for one, floor in self.floors.items()
            if one in self.trims
        }
        return {one: records for one, records in beyond.items() if records > 0}


class Retainer:
    """Decides what is to be dropped.

    Args:
        rules: The first whose pattern matches a topic counts; without one, all is kept.
    """

    def __init__(self, rules: Iterable[Retention]) -> None:
        self._rules = tuple(rules)
        self._matched: dict[str, Retention | None] = {}

    def due(
        self, log: RecordLog, now_ms: int, batches_max: int, floor: Floor = lambda _partition: 0
    ) -> Due:
        """Return trims for the log that drop at most `batches_max` batches.

        Args:
            log: Not changed.
            now_ms: Wall time.
            batches_max: When so many are due, more may be due afterwards.
            floor: Asked where there is a hold.

        Raises:
            StorageError: The disk refused.
        """
        due = Due()
        if not self._rules:
            return due

        def asked(partition: Partition) -> int:
            due.floors[partition] = found = floor(partition)
            return found

        step = _Step(log, now_ms, batches_max, due)
        sized: dict[Retention, dict[str, dict[Partition, Extent]]] = {}
        for partition, extent in log.extents().items():
            rule = self._rule(partition.topic)
            if rule is None or extent.start > extent.head:
                continue
            if rule.bytes_max is not None:
                topics = sized.setdefault(rule, {})
                topics.setdefault(partition.topic, {})[partition] = extent
            if rule.age_ms is not None and extent.oldest_ms < now_ms - rule.age_ms:
                step.aged(
                    partition, extent, rule, NO_FLOOR if rule.hold is None else asked(partition)
                )
        for rule, topics in sized.items():
            for extents in topics.values():
                if due.trims.keys() & extents.keys():
                    continue  # by age already; the next step sees what that has freed
                step.sized(extents, rule, None if rule.hold is None else asked)
        return due

    def _rule(self, topic: str) -> Retention | None:
        if topic not in self._matched:
            self._matched[topic] = next((rule for rule in self._rules if rule.covers(topic)), None)
        return self._matched[topic]


class _Step:
    """One look at a log: what it may drop yet."""

    def __init__(self, log: RecordLog, now_ms: int, batches_max: int, due: Due) -> None:
        self._log, self._now_ms, self._left, self._due = log, now_ms, batches_max, due

    def aged(self, partition: Partition, extent: Extent, rule: Retention, floor: int) -> None:
        """Add the trim that drops what is older than a rule says, but for what is held."""
        assert rule.age_ms is not None
        cap_ms = None if rule.hold is None else rule.hold.age_ms
        before_ms = self._now_ms - rule.age_ms
        released_ms = -1 if cap_ms is None else self._now_ms - cap_ms
        if extent.start >= floor and extent.oldest_ms >= released_ms:
            self._hold(extent.oldest_ms, cap_ms)  # what is held for long costs no reading
            return
        for outline in (
            self._log.outlines(partition, extent.start, self._left) if self._left > 0 else ()
        ):
            if outline.newest_ms >= before_ms:
                break
            if outline.end > floor and outline.newest_ms >= released_ms:
                self._hold(outline.newest_ms, cap_ms)
                break
            self._due.trims[partition] = outline.end
            self._left -= 1

    def _hold(self, oldest_ms: int, cap_ms: int | None) -> None:
        if cap_ms is not None:
            self._due.used = max(self._due.used, (self._now_ms - oldest_ms) / cap_ms)

    def sized(
        self, extents: Mapping[Partition, Extent], rule: Retention, floor: Floor | None
    ) -> None:
        """Add the trims that drop what of a topic is beyond a rule's bytes, but for what is held.

        Args:
            extents: Of all its partitions.
            rule: Which.
            floor: Of what is held; None if nothing is.
        """
        assert rule.bytes_max is not None
        size = sum(one.size for one in extents.values())
        if size <= rule.bytes_max or self._left <= 0:
            return
        kept = size - self._drop(extents, size - rule.bytes_max, floor)
        if kept <= rule.bytes_max or self._left <= 0:
            return
        cap = None if rule.hold is None else rule.hold.bytes_max
        if cap is not None and kept > cap:
            kept -= self._drop(extents, kept - cap, None)
        if cap is not None:
            self._due.used = max(self._due.used, kept / cap)

    def _drop(self, extents: Mapping[Partition, Extent], over: int, floor: Floor | None) -> int:
        """Drop the oldest batches of a topic, so many bytes; return how many it could."""
        trims = self._due.trims
        waiting: dict[Partition, deque[Outline]] = {}
        oldest = [(extent.oldest_ms, partition) for partition, extent in extents.items()]
        heapify(oldest)
        dropped = 0
        while dropped < over and oldest and self._left > 0:
            _, partition = heappop(oldest)
            outlines = waiting.get(partition)
            if not outlines:
                start = max(trims.get(partition, 0), extents[partition].start)
                outlines = waiting[partition] = deque(
                    self._log.outlines(partition, start, _OUTLINES)
                )
                if not outlines:
                    continue
            if floor is not None and outlines[0].end > floor(partition):
                continue
            outline = outlines.popleft()
            dropped += outline.size
            trims[partition] = outline.end
            self._left -= 1
            if outline.end <= extents[partition].head:
                following = outlines[0].newest_ms if outlines else outline.newest_ms
                heappush(oldest, (following, partition))
        return dropped
