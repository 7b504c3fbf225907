"""A topology as text, Mermaid or Graphviz DOT."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from topology.model import Branch, Topology, Tree
from topology.plan import plan
from topology.slots import shown_slots

if TYPE_CHECKING:
    from collections.abc import Iterator


def render_text(topology: Topology) -> str:
    """The tree with its levels and clusters, for a terminal."""
    lines = [topology.name, *_text_lines(topology, topology.tree, "", "")]
    lines += [f"{rule.topics!r} on {', '.join(rule.clusters)} only" for rule in topology.placement]
    return "\n".join(lines)


def _text_lines(topology: Topology, tree: Tree, first: str, rest: str) -> Iterator[str]:
    if not isinstance(tree, Branch):
        cluster = topology.cluster(tree)
        note = "  ·  only receives" if cluster.receive_only else ""
        if cluster.controlled:
            note += f"  ·  replicas {', '.join(one.listen for one in cluster.replicas)}"
        if cluster.shared_out:
            parts = Counter(shown_slots(store.slots) for store in cluster.stores)
            shown = (f"{part} on {stores}" for part, stores in parts.items())
            note += f"  ·  slots {', '.join(shown)}"
        yield f"{first}{cluster.name}  ·  id {cluster.id}  ·  tower {cluster.towers[0]}{note}"
        return
    yield f"{first}level {tree.level}"
    for index, child in enumerate(tree.children):
        last = index == len(tree.children) - 1
        arm, space = ("└── ", "    ") if last else ("├── ", "│   ")
        yield from _text_lines(topology, child, rest + arm, rest + space)


def render_mermaid(topology: Topology) -> str:
    """A Mermaid flowchart, as Markdown viewers draw it.

    Levels are boxes in boxes, so that they stay together whatever links there are; arrows are
    links, with their level.
    """
    names = {label: node for node, label, _ in _nodes(topology.tree)}
    lines = ["flowchart LR", *_boxes(topology.tree, "n", "    ")]
    ways = {(link.source, link.target, link.level): None for link in plan(topology).links}
    for source, target, level in ways:
        back = (target, source, level) in ways
        if not back or names[source] < names[target]:
            arrow = "<-->" if back else "-->"
            lines.append(f"    {names[source]} {arrow}|{level}| {names[target]}")
    return "\n".join(lines)


def _boxes(tree: Tree, name: str, indent: str) -> Iterator[str]:
    """A subtree as Mermaid draws it: a cluster, or a box around what is below a branch."""
    if not isinstance(tree, Branch):
        yield f'{indent}{name}["{_quoted(tree)}"]'
        return
    yield f'{indent}subgraph {name}["level {tree.level}"]'
    for index, child in enumerate(tree.children):
        yield from _boxes(child, f"{name}_{index}", indent + "    ")
    yield f"{indent}end"


def render_dot(topology: Topology) -> str:
    """A Graphviz graph, from the root on the left to the clusters, one below the other."""
    lines = [
        f'graph "{_quoted(topology.name)}" {{',
        "    rankdir=LR; ordering=out;",
        "    node [fontname=sans];",
    ]
    for node, label, parent in _nodes(topology.tree):
        shape = "ellipse" if _is_branch(label) else "box"
        lines.append(f'    {node} [label="{_quoted(label)}", shape={shape}];')
        if parent:
            lines.append(f"    {parent} -- {node};")
    clusters = (node for node, label, _ in _nodes(topology.tree) if not _is_branch(label))
    return "\n".join([*lines, f"    {{rank=same; {'; '.join(clusters)}}}", "}"])


def _is_branch(label: str) -> bool:
    # No name of a cluster has a space.
    return label.startswith("level ")


def _nodes(tree: Tree, name: str = "n", parent: str = "") -> Iterator[tuple[str, str, str]]:
    """Yield every tree node: an identifier, a label, the identifier of its parent."""
    if not isinstance(tree, Branch):
        yield name, tree, parent
        return
    yield name, f"level {tree.level}", parent
    for index, child in enumerate(tree.children):
        yield from _nodes(child, f"{name}_{index}", name)


def _quoted(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"')
