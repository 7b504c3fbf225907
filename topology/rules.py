"""What a well-formed topology must also hold to be right.

That levels strictly increase towards the root is what makes the algorithm deliver every record to
every cluster exactly once. A wrong labelling never loops, but it loses or duplicates.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from topology.errors import Problem
from topology.model import Branch, Topology, Tree, branches, leaves
from topology.plan import plan

if TYPE_CHECKING:
    from collections.abc import Iterator


def problems_of(topology: Topology) -> list[Problem]:
    """Return everything that is wrong with a topology, none if it may be used."""
    return [
        *_names(topology),
        *_levels(topology.tree, "$.tree", None),
        *_leaves(topology),
        *_targets(topology),
        *_endpoints(topology),
        *_directories(topology),
    ]


def _names(topology: Topology) -> Iterator[Problem]:
    if not topology.clusters:
        yield Problem("$.clusters", "there is no cluster", "declare at least one")
    names = Counter(cluster.name for cluster in topology.clusters)
    ids = Counter(cluster.id for cluster in topology.clusters)
    for index, cluster in enumerate(topology.clusters):
        if names[cluster.name] > 1:
            yield Problem(
                f"$.clusters[{index}].name", f"cluster {cluster.name!r} is declared twice"
            )
        if ids[cluster.id] > 1:
            yield Problem(
                f"$.clusters[{index}].id",
                f"id {cluster.id} is used twice",
                "an id names a record's origin and must be unique",
            )


def _levels(tree: Tree, path: str, above: int | None) -> Iterator[Problem]:
    if not isinstance(tree, Branch):
        return
    if above is not None and tree.level >= above:
        yield Problem(
            f"{path}.level",
            f"level {tree.level} is not below {above}, the level of the branch above it",
            "levels must strictly increase towards the root",
        )
    for index, child in enumerate(tree.children):
        yield from _levels(child, f"{path}.children[{index}]", tree.level)


def _leaf_paths(tree: Tree, path: str) -> Iterator[tuple[str, str]]:
    if isinstance(tree, Branch):
        for index, child in enumerate(tree.children):
            yield from _leaf_paths(child, f"{path}.children[{index}]")
    else:
        yield tree, path


def _leaves(topology: Topology) -> Iterator[Problem]:
    declared = {cluster.name for cluster in topology.clusters}
    seen: dict[str, str] = {}
    for name, path in _leaf_paths(topology.tree, "$.tree"):
        if name not in declared:
            known = ", ".join(sorted(declared))
            yield Problem(path, f"cluster {name!r} is not declared", f"declared: {known}")
        if name in seen:
            yield Problem(
                path, f"cluster {name!r} stands in the tree twice", f"also at {seen[name]}"
            )
        seen.setdefault(name, path)
    for index, cluster in enumerate(topology.clusters):
        if cluster.name not in seen:
            yield Problem(
                f"$.clusters[{index}]",
                f"cluster {cluster.name!r} is missing in the tree",
                "add it under $.tree",
            )


def _targets(topology: Topology) -> Iterator[Problem]:
    for index, cluster in enumerate(topology.clusters):
        above = {
            branch.level: branch
            for branch in branches(topology.tree)
            if cluster.name in leaves(branch)
        }
        for level, names in cluster.targets.items():
            path = f"$.clusters[{index}].targets.{level}"
            if level not in above:
                known = ", ".join(str(level) for level in sorted(above))
                yield Problem(
                    path,
                    f"level {level} is not above cluster {cluster.name!r}",
                    f"above it: {known or 'none'}",
                )
                continue
            reachable = [
                name
                for child in above[level].children
                if cluster.name not in leaves(child)
                for name in leaves(child)
            ]
            for position, name in enumerate(names):
                if name not in reachable:
                    yield Problem(
                        f"{path}[{position}]",
                        f"target {name!r} is not on the other side of level {level}",
                        f"choose from {', '.join(reachable)}",
                    )
                if name in names[:position]:
                    yield Problem(f"{path}[{position}]", f"target {name!r} is listed twice")


def _endpoints(topology: Topology) -> Iterator[Problem]:
    taken: dict[str, str] = {}
    for endpoint, path in _used(topology):
        if endpoint in taken:
            yield Problem(path, f"{endpoint} is taken", f"by {taken[endpoint]}")
        taken.setdefault(endpoint, path)
        if int(endpoint.rpartition(":")[2]) > 65_535:
            yield Problem(path, f"{endpoint} has no such port", "begin at a lower one")


def _used(topology: Topology) -> Iterator[tuple[str, str]]:
    """Every endpoint that a process will bind, and what declares it."""
    for index, cluster in enumerate(topology.clusters):
        for number, tower in enumerate(cluster.towers):
            path = f"$.clusters[{index}].towers[{number}]"
            host, _, port = tower.rpartition(":")
            yield tower, path
            yield f"{host}:{int(port) + 1}", f"{path} (publishes on the next port)"
        for number, store in enumerate(cluster.stores):
            yield store.query, f"$.clusters[{index}].stores[{number}].query"
    if topology.metrics is not None:
        host, first = topology.metrics.host, topology.metrics.first_port
        for offset in range(process_count(topology)):
            yield f"tcp://{host}:{first + offset}", "$.metrics.first_port"


def process_count(topology: Topology) -> int:
    """How many processes a topology has: towers, stores and distributors."""
    nodes = sum(len(cluster.towers) + len(cluster.stores) for cluster in topology.clusters)
    return nodes + len(plan(topology).distributors)


def _directories(topology: Topology) -> Iterator[Problem]:
    taken: dict[str, str] = {}
    for index, cluster in enumerate(topology.clusters):
        for number, store in enumerate(cluster.stores):
            path = f"$.clusters[{index}].stores[{number}].data"
            where = f"{cluster.host}:{store.data.rstrip('/')}"
            if where in taken:
                yield Problem(path, f"directory {store.data!r} is taken", f"by {taken[where]}")
            taken.setdefault(where, path)
