"""How far something has come in each partition: the sequence after the last one that is done."""

from __future__ import annotations

from collections.abc import Mapping

from dafka.model import Partition

Frontier = Mapping[Partition, int]
"""Of partitions the end of what is done; of one that is not named, 0."""


def reaches(frontier: Frontier, other: Frontier) -> bool:
    """Whether a frontier is nowhere behind another one."""
    return all(frontier.get(partition, 0) >= end for partition, end in other.items())


def joined(frontier: Frontier, other: Frontier) -> dict[Partition, int]:
    """Return the least frontier that reaches both."""
    return {**frontier, **beyond(other, frontier)}


def beyond(frontier: Frontier, other: Frontier) -> dict[Partition, int]:
    """Return the part of a frontier that is ahead of another one."""
    return {partition: end for partition, end in frontier.items() if end > other.get(partition, 0)}
