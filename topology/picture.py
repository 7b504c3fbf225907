"""A topology as a PNG: the only importer of `PIL`.

Clusters stand in a row at the bottom; a branch stands above the middle of its children.
"""

from __future__ import annotations

from io import BytesIO

from PIL import Image, ImageDraw, ImageFont

from topology.model import Branch, ClusterName, Topology, Tree, leaves

_COLUMN = 190
_ROW = 110
_MARGIN = 40
_FONT_SIZE = 20
_INK = "#1f2933"
_LINE = "#7b8794"
_LEAF = "#d6eaf8"
_BRANCH = "#fdebd0"


def render_png(topology: Topology) -> bytes:
    """Draw the tree; a picture of its own size, on white."""
    columns = {name: index for index, name in enumerate(leaves(topology.tree))}
    height = _height(topology.tree)
    size = (2 * _MARGIN + _COLUMN * len(columns), 3 * _MARGIN + _ROW * (height + 1))
    image = Image.new("RGB", size, "white")
    draw = ImageDraw.Draw(image)
    font = ImageFont.load_default(_FONT_SIZE)
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
    columns: dict[ClusterName, int],
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
    middle = (_MARGIN + _COLUMN * (columns[tree] + 0.5), _y(height))
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
    half = min(draw.textlength(text, font=font) / 2 + 14, _COLUMN / 2 - 4)
    draw.rounded_rectangle([x - half, y - 22, x + half, y + 22], 10, fill=fill, outline=_LINE)
    draw.text(middle, text, fill=_INK, font=font, anchor="mm")
