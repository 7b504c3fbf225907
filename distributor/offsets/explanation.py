"""Why a group stands where it stands on every cluster; the facts are given, nothing is asked."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from distributor.offsets.translation import version

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from dafka.groups.commit import Commit
    from dafka.model import Partition
    from topology.model import Topology


@dataclass(frozen=True, slots=True)
class GroupView:
    """What one cluster knows of a group.

    Attributes:
        cluster: Its name.
        number: Its id.
        commits: Of the group.
        ends: Of every partition there, the sequence after its last record.
        live: Whether the group has live members there.
        error: Why nothing is known.
    """

    cluster: str
    number: int
    commits: Mapping[Partition, Commit] = field(default_factory=dict)
    ends: Mapping[Partition, int] = field(default_factory=dict)
    live: bool = False
    error: str = ""


@dataclass(frozen=True, slots=True)
class OffsetRow:
    """Where a group stands in one partition at one cluster.

    Attributes:
        topic: Of the partition.
        address: Of the partition.
        cluster: Which.
        position: The first sequence not processed; None if there is none.
        behind: Records before the newest position there is, that would be read again here.
        age_ms: Since it was committed; None if there is no commit.
        margin_ms: What is taken off on the way here; None: positions are exact.
        origin: Name of the cluster it was committed at.
        why: Why it is not the newest, or as far behind as may be; else empty.
    """

    topic: str
    address: str
    cluster: str
    position: int | None
    behind: int | None
    age_ms: int | None
    margin_ms: int | None
    origin: str
    why: str


def explain(
    topology: Topology, group: str, views: Sequence[GroupView], wall_ms: int
) -> list[OffsetRow]:
    """Return a row for every partition of the group and every cluster, in the order of the file."""
    names = {view.number: view.cluster for view in views}
    margin_ms = topology.offsets.margin_of(group)
    rows = []
    for partition, (number, newest) in sorted(_newest(views).items()):
        for view in views:
            held = view.commits.get(partition)
            origin = "" if held is None else names.get(held.origin or view.number, "")
            rows.append(
                OffsetRow(
                    topic=partition.topic,
                    address=partition.address,
                    cluster=view.cluster,
                    position=None if held is None else held.position,
                    behind=_behind(held, newest),
                    age_ms=None if held is None else max(0, wall_ms - held.commit_ms),
                    margin_ms=margin_ms,
                    origin=origin,
                    why=_why(topology, partition, view, (number, newest)),
                )
            )
    return rows


def forced(
    views: Sequence[GroupView], cluster: str, wall_ms: int
) -> list[tuple[Partition, Commit]]:
    """Return what to commit at a cluster so that the group goes on there where it was last.

    Without a margin: exactly there.

    In an epoch of its own: members that are alive there have an older one, so what they still
    commit does not undo it.

    Args:
        views: Of all clusters.
        cluster: Where to commit.
        wall_ms: The time.
    """
    (view,) = (view for view in views if view.cluster == cluster)
    epochs = [commit.epoch for one in views for commit in one.commits.values()]
    there = []
    for partition, (number, newest) in sorted(_newest(views).items()):
        held = view.commits.get(partition)
        position = None if newest.position is None else newest.reached
        older = held is None or version(held, view.number) < version(newest, number)
        if older or (held is not None and held.position != position):
            commit = replace(
                newest,
                position=position,
                processed=None,
                epoch=max(epochs) + 1,
                commit_ms=wall_ms,
                origin=0,
                copy_flags=0,
            )
            there.append((partition, commit))
    return there


def _newest(views: Sequence[GroupView]) -> dict[Partition, tuple[int, Commit]]:
    """Of each partition the newest commit, where it goes furthest, and who has it."""
    newest: dict[Partition, tuple[int, Commit]] = {}
    for view in views:
        for partition, commit in view.commits.items():
            known = newest.get(partition)
            if known is None or _order(commit, view.number) > _order(known[1], known[0]):
                newest[partition] = view.number, commit
    return newest


def _order(commit: Commit, number: int) -> tuple[tuple[int, int, int], int]:
    return version(commit, number), -1 if commit.position is None else commit.position


def _behind(held: Commit | None, newest: Commit) -> int | None:
    if newest.position is None or (held is not None and held.position is None):
        return None
    at = 0 if held is None or held.position is None else held.position
    return max(0, newest.reached - at)


def _why(
    topology: Topology, partition: Partition, view: GroupView, newest: tuple[int, Commit]
) -> str:
    number, commit = newest
    held = view.commits.get(partition)
    if view.error:
        return view.error
    if held is not None and version(held, view.number) == version(commit, number):
        pinned = (_behind(held, commit) or 0) >= topology.offsets.margin_records
        return "by their times more records are within the margin" if pinned else ""
    if not topology.topics.wants(partition.topic):
        return "the topic is not copied"
    if view.live:
        return "the group has live members here"
    if commit.position is not None and view.ends.get(partition, 0) < commit.position:
        return "the records are not here yet"
    return "the commit is not here yet"
