"""Runs the algorithm on the operator's own tree and looks for a counter-example.

For every origin and every choice of targets the record must reach each cluster exactly once, over
levels that strictly fall, with one flag per hop, the highest of them the level of the lowest common
branch of origin and cluster. Where there are more combinations of targets than `COMBINATIONS_MAX`,
every single target of every link is tried, and then combinations drawn with a fixed seed: the proof
says how many of how many.
"""

from __future__ import annotations

import random
from dataclasses import dataclass
from itertools import islice, product
from math import prod
from typing import TYPE_CHECKING

from topology.copyflags import levels_of
from topology.model import ClusterName
from topology.plan import Link, Plan
from topology.spread import Spread, spread
from topology.tree import TreeGraph

if TYPE_CHECKING:
    from collections.abc import Iterator

COMBINATIONS_MAX = 2_000
"""Combinations of targets tried for one origin; a spread takes some tens of microseconds."""

Choice = dict[Link, ClusterName]


@dataclass(frozen=True, slots=True, kw_only=True)
class Proof:
    """What was covered, or what was found.

    Attributes:
        origins: Clusters a record was published on.
        runs: Spreads looked at.
        combinations: Combinations of targets there are, over all origins.
        complete: Whether all of them were run.
        failure: What a counter-example breaks; empty if there is none.
        counter_example: The spread that breaks it.
    """

    origins: int
    runs: int
    combinations: int
    complete: bool
    failure: str = ""
    counter_example: Spread | None = None

    @property
    def holds(self) -> bool:
        """Whether no counter-example was found."""
        return not self.failure


def prove(plan: Plan) -> Proof:
    """Look for a counter-example; stops at the first."""
    graph = TreeGraph(plan.topology.tree)
    origins = [cluster.name for cluster in plan.topology.clusters]
    runs = combinations = 0
    complete = True
    for origin in origins:
        number = prod(len(link.targets) for link in plan.links)
        combinations += number
        complete &= number <= COMBINATIONS_MAX
        for choice in _choices(plan, number):
            runs += 1
            found = spread(plan, origin, choose=choice.__getitem__)
            failure = violation(plan, graph, found)
            if failure:
                return Proof(
                    origins=len(origins),
                    runs=runs,
                    combinations=combinations,
                    complete=complete,
                    failure=failure,
                    counter_example=found,
                )
    return Proof(origins=len(origins), runs=runs, combinations=combinations, complete=complete)


def _choices(plan: Plan, number: int) -> Iterator[Choice]:
    if number <= COMBINATIONS_MAX:
        for targets in product(*(link.targets for link in plan.links)):
            yield dict(zip(plan.links, targets, strict=True))
        return
    for index in range(max(len(link.targets) for link in plan.links)):
        # Every link's every target at least once, all links moving on together.
        yield {link: link.targets[index % len(link.targets)] for link in plan.links}
    chance = random.Random(0)
    drawn = ({link: chance.choice(link.targets) for link in plan.links} for _ in iter(int, 1))
    yield from islice(drawn, COMBINATIONS_MAX)


def violation(plan: Plan, graph: TreeGraph, found: Spread) -> str:
    """Say which property a spread breaks; empty if none."""
    arrivals = found.arrivals()
    for cluster in plan.topology.clusters:
        times = arrivals.get(cluster.name, 0)
        if times != 1:
            often = "never" if times == 0 else f"{times} times"
            return f"a record of {found.origin!r} arrives at {cluster.name!r} {often}"
    return next(filter(None, (_wrong_hop(graph, found, hop.target) for hop in found.hops)), "")


def _wrong_hop(graph: TreeGraph, found: Spread, cluster: ClusterName) -> str:
    """Check the one way on which `cluster` got the record."""
    arrived_by = {hop.target: hop for hop in found.hops}
    way = [arrived_by[cluster]]
    while way[0].source != found.origin:
        way.insert(0, arrived_by[way[0].source])
    levels = [hop.level for hop in way]
    flags = way[-1].flags_after
    whom = f"a record of {found.origin!r} on its way to {cluster!r}"
    if levels != sorted(set(levels), reverse=True):
        return f"{whom} crosses levels {levels}, which do not strictly fall"
    if flags.bit_count() != len(way):
        return f"{whom} makes {len(way)} hops and has {flags.bit_count()} flags"
    common = graph.level_between(found.origin, cluster)
    if max(levels_of(flags)) != common:
        return f"{whom} has highest level {max(levels_of(flags))}, their common branch is {common}"
    return ""
