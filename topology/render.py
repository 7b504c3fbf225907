"""A topology as text, Mermaid or Graphviz DOT."""

from __future__ import annotations

from typing import TYPE_CHECKING

from topology.model import Branch, Topology, Tree

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
        yield f"{first}{cluster.name}  ·  id {cluster.id}  ·  tower {cluster.towers[0]}{note}"
        return
    yield f"{first}level {tree.level}"
    for index, child in enumerate(tree.children):
        last = index == len(tree.children) - 1
        arm, space = ("└── ", "    ") if last else ("├── ", "│   ")
        yield from _text_lines(topology, child, rest + arm, rest + space)


def render_mermaid(topology: Topology) -> str:
    """A Mermaid flowchart, as Markdown viewers draw it."""
    lines = ["flowchart TD"]
    for node, label, parent in _nodes(topology.tree):
        shape = f'(["{_quoted(label)}"])' if label.startswith("level ") else f'["{_quoted(label)}"]'
        lines.append(f"    {node}{shape}")
        if parent:
            lines.append(f"    {parent} --- {node}")
    return "\n".join(lines)


def render_dot(topology: Topology) -> str:
    """A Graphviz graph."""
    lines = [f'graph "{_quoted(topology.name)}" {{', "    node [fontname=sans];"]
    for node, label, parent in _nodes(topology.tree):
        shape = "ellipse" if label.startswith("level ") else "box"
        lines.append(f'    {node} [label="{_quoted(label)}", shape={shape}];')
        if parent:
            lines.append(f"    {parent} -- {node};")
    return "\n".join([*lines, "}"])


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
