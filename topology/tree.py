"""Questions about the tree as a graph: the only importer of `networkx`."""

from __future__ import annotations

import networkx as nx

from topology.model import Branch, ClusterName, Tree


class TreeGraph:
    """A tree with every branch reachable from the root, clusters at the ends.

    Args:
        tree: May break every rule but one: a cluster stands in it at most once.
    """

    def __init__(self, tree: Tree) -> None:
        self._graph: nx.DiGraph[object] = nx.DiGraph()
        self._levels: dict[object, int] = {}
        self._between: dict[tuple[ClusterName, ClusterName], int] = {}
        self._root = self._add(tree, ())

    def _add(self, tree: Tree, path: tuple[int, ...]) -> object:
        """Branches are known by their path, clusters by their name."""
        if not isinstance(tree, Branch):
            self._graph.add_node(tree)
            return tree
        self._graph.add_node(path)
        self._levels[path] = tree.level
        for index, child in enumerate(tree.children):
            self._graph.add_edge(path, self._add(child, (*path, index)))
        return path

    def levels_above(self, cluster: ClusterName) -> list[int]:
        """Levels of the branches above a cluster, the root's first."""
        way = nx.shortest_path(self._graph, self._root, cluster)
        return [self._levels[node] for node in way[:-1]]

    def level_between(self, one: ClusterName, other: ClusterName) -> int:
        """Level of the lowest branch that has both clusters below it."""
        if (one, other) not in self._between:
            branch = nx.lowest_common_ancestor(self._graph, one, other)
            self._between[one, other] = self._levels[branch]
        return self._between[one, other]

    @property
    def height(self) -> int:
        """Most branches above any cluster."""
        return int(nx.dag_longest_path_length(self._graph)) if len(self._graph) > 1 else 0
