"""What a link's offsets tell Prometheus. Labels name the link, as in `distributor.link.meter`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from prometheus_client import Counter, Gauge

if TYPE_CHECKING:
    from collections.abc import Mapping

    from distributor.offsets.distributor import OffsetsRound
    from topology.plan import Link

OFFSETS = Counter(
    "distributor_offsets",
    "Commits of groups, by what became of them: brought to the target, or why they were not",
    ["source", "target", "level", "result"],
)
POSITION_AGE_SECONDS = Gauge(
    "distributor_position_age_seconds",
    "For how long the target has lacked the oldest position of a group that the source has",
    ["source", "target", "level", "group"],
)
METERED_GROUPS_MAX = 100
"""Labels must be bounded."""
OTHER_GROUPS = ""
"""The label of all others together."""


class OffsetsMeter:
    """The series of the positions that one link brings to one of its targets.

    Args:
        link: Which.
        target: Name of the cluster it brings them to.
        groups_max: Groups that have a series of their own.
    """

    def __init__(self, link: Link, target: str, groups_max: int = METERED_GROUPS_MAX) -> None:
        self._labels = (link.source, target, str(link.level))
        self._groups_max = groups_max
        self._own: set[str] = set()

    def count(self, done: OffsetsRound) -> None:
        """Commits are durable at the target, or were not brought there."""
        if done.brought:
            OFFSETS.labels(*self._labels, "brought").inc(done.brought)
        for reason, count in done.skipped.items():
            OFFSETS.labels(*self._labels, reason.value).inc(count)

    def ages(self, ages: Mapping[str, int]) -> None:
        """How old the oldest position is that the target lacks, by group, in milliseconds."""
        for group in ages:
            if len(self._own) < self._groups_max:
                self._own.add(group)
        others = [age_ms for group, age_ms in ages.items() if group not in self._own]
        shown = {group: ages.get(group, 0) for group in self._own}
        if others:
            shown[OTHER_GROUPS] = max(others)
        for group, age_ms in shown.items():
            POSITION_AGE_SECONDS.labels(*self._labels, group).set(age_ms / 1_000)

    def close(self) -> None:
        """Nothing is brought there any more, and how old it gets is not known."""
        for group in (*self._own, OTHER_GROUPS):
            POSITION_AGE_SECONDS.remove(*self._labels, group)
