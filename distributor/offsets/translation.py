"""From a position at one cluster to a position at another.

A commit says: the group has processed the records before `position`. The record before it is the
one looked up; what is carried is its time, so the margin is taken off once, however many clusters
the commit passes. At the target the position is the first record of that time less the margin.
Since a partition holds the same records in the same order everywhere, one bound makes that safe
whatever clocks and times say: **never above the position that was committed**.

| where the position stands | what becomes of it |
|---|---|
| in the middle of the log | the first record of the target at or after the time less the margin |
| at the end of the log | the same: the last record's time counts, not that of one to come |
| 0: nothing is processed yet | 0 |
| the record before it is gone by retention at the source | the position itself |
| target that never saw the first records (its log starts later) | the first it has, as above |
| the target's log starts behind the position | the position: consumers go on at the log start |
| partition of which the target keeps nothing any more | the position |
| partition, or records of that time, not at the target yet | waits (`behind`) |
| record before it not at the source's store yet | waits (`ahead`) |
| times out of order | the first record that is as late: earlier, never later |
| equal times | the first record of that time |
| records without times (content of a C producer) | the position itself |
| records without a value (tombstones) | like any other: they have times |
| position forgotten (a commit of None) | forgotten there, too |
| lower than what the target holds, and what was processed is not | what the target holds |
| further back than `margin_records` (a clock that is ahead, or stands) | so many records back |
| topic that is not copied | passed over (`topic`) |

With `translation: exact` it is always the position itself.
"""

from __future__ import annotations

from dataclasses import replace
from enum import Enum
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from dafka.groups.commit import Commit


class Absent(Enum):
    """Why there is no time of a record."""

    GONE = "gone"
    """Retention has taken it."""
    AHEAD = "ahead"
    """The store that was asked does not have it yet."""
    TIMELESS = "timeless"
    """It has none."""


class SkipReason(Enum):
    """Why a commit is not brought to the target."""

    FLAGS = "flags"
    """Its copy flags say that this level is done."""
    TOPIC = "topic"
    """The topic is not copied."""
    STALE = "stale"
    """The target holds a newer one."""
    LIVE = "live"
    """The group has live members at the target."""
    AHEAD = "ahead"
    """The source's store does not have the record yet; it waits."""
    BEHIND = "behind"
    """The target does not have the records yet; it waits."""
    FULL = "full"
    """More positions are followed than may be."""


def version(commit: Commit, cluster: int) -> tuple[int, int, int]:
    """Which of two commits is newer, seen from anywhere: epoch, time, cluster it comes from.

    Args:
        commit: As it stands in a store.
        cluster: Number of the store's cluster.
    """
    return commit.epoch, commit.commit_ms, commit.origin or cluster


def needs_time(commit: Commit, margin_ms: int | None) -> bool:
    """Whether the time of the record before the position has to be looked up at the source."""
    return margin_ms is not None and bool(commit.position) and commit.record_ms is None


def translated(
    commit: Commit, margin_ms: int | None, margin_records: int, found: int | None, end: int
) -> Commit | SkipReason:
    """Return what to commit at the target, or why not now.

    Args:
        commit: As it comes from the source.
        margin_ms: See `OffsetSettings.margin_of`.
        margin_records: How far back it may be at most.
        found: First sequence of the target at or after the time less the margin; None if there
            is none.
        end: The sequence after the target's last record.
    """
    if margin_ms is None or not commit.position or commit.record_ms is None:
        return commit
    if found is not None:
        position = max(min(found, commit.position), commit.reached - margin_records)
        processed = None if position == commit.reached else commit.reached
        return replace(commit, position=position, processed=processed)
    return commit if end >= commit.position else SkipReason.BEHIND


def advanced(commit: Commit, held: Commit | None) -> Commit:
    """Return `commit`, not before what the target holds as far as the group has come that far.

    The margin would otherwise take a group back that has just moved. What it says is processed
    stays so unless the new commit itself goes back.

    Args:
        commit: Translated.
        held: What the target holds.
    """
    if held is None or held.position is None or commit.position is None:
        return commit
    if not commit.position < held.position <= commit.reached:
        return commit
    processed = None if held.position == commit.reached else commit.reached
    return replace(commit, position=held.position, processed=processed)
