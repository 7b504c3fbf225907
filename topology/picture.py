"""A topology as a PNG: the only importer of `PIL`.

Clusters stand in a row at the bottom; a branch stands above the middle of its children. Pillow
draws and brings a font, so no program like Graphviz has to be installed.
"""

from __future__ import annotations

from io import BytesIO

from topology.errors import TooLargeError
from topology.extras import told_of_extras
from topology.model import Branch, ClusterName, Topology, Tree, leaves

with told_of_extras():
    from PIL import Image, ImageDraw, ImageFont

CLUSTERS_MAX = 100
"""A row of more is wider than image viewers and paper; DOT and Mermaid have tools that scroll."""

_COLUMN_MIN = 150
_ROW = 110
_MARGIN = 40
_PADDING = 14
_FONT_SIZE = 20
_INK = "#1f2933"
_LINE = "#7b8794"
_LEAF = "#d6eaf8"
_BRANCH = "#fdebd0"


def render_png(topology: Topology) -> bytes:
    """Draw the tree; a picture of its own size, on white.

    Raises:
        TooLargeError: It has more than `CLUSTERS_MAX` clusters.
    """
    names = list(leaves(topology.tree))
    if len(names) > CLUSTERS_MAX:
        raise TooLargeError(
            f"cannot draw {len(names)} clusters: a PNG has room for {CLUSTERS_MAX}, use DOT"
        )
    font = ImageFont.load_default(_FONT_SIZE)
    column = max(_COLUMN_MIN, *(int(font.getlength(name)) + 2 * _PADDING + 12 for name in names))
    columns = {name: _MARGIN + column * (index + 0.5) for index, name in enumerate(names)}
    height = _height(topology.tree)
    width = max(column * len(names), int(font.getlength(topology.name)))
    image = Image.new("RGB", (2 * _MARGIN + width, 3 * _MARGIN + _ROW * (height + 1)), "white")
    draw = ImageDraw.Draw(image)
    draw.text((_MARGIN, _MARGIN // 2), topology.name, fill=_INK, font=font)
    _draw(draw, font, topology.tree, columns, height)
    buffer = BytesIO()
    image.save(buffer, "PNG")
    return buffer.getvalue()


def _height(tree: Tree) -> int:
    return 1 + max(map(_height, tree.children)) if isinstance(tree, Branch) else 0


def _draw(
    draw: ImageDraw.ImageDraw,
    font: ImageFont.FreeTypeFont | ImageFont.ImageFont,
    tree: Tree,
    columns: dict[ClusterName, float],
    height: int,
    depth: int = 0,
) -> tuple[float, float]:
    """Draw a subtree; returns the middle of its root."""
    if isinstance(tree, Branch):
        ends = [_draw(draw, font, child, columns, height, depth + 1) for child in tree.children]
        middle = (sum(x for x, _ in ends) / len(ends), _y(depth))
        for end in ends:
            draw.line([(middle[0], middle[1] + 22), (end[0], end[1] - 22)], fill=_LINE, width=2)
        _label(draw, font, middle, f"level {tree.level}", _BRANCH)
        return middle
    middle = (columns[tree], _y(height))
    _label(draw, font, middle, tree, _LEAF)
    return middle


def _y(depth: int) -> float:
    return 2 * _MARGIN + _ROW * (depth + 0.5)


def _label(
    draw: ImageDraw.ImageDraw,
    font: ImageFont.FreeTypeFont | ImageFont.ImageFont,
    middle: tuple[float, float],
    text: str,
    fill: str,
) -> None:
    x, y = middle
    half = draw.textlength(text, font=font) / 2 + _PADDING
    draw.rounded_rectangle([x - half, y - 22, x + half, y + 22], 10, fill=fill, outline=_LINE)
    draw.text(middle, text, fill=_INK, font=font, anchor="mm")
