"""Rules about who gets what: clusters that only receive, topics on some clusters, retired levels.

The topology may have holes; see `topology.rules`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from topology.errors import Problem
from topology.model import Branch, branches, leaves, restricted

if TYPE_CHECKING:
    from collections.abc import Iterator

    from topology.model import ClusterName, Topology, Tree


def problems_of_reach(topology: Topology) -> list[Problem]:
    """Return what keeps a record from where it is to be."""
    return [
        *_retired(topology.tree, topology.levels.retired, "$.tree"),
        *_placement(topology),
        *_only_receiving(topology),
    ]


def _retired(tree: Tree, retired: tuple[int, ...], path: str) -> Iterator[Problem]:
    if not isinstance(tree, Branch):
        return
    if tree.level and tree.level in retired:
        yield Problem(
            f"{path}.level",
            f"level {tree.level} is retired: flags of another branch stand under it in the logs",
            "take one that this epoch has never had, or begin a new epoch",
        )
    for index, child in enumerate(tree.children):
        yield from _retired(child, retired, f"{path}.children[{index}]")


def _placement(topology: Topology) -> Iterator[Problem]:
    declared = [cluster.name for cluster in topology.clusters]
    patterns: dict[str, int] = {}
    for index, rule in enumerate(topology.placement):
        path = f"$.placement[{index}]"
        if rule.topics in patterns:
            message = f"topics {rule.topics!r} are placed twice"
            yield Problem(
                f"{path}.topics", message, f"also at $.placement[{patterns[rule.topics]}]"
            )
        patterns.setdefault(rule.topics, index)
        for position, name in enumerate(rule.clusters):
            where = f"{path}.clusters[{position}]"
            if name and name not in declared and all(declared):
                yield Problem(where, f"cluster {name!r} is not declared", "see $.clusters")
            if name and name in rule.clusters[:position]:
                yield Problem(where, f"cluster {name!r} is listed twice", "keep the first")


def _only_receiving(topology: Topology) -> Iterator[Problem]:
    """Of several clusters on one side one must pass on what comes in."""
    mute = {cluster.name for cluster in topology.clusters if cluster.receive_only}
    declared = {cluster.name for cluster in topology.clusters}
    if not mute or "" in declared or not set(leaves(topology.tree)) <= declared:
        return
    for span, path in _spans(topology):
        tree = restricted(topology.tree, span)
        for branch in branches(tree) if tree is not None else ():
            names = list(leaves(branch))
            if mute.issuperset(names):
                yield Problem(
                    path,
                    f"clusters {', '.join(names)} only receive, so nothing passes between them",
                    "hang each beside a cluster that sends, or let one of them send",
                )
                break


def _spans(topology: Topology) -> Iterator[tuple[tuple[ClusterName, ...], str]]:
    yield tuple(cluster.name for cluster in topology.clusters), "$.tree"
    for index, rule in enumerate(topology.placement):
        yield rule.clusters, f"$.placement[{index}].clusters"
