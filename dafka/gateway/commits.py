"""What Kafka groups have committed, as rows among the commits of their cluster (ADR 32).

A row is a commit whose partition is no partition of ours: in place of the topic it has a name of
this module, which no link carries, and in place of the address the Kafka partition, `orders/3`. Its
position is an offset.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from dafka.gateway.broker import KafkaCommit, KafkaPartition
from dafka.model import Partition, range_of, slot_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from dafka.groups.commit import Commit

OFFSETS = "__kafka_offsets"
"""Offsets that clients have committed, as the group's coordinator says."""

REACHED = "__kafka_reached"
"""Offsets that the positions of a group amount to, as the owner of the partition says."""


class CommitVersion(NamedTuple):
    """How new a commit is; of two for the same partition the larger is the newer."""

    epoch: int
    commit_ms: int


def version_of(commit: Commit) -> CommitVersion:
    """How new a commit is."""
    return CommitVersion(commit.epoch, commit.commit_ms)


def row_of(name: str, partition: KafkaPartition) -> Partition:
    """Return the place of a row, `OFFSETS` or `REACHED`."""
    return Partition(name, f"{partition.topic}/{partition.number}")


def is_row(place: Partition) -> bool:
    """Whether that is the place of a row."""
    return place.topic in (OFFSETS, REACHED)


def covered_by(place: Partition, numbers: Callable[[str], int]) -> KafkaPartition | None:
    """Return the Kafka partition that a commit is about; None if Kafka clients see none.

    Args:
        place: Of a row, or a partition of ours.
        numbers: How many partitions a topic has; 0 if Kafka clients do not see it.
    """
    if is_row(place):
        topic, _, number = place.address.rpartition("/")
        there = number.isdecimal() and int(number) < numbers(topic)
        return KafkaPartition(topic, int(number)) if there else None
    count = numbers(place.topic)
    if not count:
        return None
    return KafkaPartition(place.topic, range_of(slot_of(place.address), count))


def merged(answers: Iterable[Mapping[Partition, Commit]]) -> dict[Partition, Commit]:
    """Return what holds, by what several stores have."""
    found: dict[Partition, Commit] = {}
    for answer in answers:
        for place, commit in answer.items():
            known = found.get(place)
            if known is None or commit.rank() > known.rank():
                found[place] = commit
    return found


class GroupOffsets(NamedTuple):
    """How far a group is.

    Attributes:
        commits: What it has committed, here or elsewhere.
        unclear: Where it has positions that are newer, and nobody has said yet which offset they
            are.
    """

    commits: dict[KafkaPartition, KafkaCommit]
    unclear: frozenset[KafkaPartition]


def holding(rows: Mapping[Partition, Commit], numbers: Callable[[str], int]) -> GroupOffsets:
    """Return how far a group is.

    Args:
        rows: All its commits, also those that are none of Kafka's.
        numbers: See `covered_by`.
    """
    offsets: dict[KafkaPartition, Commit] = {}
    positions: dict[KafkaPartition, Commit] = {}
    for place in sorted(rows):  # an offset that was committed goes before one that was worked out
        partition = covered_by(place, numbers)
        if partition is not None:
            known = offsets if is_row(place) else positions
            before, commit = known.get(partition), rows[place]
            if before is None or version_of(commit) > version_of(before):
                known[partition] = commit
    unclear = frozenset(
        partition
        for partition, commit in positions.items()
        if partition not in offsets or version_of(offsets[partition]) < version_of(commit)
    )
    commits = {
        partition: KafkaCommit(commit.position, metadata=commit.metadata)
        for partition, commit in offsets.items()
        if partition not in unclear and commit.position is not None
    }
    return GroupOffsets(commits, unclear)
