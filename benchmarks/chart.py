"""Curves on two logarithmic axes, as SVG: how something grows is the slope of its line."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING
from xml.sax.saxutils import escape

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

WIDTH, HEIGHT = 720, 420
_LEFT, _RIGHT, _TOP, _BOTTOM = 80, 20, 40, 50
_LINE_HEIGHT = 18
_COLOURS = ("#1f6feb", "#d1242f", "#1a7f37", "#9a6700", "#8250df", "#57606a")
_UNITS = ("", " k", " M", " G")


@dataclass(frozen=True, slots=True)
class Curve:
    """One quantity at several places.

    Attributes:
        name: What it is, with its unit.
        points: Place and value, both above zero, in the order of places.
    """

    name: str
    points: tuple[tuple[float, float], ...]

    @property
    def exponent(self) -> float:
        """Of the power of the place that fits best: the slope of the least squares of logarithms.

        Raises:
            ValueError: There are no two places.
        """
        logs = [(math.log(x), math.log(y)) for x, y in self.points]
        mean_x = math.fsum(x for x, _ in logs) / len(logs)
        mean_y = math.fsum(y for _, y in logs) / len(logs)
        spread = math.fsum((x - mean_x) ** 2 for x, _ in logs)
        if spread == 0:
            raise ValueError(f"no slope of {self.name!r}: it has {self.points}")
        return math.fsum((x - mean_x) * (y - mean_y) for x, y in logs) / spread


@dataclass(frozen=True, slots=True)
class _Axis:
    """Where a number stands, in pixels."""

    low: float
    high: float
    first_px: float
    last_px: float

    def place(self, value: float) -> float:
        share = (math.log10(value) - self.low) / (self.high - self.low)
        return self.first_px + share * (self.last_px - self.first_px)

    def ticks(self) -> list[float]:
        """The powers of ten."""
        return [10.0**power for power in range(math.ceil(self.low), math.floor(self.high) + 1)]


def chart(title: str, across: str, curves: Sequence[Curve]) -> str:
    """Draw curves with their exponents.

    Args:
        title: What it is about.
        across: What grows from left to right.
        curves: At least one, as many as there are colours at most.

    Returns:
        A document of SVG.
    """
    legend = len(curves) * _LINE_HEIGHT
    height = HEIGHT + legend
    x_axis = _axis((x for curve in curves for x, _ in curve.points), _LEFT, WIDTH - _RIGHT)
    y_axis = _axis((y for curve in curves for _, y in curve.points), HEIGHT - _BOTTOM, _TOP)
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" '
        'font-family="sans-serif" font-size="13">',
        f'<rect width="{WIDTH}" height="{height}" fill="white"/>',
        _text(WIDTH / 2, 22, title, anchor="middle", size=16),
        *_grid(x_axis, y_axis),
        _text(WIDTH / 2, HEIGHT - 8, across, anchor="middle"),
    ]
    for number, (curve, colour) in enumerate(zip(curves, _COLOURS, strict=False)):
        parts += _line(curve, colour, x_axis, y_axis)
        y = HEIGHT + (number + 0.5) * _LINE_HEIGHT
        parts.append(f'<rect x="{_LEFT}" y="{y - 9:g}" width="12" height="12" fill="{colour}"/>')
        parts.append(_text(_LEFT + 20, y + 2, f"{curve.name}; exponent {curve.exponent:+.2f}"))
    return "\n".join([*parts, "</svg>", ""])


def short(value: float) -> str:
    """A number as people say it: 1 M, 0.5, 20 k."""
    power = min(max(math.floor(math.log10(value) / 3), 0), len(_UNITS) - 1)
    return f"{value / 1000**power:.3g}{_UNITS[power]}"


def _axis(values: Iterable[float], first_px: float, last_px: float) -> _Axis:
    logs = [math.log10(value) for value in values]
    low, high = math.floor(min(logs)), math.ceil(max(logs))
    return _Axis(low, max(high, low + 1), first_px, last_px)


def _grid(x_axis: _Axis, y_axis: _Axis) -> list[str]:
    parts = []
    for tick in x_axis.ticks():
        x = x_axis.place(tick)
        parts.append(_stroke(x, y_axis.first_px, x, y_axis.last_px))
        parts.append(_text(x, y_axis.first_px + 18, short(tick), anchor="middle"))
    for tick in y_axis.ticks():
        y = y_axis.place(tick)
        parts.append(_stroke(x_axis.first_px, y, x_axis.last_px, y))
        parts.append(_text(x_axis.first_px - 8, y + 4, short(tick), anchor="end"))
    return parts


def _line(curve: Curve, colour: str, x_axis: _Axis, y_axis: _Axis) -> list[str]:
    places = [(x_axis.place(x), y_axis.place(y)) for x, y in curve.points]
    joined = " ".join(f"{x:.1f},{y:.1f}" for x, y in places)
    dots = [f'<circle cx="{x:.1f}" cy="{y:.1f}" r="3.5" fill="{colour}"/>' for x, y in places]
    return [
        f'<polyline points="{joined}" fill="none" stroke="{colour}" stroke-width="2"/>',
        *dots,
    ]


def _stroke(x1: float, y1: float, x2: float, y2: float) -> str:
    return f'<line x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}" stroke="#d0d7de"/>'


def _text(x: float, y: float, words: str, *, anchor: str = "start", size: int = 13) -> str:
    return (
        f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" font-size="{size}">'
        f"{escape(words)}</text>"
    )
