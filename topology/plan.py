"""From the tree to the arrows: one link per cluster, level above it, and other child there.

Topics that are not on all clusters have links of their own, over the tree without the others: their
targets lie inside.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import chain
from typing import TYPE_CHECKING

from topology.model import (
    Branch,
    ClusterName,
    ClusterSpec,
    Topology,
    branches,
    leaves,
    restricted,
)

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator


@dataclass(frozen=True, slots=True, kw_only=True)
class Link:
    """One arrow: from a cluster across one branch into another of its children.

    Attributes:
        source: The cluster it copies from.
        level: The branch's.
        branch: Which child of the branch it leads into, counted from 0.
        targets: Clusters of that child, the preferred one first; never empty.
        beyond: Every cluster of that child: who gets what the target is sent.
        span: It carries the topics that are on exactly these clusters.
        topics: The patterns that place them there, for people; empty for all clusters.
    """

    source: ClusterName
    level: int
    branch: int
    targets: tuple[ClusterName, ...]
    beyond: tuple[ClusterName, ...]
    span: tuple[ClusterName, ...]
    topics: str = ""

    @property
    def target(self) -> ClusterName:
        """The cluster it copies to."""
        return self.targets[0]

    @property
    def crossing(self) -> str:
        """The level, and what is carried across it if not all: one name for each of a source."""
        return f"{self.level} {self.topics}".strip()


@dataclass(frozen=True, slots=True, kw_only=True)
class Distributor:
    """One process: the links of one cluster and level, or a share of them.

    Attributes:
        cluster: Whose records it copies.
        level: That its links cross.
        links: All of them.
        share: Which part of their partitions it has, counted from 0.
        shares: Of how many.
    """

    cluster: ClusterName
    level: int
    links: tuple[Link, ...]
    share: int = 0
    shares: int = 1

    @property
    def name(self) -> str:
        """That of its process."""
        whole = f"{self.cluster}-level-{self.level}"
        return whole if self.shares == 1 else f"{whole}-{self.share}-of-{self.shares}"

    @property
    def title(self) -> str:
        """The same, for people."""
        whole = f"{self.cluster} level {self.level}"
        return whole if self.shares == 1 else f"{whole} share {self.share}/{self.shares}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """All links of a topology, by cluster in the order of the file, then from the root down.

    Of one cluster and branch, those of the topics that are everywhere come first.
    """

    topology: Topology
    links: tuple[Link, ...]

    @property
    def distributors(self) -> tuple[Distributor, ...]:
        """The links by process."""
        groups: dict[tuple[ClusterName, int], list[Link]] = {}
        for link in self.links:
            groups.setdefault((link.source, link.level), []).append(link)
        return tuple(
            Distributor(
                cluster=cluster, level=level, links=tuple(links), share=share, shares=shares
            )
            for (cluster, level), links in groups.items()
            for shares in (self.topology.links.shares_at(level),)
            for share in range(shares)
        )

    def on(self, span: tuple[ClusterName, ...]) -> Plan:
        """What carries the topics of one span, as a topology of its own."""
        whole = self.topology
        tree = restricted(whole.tree, span)
        assert tree is not None
        clusters = tuple(cluster for cluster in whole.clusters if cluster.name in span)
        part = replace(whole, clusters=clusters, tree=tree, placement=())
        return Plan(topology=part, links=tuple(link for link in self.links if link.span == span))

    @property
    def everywhere(self) -> Plan:
        """What carries the topics that are on all clusters."""
        return self.on(self.topology.spans[0]) if self.topology.placement else self


def plan(topology: Topology) -> Plan:
    """Return every link of `topology`. It need not be valid: a wrong tree has a plan too."""
    clusters = {cluster.name: cluster for cluster in topology.clusters}
    links: dict[ClusterName, list[Link]] = {name: [] for name in clusters}
    spans = {span: topology.topics_on(span) for span in topology.spans}
    senders = [name for name, cluster in clusters.items() if not cluster.receive_only]
    for branch in branches(topology.tree):
        sides = [tuple(dict.fromkeys(leaves(child))) for child in branch.children]
        for name in dict.fromkeys(chain.from_iterable(sides)):
            if name in senders:
                for span, topics in spans.items():
                    links[name] += [
                        replace(link, topics=topics)
                        for link in _across(clusters[name], branch, sides, span, senders)
                    ]
    return Plan(topology=topology, links=tuple(chain.from_iterable(links.values())))


def _across(
    cluster: ClusterSpec,
    branch: Branch,
    sides: list[tuple[ClusterName, ...]],
    span: tuple[ClusterName, ...],
    senders: Collection[ClusterName],
) -> Iterator[Link]:
    if cluster.name not in span:
        return
    for index, whole in enumerate(sides):
        side = tuple(name for name in whole if name in span)
        if side and cluster.name not in whole:
            # Who only receives would not pass on what the rest of its side is to have.
            passing = tuple(name for name in side if name in senders)
            targets = _targets(cluster, branch.level, passing or side)
            yield Link(
                source=cluster.name,
                level=branch.level,
                branch=index,
                targets=targets,
                beyond=side,
                span=span,
            )


def _targets(
    cluster: ClusterSpec, level: int, candidates: tuple[ClusterName, ...]
) -> tuple[ClusterName, ...]:
    """The cluster's own list as far as it names candidates; all of them if it names none."""
    listed = [name for name in cluster.targets.get(level, ()) if name in candidates]
    return tuple(listed) or candidates
