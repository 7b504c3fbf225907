"""The algorithm itself, over a plan: where does a record go? Pure; it runs no distributor."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from topology.copyflags import mask, should_forward, with_copied
from topology.model import ClusterName
from topology.plan import Link, Plan

if TYPE_CHECKING:
    from collections.abc import Mapping

HOPS_MAX = 65_535
"""Ids of clusters end here, so no right tree needs more hops; a wrong one can need 2^63."""

Choose = Callable[[Link], ClusterName]
"""Which of a link's targets a record goes to."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Hop:
    """One copy: from where to where, across which level, with which flags."""

    source: ClusterName
    target: ClusterName
    level: int
    flags_before: int
    flags_after: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Stay:
    """A distributor that had nothing to do, and the flags that told it so."""

    cluster: ClusterName
    level: int
    flags: int
    blocking: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Spread:
    """One record's ways.

    Attributes:
        origin: Where it was published.
        hops: Every copy, in the order of the distance from the origin.
        stays: Every link that did not copy it.
        cut: Whether it was given up after `HOPS_MAX` hops, which only a wrong tree needs.
    """

    origin: ClusterName
    hops: tuple[Hop, ...]
    stays: tuple[Stay, ...]
    cut: bool = False

    def arrivals(self) -> dict[ClusterName, int]:
        """How often each cluster gets the record; publishing counts as once at the origin."""
        counts = {self.origin: 1}
        for hop in self.hops:
            counts[hop.target] = counts.get(hop.target, 0) + 1
        return counts


def preferred(link: Link) -> ClusterName:
    """Every link's first target."""
    return link.target


def spread(plan: Plan, origin: ClusterName, flags: int = 0, choose: Choose = preferred) -> Spread:
    """Follow a record that appears on `origin` with `flags` until nobody copies it any more.

    Ends for every plan, also of a wrong tree: each hop sets a flag below all that were set. As
    the copies of a wrong tree can double with each level, it gives up after `HOPS_MAX` hops.
    """
    by_source: dict[ClusterName, list[Link]] = {}
    for link in plan.links:
        by_source.setdefault(link.source, []).append(link)
    hops: list[Hop] = []
    stays: list[Stay] = []
    arrived = deque([(origin, flags)])
    while arrived and len(hops) < HOPS_MAX:
        cluster, seen = arrived.popleft()
        for link in by_source.get(cluster, ()):
            if not should_forward(seen, link.level):
                blocking = seen & mask(link.level)
                stays.append(Stay(cluster=cluster, level=link.level, flags=seen, blocking=blocking))
                continue
            hop = Hop(
                source=cluster,
                target=choose(link),
                level=link.level,
                flags_before=seen,
                flags_after=with_copied(seen, link.level),
            )
            hops.append(hop)
            arrived.append((hop.target, hop.flags_after))
    return Spread(origin=origin, hops=tuple(hops), stays=tuple(stays), cut=bool(arrived))


def carried_on(
    plan: Plan, held: Mapping[ClusterName, int], choose: Choose = preferred
) -> tuple[Hop, ...]:
    """Follow a record that some clusters hold, each with the flags of its copy, until it rests.

    A link sends only what its target lacks, so what held before the topology changed stays.
    """
    held = dict(held)
    hops: list[Hop] = []
    arrived = deque(held)
    while arrived:
        cluster = arrived.popleft()
        for link in plan.links:
            if link.source != cluster or not should_forward(held[cluster], link.level):
                continue
            target = choose(link)
            if target not in held:
                before, after = held[cluster], with_copied(held[cluster], link.level)
                held[target] = after
                arrived.append(target)
                hop = Hop(
                    source=cluster,
                    target=target,
                    level=link.level,
                    flags_before=before,
                    flags_after=after,
                )
                hops.append(hop)
    return tuple(hops)
