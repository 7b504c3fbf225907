"""A topology as a PNG: the only importer of `PIL` and `pygraphviz`.

Graphviz says where everything of its graph is, Pillow draws and brings a font: neither a program
nor fonts have to be installed.
"""

from __future__ import annotations

from io import BytesIO
from typing import NamedTuple

from topology.errors import TooLargeError
from topology.extras import told_of_extras
from topology.model import Topology, leaves
from topology.render import render_dot

with told_of_extras():
    from PIL import Image, ImageDraw, ImageFont
    from pygraphviz import AGraph

CLUSTERS_MAX = 100
"""A column of more is higher than viewers and paper; DOT and Mermaid have tools that scroll."""

_SCALE = 2
"""Pixels for each of Graphviz's points: small print is sharp on today's screens."""

HEIGHT = 34
"""Of a box, in points."""

_MARGIN = 24
_PADDING = 12
_POINTS_PER_INCH = 72
_FONT_SIZE = 15
_INK = "#1f2933"
_LINE = "#7b8794"
_LEAF = "#d6eaf8"
_BRANCH = "#fdebd0"


class Box(NamedTuple):
    """A cluster or a branch; its middle and its width in points, from the upper left corner."""

    label: str
    x: float
    y: float
    width: float
    fill: str


def render_png(topology: Topology) -> bytes:
    """Draw the tree; a picture of its own size, on white.

    Raises:
        TooLargeError: It has more than `CLUSTERS_MAX` clusters.
    """
    clusters = len(list(leaves(topology.tree)))
    if clusters > CLUSTERS_MAX:
        raise TooLargeError(
            f"cannot draw {clusters} clusters: a PNG has room for {CLUSTERS_MAX}, use DOT"
        )
    font = ImageFont.load_default(_FONT_SIZE * _SCALE)
    graph = AGraph(string=render_dot(topology))
    nodes = laid_out(graph, font)
    width = max(*(node.x + node.width / 2 for node in nodes.values()), _width(topology.name, font))
    height = max(node.y for node in nodes.values()) + HEIGHT / 2
    size = (round((width + 2 * _MARGIN) * _SCALE), round((height + 2 * _MARGIN) * _SCALE))
    image = Image.new("RGB", size, "white")
    draw = ImageDraw.Draw(image)
    draw.text(_pixels(0, 0), topology.name, fill=_INK, font=font, anchor="lm")
    for parent, child in graph.edges():
        _branch(draw, nodes[parent], nodes[child])
    for node in nodes.values():
        _label(draw, font, node)
    buffer = BytesIO()
    image.save(buffer, "PNG")
    return buffer.getvalue()


def laid_out(graph: AGraph, font: ImageFont.FreeTypeFont | ImageFont.ImageFont) -> dict[str, Box]:
    """Where Graphviz puts every node, by its name, below a line for the title."""
    labels = {str(node): node.attr["label"] for node in graph.nodes()}
    for node in graph.nodes():
        width = _width(labels[str(node)], font) + 2 * _PADDING
        # Without a label: Graphviz would look for fonts to measure it with.
        node.attr.update(
            label="",
            fixedsize="true",
            width=str(width / _POINTS_PER_INCH),
            height=str(HEIGHT / _POINTS_PER_INCH),
        )
    graph.layout("dot")
    top = float(graph.graph_attr["bb"].split(",")[3])
    found = {}
    for node in graph.nodes():
        x, y = map(float, node.attr["pos"].split(","))
        fill = _BRANCH if node.attr["shape"] == "ellipse" else _LEAF
        width = float(node.attr["width"]) * _POINTS_PER_INCH
        found[str(node)] = Box(labels[str(node)], x, top - y + HEIGHT, width, fill)
    return found


def _width(text: str, font: ImageFont.FreeTypeFont | ImageFont.ImageFont) -> float:
    """Of a text, in points."""
    return font.getlength(text) / _SCALE


def _pixels(x: float, y: float) -> tuple[int, int]:
    return (round((x + _MARGIN) * _SCALE), round((y + _MARGIN) * _SCALE))


def _branch(draw: ImageDraw.ImageDraw, parent: Box, child: Box) -> None:
    """A line with two corners: those of all children of a branch share their first half."""
    begin, end = parent.x + parent.width / 2, child.x - child.width / 2
    corner = begin + 12
    way = [(begin, parent.y), (corner, parent.y), (corner, child.y), (end, child.y)]
    draw.line([_pixels(x, y) for x, y in way], fill=_LINE, width=2 * _SCALE, joint="curve")


def _label(
    draw: ImageDraw.ImageDraw, font: ImageFont.FreeTypeFont | ImageFont.ImageFont, node: Box
) -> None:
    box = [
        _pixels(node.x - node.width / 2, node.y - HEIGHT / 2),
        _pixels(node.x + node.width / 2, node.y + HEIGHT / 2),
    ]
    draw.rounded_rectangle(box, 8 * _SCALE, fill=node.fill, outline=_LINE, width=_SCALE)
    draw.text(_pixels(node.x, node.y), node.label, fill=_INK, font=font, anchor="mm")
