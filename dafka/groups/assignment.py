"""Which member of a group takes which partition.

By rendezvous hashing (Thaler and Ravishankar, 1998): of all members that want the topic the one
whose hash with the partition is highest. So every member can work it out from the members alone,
without agreeing on which partitions there are, and they come and go all the time; a member that
comes or goes moves only its own share. Those shares are equal only on average. Where they are not,
members agree on a few partitions that are moved, along with who they are (ADR 25).
"""

from __future__ import annotations

import hashlib
from types import MappingProxyType
from typing import TYPE_CHECKING

from dafka.limits import GROUP_MOVED_MAX
from dafka.wire.primitives import octets_of

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from dafka.groups.membership import Member
    from dafka.model import Partition

NONE_MOVED: Mapping[str, str] = MappingProxyType({})

EVENED_MAX = 65_536
"""Partitions times members up to which shares are evened: some tens of milliseconds. Of more
partitions hashing makes shares even enough."""


def owner(
    partition: Partition, members: Mapping[str, Member], moved: Mapping[str, str] = NONE_MOVED
) -> str | None:
    """Return the id of the member that takes `partition`; None if nobody wants its topic.

    Args:
        partition: Which.
        members: Of a generation.
        moved: Of the same: who takes partitions, by their marks, that hashing gives to others.
    """
    place = _place(partition)
    candidates = _candidates(partition, members)
    if moved and (chosen := moved.get(_mark(place))) in candidates:
        return chosen
    return max(candidates, key=lambda name: (_weight(place + name.encode()), name), default=None)


def evened(
    partitions: Collection[Partition], members: Mapping[str, Member], moved: Mapping[str, str]
) -> dict[str, str]:
    """Return which partitions to move from now on so that nobody has much more than others.

    As it was, but for members that are gone, where nobody has more than one above the average,
    rounded up, and nobody has nothing to do while there is enough for all. Else moves are added,
    no more than it takes.

    Args:
        partitions: Those to share, as far as is known.
        members: Of the generation to be.
        moved: Of the one before.
    """
    kept = {mark: name for mark, name in moved.items() if name in members}
    if len(kept) == GROUP_MOVED_MAX:
        known = {_mark(_place(partition)) for partition in partitions}
        kept = {mark: name for mark, name in kept.items() if mark in known}
    if not members or len(partitions) * len(members) > EVENED_MAX:
        return kept
    owned: dict[str, list[Partition]] = {name: [] for name in members}
    for partition in partitions:
        if (name := owner(partition, members, kept)) is not None:
            owned[name].append(partition)
    counts = {name: len(share) for name, share in owned.items()}
    average, rest = divmod(sum(counts.values()), len(counts))
    if max(counts.values()) <= average + bool(rest) + 1 and (min(counts.values()) or not average):
        return kept
    # What is above the average, rounded up, first; then what those lack that are still below it.
    for above, below in ((average + bool(rest), average + bool(rest)), (average, average)):
        for name, share in owned.items():
            # Those first that have been moved here: they need not be remembered any more.
            share.sort(key=lambda one: (_mark(_place(one)) in kept, one))
            while share and counts[name] > above and len(kept) < GROUP_MOVED_MAX:
                partition = share.pop()
                least = min(_candidates(partition, members), key=lambda one: (counts[one], one))
                if counts[least] < min(below, counts[name] - 1):
                    _move(partition, least, members, kept)
                    counts[name] -= 1
                    counts[least] += 1
    return kept


def _move(
    partition: Partition, to: str, members: Mapping[str, Member], moved: dict[str, str]
) -> None:
    mark = _mark(_place(partition))
    moved.pop(mark, None)
    if owner(partition, members) != to:
        moved[mark] = to


def _candidates(partition: Partition, members: Mapping[str, Member]) -> list[str]:
    topic = octets_of(partition.topic)
    return [name for name, member in members.items() if topic in member.topics]


def _place(partition: Partition) -> bytes:
    return octets_of(partition.topic) + b"\0" + octets_of(partition.address) + b"\0"


def _mark(place: bytes) -> str:
    """What a partition is named by among those moved: names may be long."""
    return _weight(place).hex()


def _weight(octets: bytes) -> bytes:
    return hashlib.blake2b(octets, digest_size=8).digest()
