"""Where a group is to go on, said by an operator: pure, from what a store holds.

The ways are those of `kafka-consumer-groups --reset-offsets`, whose users know them.
"""

from __future__ import annotations

import csv
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, TypeAlias

from dafka.errors import MisuseError
from dafka.groups.commit import Commit
from dafka.model import Partition

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

CSV_FIELDS = "topic", "address", "position"


@dataclass(frozen=True, slots=True)
class Places:
    """What can be known of the partitions that are reset.

    Attributes:
        kept: What the store keeps of each: from its log start to its end.
        held: Where the group is, of those of which it has a position.
        find: The first record of a partition that is not older than a time (ms since 1970), None if
            there is none.
    """

    kept: Mapping[Partition, range]
    held: Mapping[Partition, int]
    find: Callable[[Partition, int], int | None]


Way: TypeAlias = "Callable[[Places, Partition], int | None]"
"""Where to go on in a partition; None leaves it as it is."""


def to_earliest(places: Places, partition: Partition) -> int | None:
    """The log start."""
    return places.kept[partition].start


def to_latest(places: Places, partition: Partition) -> int | None:
    """The end."""
    return places.kept[partition].stop


def to_current(places: Places, partition: Partition) -> int | None:
    """Where it is, and in bounds."""
    return _shifted(places, partition, 0)


def to_time(timestamp_ms: int) -> Way:
    """The first record that is not older than a time; the end if there is none."""

    def way(places: Places, partition: Partition) -> int | None:
        found = places.find(partition, timestamp_ms)
        return places.kept[partition].stop if found is None else found

    return way


def shifted_by(records: int) -> Way:
    """So many records further than the group is, or back if it is negative, within bounds."""
    return lambda places, partition: _shifted(places, partition, records)


def to_positions(positions: Mapping[Partition, int]) -> Way:
    """These, within bounds: another group's, or those of a file."""

    def way(places: Places, partition: Partition) -> int | None:
        position = positions.get(partition)
        return None if position is None else _within(places, partition, position)

    return way


def _shifted(places: Places, partition: Partition, records: int) -> int | None:
    held = places.held.get(partition)
    return None if held is None else _within(places, partition, held + records)


def _within(places: Places, partition: Partition, position: int) -> int:
    kept = places.kept[partition]
    return min(max(position, kept.start), kept.stop)


def read_positions(lines: Iterable[str]) -> dict[Partition, int]:
    """Read a file of positions: CSV without a head, topic, address and position in each line.

    Raises:
        MisuseError: A line is none; it says which.
    """
    found: dict[Partition, int] = {}
    for number, row in enumerate(csv.reader(lines), 1):
        if not row:
            continue
        if len(row) != len(CSV_FIELDS) or not row[2].strip().isdecimal():
            raise MisuseError(
                f"line {number}: {','.join(row)[:80]!r} is not {', '.join(CSV_FIELDS)}"
            )
        found[Partition(row[0], row[1])] = int(row[2])
    return found


def positions_of(commits: Mapping[Partition, Commit]) -> dict[Partition, int]:
    """The positions that are not forgotten."""
    return {
        partition: commit.position
        for partition, commit in commits.items()
        if commit.position is not None
    }


def commits_to(
    positions: Mapping[Partition, int | None],
    commits: Mapping[Partition, Commit],
    epoch: int,
    wall_ms: int,
) -> list[tuple[Partition, Commit]]:
    """Return what to commit so that a group is at `positions`, None to forget that of a partition.

    In an epoch above all that the group has: what a member of before still commits undoes nothing.

    Args:
        positions: By partition.
        commits: What holds for the group.
        epoch: The highest that its store knows.
        wall_ms: The time.
    """
    epochs = [commit.epoch for commit in commits.values()]
    epoch = max((epoch, *epochs)) + 1
    none = Commit(None, epoch, wall_ms)
    return [
        (partition, replace(none, position=position))
        for partition, position in sorted(positions.items())
        if partition not in commits or commits[partition].position != position
    ]
