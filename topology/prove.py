"""Runs the algorithm on the operator's own tree and looks for a counter-example.

For every origin and every choice of targets the record must reach each cluster exactly once, over
levels that strictly fall, with one flag per hop, the highest of them the level of the lowest common
branch of origin and cluster. Only links that copy make a choice, so the ways of a record are those
of its choices one after another, not of all links at once. Where a record still has more than its
origin's share of `RUNS_MAX`, every target of every link is tried, and then ways drawn with a fixed
seed: the proof says how many of how many.
"""

from __future__ import annotations

import random
from dataclasses import dataclass
from functools import cache
from math import prod
from typing import TYPE_CHECKING

from topology.copyflags import LEVEL_MAX, levels_of
from topology.spread import Choose, Spread, spread

if TYPE_CHECKING:
    from collections.abc import Iterator

    from topology.model import ClusterName
    from topology.plan import Link, Plan
    from topology.tree import TreeGraph

RUNS_MAX = 10_000
"""Spreads of one proof, shared by its origins: a second for 16 clusters, seven for 64."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Proof:
    """What was covered, or what was found.

    Attributes:
        origins: Clusters a record was to be published on: all but those that only receive.
        runs: Spreads looked at.
        combinations: Ways there are by the choice of targets, over all origins.
        complete: Whether all of them were to be run.
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


def prove(plan: Plan, runs_max: int = RUNS_MAX) -> Proof:
    """Look for a counter-example, for the topics of every span; stops at the first.

    Args:
        plan: Of the topology.
        runs_max: Spreads looked at for each span, shared by its origins.
    """
    proofs: list[Proof] = []
    for span in plan.topology.spans:
        proofs.append(_prove_span(plan.on(span), runs_max))
        if not proofs[-1].holds:
            break
    return Proof(
        origins=proofs[0].origins,
        runs=sum(proof.runs for proof in proofs),
        combinations=sum(proof.combinations for proof in proofs),
        complete=all(proof.complete for proof in proofs),
        failure=proofs[-1].failure,
        counter_example=proofs[-1].counter_example,
    )


def _prove_span(plan: Plan, runs_max: int) -> Proof:
    # `networkx` takes a quarter of a second that processes and other commands need not wait for.
    from topology.tree import TreeGraph

    graph = TreeGraph(plan.topology.tree)
    origins = [cluster.name for cluster in plan.topology.clusters if not cluster.receive_only]
    counts = {origin: ways for origin, ways in count_ways(plan).items() if origin in origins}
    share = runs_max // max(1, len(origins))
    runs, failure, counter_example = 0, "", None
    for origin in origins:
        few = counts[origin] <= share
        for found in every_way(plan, origin) if few else some_ways(plan, origin, share):
            runs += 1
            failure = violation(plan, graph, found)
            if failure:
                counter_example = found
                break
        if failure:
            break
    return Proof(
        origins=len(origins),
        runs=runs,
        combinations=sum(counts.values()),
        complete=all(number <= share for number in counts.values()),
        failure=failure,
        counter_example=counter_example,
    )


def count_ways(plan: Plan) -> dict[ClusterName, int]:
    """How many ways a record of each cluster may go, by the choice of targets.

    Exact where no cluster gets a record twice, which is what a right tree is; elsewhere too many,
    as a link that copies the record again is counted as choosing anew.
    """
    by_source: dict[ClusterName, list[Link]] = {}
    for link in plan.links:
        by_source.setdefault(link.source, []).append(link)

    @cache
    def ways(cluster: ClusterName, lowest: int) -> int:
        """Of a record that arrives with this as the lowest level among its flags."""
        return prod(
            sum(ways(target, link.level) for target in link.targets)
            for link in by_source.get(cluster, ())
            if link.level < lowest
        )

    return {cluster.name: ways(cluster.name, LEVEL_MAX + 1) for cluster in plan.topology.clusters}


def every_way(plan: Plan, origin: ClusterName) -> Iterator[Spread]:
    """Yield every way of a record: count up through the choices, the last one made fastest."""
    wanted: list[int] = []
    while True:
        made: dict[Link, int] = {}
        yield spread(plan, origin, choose=_following(wanted, made))
        choices = list(made.items())
        while choices and choices[-1][1] == len(choices[-1][0].targets) - 1:
            choices.pop()
        if not choices:
            return
        wanted = [index for _, index in choices]
        wanted[-1] += 1


def _following(wanted: list[int], made: dict[Link, int]) -> Choose:
    """Choose as wanted, then the first of each, and note in `made` what was chosen."""

    def choose(link: Link) -> ClusterName:
        if link not in made:
            made[link] = wanted[len(made)] if len(made) < len(wanted) else 0
        return link.targets[made[link]]

    return choose


def some_ways(plan: Plan, origin: ClusterName, number: int) -> Iterator[Spread]:
    """Yield ways in which each link of the origin uses each target, then `number` random ones.

    Every link copies what is published on its source, so over all origins every target of every
    link is used.
    """
    for index in range(max((len(link.targets) for link in plan.links), default=1)):
        yield spread(plan, origin, choose=_picking(index))
    chance = random.Random(0)
    for _ in range(number):
        yield spread(plan, origin, choose=lambda link: chance.choice(link.targets))


def _picking(index: int) -> Choose:
    return lambda link: link.targets[index % len(link.targets)]


def violation(plan: Plan, graph: TreeGraph, found: Spread) -> str:
    """Say which property a spread breaks; empty if none."""
    arrivals = found.arrivals()
    for cluster in plan.topology.clusters:
        times = arrivals.get(cluster.name, 0)
        if times != 1:
            often = "never" if times == 0 else f"{times} times"
            return f"a record of {found.origin!r} arrives at {cluster.name!r} {often}"
    # Hops come in the order of the distance, so the way to a source is known before it is left.
    ways: dict[ClusterName, tuple[int, ...]] = {found.origin: ()}
    for hop in found.hops:
        ways[hop.target] = (*ways[hop.source], hop.level)
        common = graph.level_between(found.origin, hop.target)
        wrong = _wrong_way(ways[hop.target], hop.flags_after, common)
        if wrong:
            return f"a record of {found.origin!r} on its way to {hop.target!r} {wrong}"
    return ""


def _wrong_way(levels: tuple[int, ...], flags: int, common: int) -> str:
    if list(levels) != sorted(set(levels), reverse=True):
        return f"crosses levels {list(levels)}, which do not strictly fall"
    if flags.bit_count() != len(levels):
        return f"makes {len(levels)} hops and has {flags.bit_count()} flags"
    if levels_of(flags)[-1] != common:
        return f"has highest level {levels_of(flags)[-1]}, their common branch is {common}"
    return ""
