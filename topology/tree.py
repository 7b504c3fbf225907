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
        self._ways: dict[ClusterName, list[object]] = {}
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
        return [self._levels[node] for node in self._way(cluster)[:-1]]

    def level_between(self, one: ClusterName, other: ClusterName) -> int:
        """Level of the lowest branch that has both clusters below it."""
        pairs = zip(self._way(one)[:-1], self._way(other)[:-1], strict=False)
        # Two ways from the root part once; `nx.lowest_common_ancestor` takes 0.4 ms for each pair.
        return [self._levels[node] for node, same in pairs if node == same][-1]

    def _way(self, cluster: ClusterName) -> list[object]:
        """The nodes from the root to a cluster, both included."""
        if cluster not in self._ways:
            self._ways[cluster] = nx.shortest_path(self._graph, self._root, cluster)
        return self._ways[cluster]

    @property
    def height(self) -> int:
        """Most branches above any cluster."""
        return int(nx.dag_longest_path_length(self._graph)) if len(self._graph) > 1 else 0
