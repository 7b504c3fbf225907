"""Who of a group should have which partitions, where the coordinator says so (KIP-848)."""

from __future__ import annotations

from collections import defaultdict
from heapq import heapify, heapreplace
from itertools import groupby
from typing import TYPE_CHECKING

from dafka.gateway.broker import KafkaPartition

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    Assignment = dict[str, frozenset[KafkaPartition]]
    Assignor = Callable[
        [
            Mapping[str, frozenset[str]],
            Mapping[str, int],
            Mapping[str, frozenset[KafkaPartition]],
        ],
        Assignment,
    ]

UNIFORM, RANGE = "uniform", "range"


def uniform(
    wanted: Mapping[str, frozenset[str]],
    counts: Mapping[str, int],
    before: Mapping[str, frozenset[KafkaPartition]],
) -> Assignment:
    """Share partitions so that members have as many as each other, and move few.

    Args:
        wanted: The topics that each member reads.
        counts: The partitions of each topic.
        before: What each member should have had.
    """
    there = {KafkaPartition(topic, number) for topic in counts for number in range(counts[topic])}
    shares: dict[str, set[KafkaPartition]] = {
        name: {one for one in before.get(name, ()) if one in there and one.topic in wanted[name]}
        for name in sorted(wanted)
    }
    readers = {topic: [name for name in shares if topic in wanted[name]] for topic in counts}
    free = sorted(there.difference(*shares.values()))
    for topic, partitions in groupby(free, key=lambda one: one.topic):
        loads = [(len(shares[name]), name) for name in readers[topic]]
        heapify(loads)
        for partition in partitions if loads else ():
            load, name = loads[0]
            shares[name].add(partition)
            heapreplace(loads, (load + 1, name))
    for least in sorted(shares, key=lambda name: len(shares[name])):
        if max(map(len, shares.values())) < len(shares[least]) + 2:
            break
        while _move_to(least, shares, wanted):
            pass
    return {name: frozenset(share) for name, share in shares.items()}


def _move_to(
    least: str,
    shares: dict[str, set[KafkaPartition]],
    wanted: Mapping[str, frozenset[str]],
) -> bool:
    """Give a member a partition of whoever has two more at least; whether there is such a one."""
    for most in sorted(shares, key=lambda name: -len(shares[name])):
        if len(shares[most]) < len(shares[least]) + 2:
            return False
        movable = [one for one in shares[most] if one.topic in wanted[least]]
        if movable:
            moved = max(movable)
            shares[most].discard(moved)
            shares[least].add(moved)
            return True
    return False


def by_range(
    wanted: Mapping[str, frozenset[str]],
    counts: Mapping[str, int],
    before: Mapping[str, frozenset[KafkaPartition]],
) -> Assignment:
    """Give each member a range of each topic: the same numbers of topics that are alike."""
    shares: dict[str, set[KafkaPartition]] = defaultdict(set)
    for topic, count in counts.items():
        readers = sorted(name for name in wanted if topic in wanted[name])
        for number in range(count if readers else 0):
            name = readers[number * len(readers) // count]
            shares[name].add(KafkaPartition(topic, number))
    return {name: frozenset(shares[name]) for name in wanted}


ASSIGNORS: Mapping[str, Assignor] = {UNIFORM: uniform, RANGE: by_range}
