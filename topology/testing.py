"""Trees for tests: all small ones, and random large ones. Shipped, for tests on top of us."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise, product
from typing import TYPE_CHECKING, Any

from topology.model import (
    Branch,
    ClusterName,
    ClusterSpec,
    Placement,
    StoreSpec,
    Topology,
    Tree,
    branches,
    leaves,
)
from topology.plan import plan
from topology.rules import problems_of_reach

if TYPE_CHECKING:
    import random
    from collections.abc import Iterable, Iterator

Shape = tuple[Any, ...] | None
"""A tree without levels and names: a tuple of shapes, or None for a cluster."""

Nested = str | tuple[Any, ...]
"""A tree as tests write it: a name, or `(level, child, child, …)`."""


def tree_of(nested: Nested) -> Tree:
    """Build a tree from `(level, child, child, …)` and names; nothing is checked."""
    if isinstance(nested, str):
        return ClusterName(nested)
    level, *children = nested
    return Branch(level=level, children=tuple(tree_of(child) for child in children))


def topology_of(tree: Tree) -> Topology:
    """A topology around a tree, with a cluster for every leaf. Nothing is checked."""
    clusters = tuple(
        ClusterSpec(
            name=name,
            id=index + 1,
            towers=(f"tcp://127.0.0.1:{20_000 + 10 * index}",),
            stores=(
                StoreSpec(query=f"tcp://127.0.0.1:{20_002 + 10 * index}", data=f"data/{name}"),
            ),
        )
        for index, name in enumerate(leaves(tree))
    )
    return Topology(name="test", clusters=clusters, tree=tree)


def steady(tree: Tree) -> Topology:
    """A topology in which `c7` has the same number, ports and directory in whatever tree."""
    topology = topology_of(tree)
    return replace(
        topology,
        clusters=tuple(
            ClusterSpec(
                name=one.name,
                id=int(one.name[1:]),
                towers=(f"tcp://127.0.0.1:{20_000 + 10 * int(one.name[1:])}",),
                stores=(
                    StoreSpec(
                        query=f"tcp://127.0.0.1:{20_002 + 10 * int(one.name[1:])}",
                        data=f"data/{one.name}",
                    ),
                ),
            )
            for one in topology.clusters
        ),
    )


def shapes(size: int, *, binary: bool = False) -> Iterator[Shape]:
    """Yield every tree shape with `size` leaves, children in any order counted once.

    Args:
        size: Leaves, at least 1.
        binary: Only shapes in which every branch has two children.
    """
    if size == 1:
        yield None
        return
    for parts in _partitions(size, size - 1):
        if len(parts) >= 2 and (not binary or len(parts) == 2):
            yield from _forests(parts, binary)


def _partitions(total: int, largest: int) -> Iterator[tuple[int, ...]]:
    """Ways to write `total` as a sum, largest part first."""
    if total == 0:
        yield ()
        return
    for part in range(min(total, largest), 0, -1):
        for rest in _partitions(total - part, part):
            yield (part, *rest)


def _forests(parts: tuple[int, ...], binary: bool) -> Iterator[Shape]:
    seen: set[Shape] = set()
    for children in product(*(list(shapes(part, binary=binary)) for part in parts)):
        shape = tuple(sorted(children, key=repr))
        if shape not in seen:
            seen.add(shape)
            yield shape


def labellings(shape: Shape) -> Iterator[Tree]:
    """Yield every labelling of a shape with levels that strictly increase towards the root.

    Only the order of levels matters, so each order comes once: with levels from 1, none left out.
    """
    names = iter(range(1, 1_000))
    blank = _named(shape, names)
    for tree in _labelled(blank, _branch_count(shape) + 1):
        levels = {branch.level for branch in branches(tree)}
        if len(levels) == max(levels, default=0):
            yield tree


def wrong_labellings(shape: Shape) -> Iterator[Tree]:
    """Yield a shape with every assignment of levels, right or wrong, up to one level a branch."""
    blank = _named(shape, iter(range(1, 1_000)))
    count = _branch_count(shape)
    for levels in product(range(1, count + 1), repeat=count):
        yield _relabelled(blank, iter(levels))


def _relabelled(tree: Tree, levels: Iterator[int]) -> Tree:
    if not isinstance(tree, Branch):
        return tree
    level = next(levels)
    return Branch(
        level=level, children=tuple(_relabelled(child, levels) for child in tree.children)
    )


def _named(shape: Shape, names: Iterator[int]) -> Tree:
    if shape is None:
        return ClusterName(f"c{next(names)}")
    return Branch(level=0, children=tuple(_named(child, names) for child in shape))


def _branch_count(shape: Shape) -> int:
    return 0 if shape is None else 1 + sum(_branch_count(child) for child in shape)


def _labelled(tree: Tree, below: int) -> Iterator[Tree]:
    if not isinstance(tree, Branch):
        yield tree
        return
    for level in range(_height(tree), below):
        for children in product(*(list(_labelled(child, level)) for child in tree.children)):
            yield Branch(level=level, children=children)


def _height(tree: Tree) -> int:
    return 1 + max(map(_height, tree.children)) if isinstance(tree, Branch) else 0


def random_topology(
    chance: random.Random,
    size: int,
    *,
    children_max: int = 4,
    valid: bool = True,
    reach: bool = False,
) -> Topology:
    """A random tree of `size` clusters with random levels and random preferred targets.

    Args:
        chance: Where all randomness comes from.
        size: Clusters, at least 1.
        children_max: Most children of a branch.
        valid: Whether levels strictly increase towards the root; otherwise they are arbitrary.
        reach: Whether some clusters only receive, and some topics, `eu-*` and `us-*`, are placed.
    """
    names = [ClusterName(f"c{index}") for index in range(1, size + 1)]
    topology = topology_of(_random_tree(chance, names, children_max, valid))
    if reach:
        topology = _with_random_reach(chance, topology)
    return _with_random_targets(chance, topology)


def _with_random_reach(chance: random.Random, topology: Topology) -> Topology:
    """Decide for each cluster and placement; what would break a rule is left as it was."""
    for index in range(len(topology.clusters)):
        clusters = list(topology.clusters)
        clusters[index] = replace(clusters[index], receive_only=chance.random() < 0.3)
        changed = replace(topology, clusters=tuple(clusters))
        topology = topology if problems_of_reach(changed) else changed
    names = [cluster.name for cluster in topology.clusters]
    for pattern in ("eu-*", "us-*"):
        chosen = tuple(chance.sample(names, chance.randint(1, len(names))))
        rules = (*topology.placement, Placement(topics=pattern, clusters=chosen))
        changed = replace(topology, placement=rules)
        topology = topology if problems_of_reach(changed) else changed
    return topology


def _random_tree(
    chance: random.Random, names: list[ClusterName], children_max: int, valid: bool
) -> Tree:
    if len(names) == 1:
        return names[0]
    parts = chance.randint(2, min(children_max, len(names)))
    cuts = sorted(chance.sample(range(1, len(names)), parts - 1))
    bounds = [0, *cuts, len(names)]
    children = tuple(
        _random_tree(chance, names[low:high], children_max, valid) for low, high in pairwise(bounds)
    )
    highest = max((child.level for child in children if isinstance(child, Branch)), default=0)
    level = highest + chance.choice((1, 1, 1, 2)) if valid else chance.randint(1, 8)
    return Branch(level=level, children=children)


def _with_random_targets(chance: random.Random, topology: Topology) -> Topology:
    chosen: dict[ClusterName, dict[int, list[ClusterName]]] = {}
    for link in plan(topology).everywhere.links:
        target = chance.choice(link.targets)
        chosen.setdefault(link.source, {}).setdefault(link.level, []).append(target)
    clusters = tuple(
        replace(cluster, targets=_frozen(chosen.get(cluster.name, {}).items()))
        for cluster in topology.clusters
    )
    return replace(topology, clusters=clusters)


def _frozen(
    items: Iterable[tuple[int, list[ClusterName]]],
) -> dict[int, tuple[ClusterName, ...]]:
    return {level: tuple(names) for level, names in items}
