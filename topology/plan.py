"""From the tree to the arrows: one link per cluster, level above it, and other child there."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import chain
from typing import TYPE_CHECKING

from topology.model import Branch, Cluster, ClusterName, Topology, branches, leaves

if TYPE_CHECKING:
    from collections.abc import Iterator


@dataclass(frozen=True, slots=True, kw_only=True)
class Link:
    """One arrow: from a cluster across one branch into another of its children.

    Attributes:
        source: The cluster it copies from.
        level: The branch's.
        branch: Which child of the branch it leads into, counted from 0.
        targets: Clusters of that child, the preferred one first; never empty.
        beyond: Every cluster of that child: who gets what the target is sent.
    """

    source: ClusterName
    level: int
    branch: int
    targets: tuple[ClusterName, ...]
    beyond: tuple[ClusterName, ...]

    @property
    def target(self) -> ClusterName:
        """The cluster it copies to."""
        return self.targets[0]


@dataclass(frozen=True, slots=True, kw_only=True)
class Distributor:
    """One process: the links of one cluster and level."""

    cluster: ClusterName
    level: int
    links: tuple[Link, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """All links of a topology, by cluster in the order of the file, then from the root down."""

    topology: Topology
    links: tuple[Link, ...]

    @property
    def distributors(self) -> tuple[Distributor, ...]:
        """The links by process."""
        groups: dict[tuple[ClusterName, int], list[Link]] = {}
        for link in self.links:
            groups.setdefault((link.source, link.level), []).append(link)
        return tuple(
            Distributor(cluster=cluster, level=level, links=tuple(links))
            for (cluster, level), links in groups.items()
        )


def plan(topology: Topology) -> Plan:
    """Return every link of `topology`. It need not be valid: a wrong tree has a plan too."""
    clusters = {cluster.name: cluster for cluster in topology.clusters}
    links: dict[ClusterName, list[Link]] = {name: [] for name in clusters}
    for branch in branches(topology.tree):
        sides = [tuple(dict.fromkeys(leaves(child))) for child in branch.children]
        for name in dict.fromkeys(chain.from_iterable(sides)):
            if name in clusters:
                links[name] += _across(clusters[name], branch, sides)
    return Plan(topology=topology, links=tuple(chain.from_iterable(links.values())))


def _across(
    cluster: Cluster, branch: Branch, sides: list[tuple[ClusterName, ...]]
) -> Iterator[Link]:
    for index, side in enumerate(sides):
        if cluster.name not in side:
            targets = _targets(cluster, branch.level, side)
            yield Link(
                source=cluster.name,
                level=branch.level,
                branch=index,
                targets=targets,
                beyond=side,
            )


def _targets(
    cluster: Cluster, level: int, candidates: tuple[ClusterName, ...]
) -> tuple[ClusterName, ...]:
    """The cluster's own list as far as it names candidates; all of them if it names none."""
    listed = [name for name in cluster.targets.get(level, ()) if name in candidates]
    return tuple(listed) or candidates
