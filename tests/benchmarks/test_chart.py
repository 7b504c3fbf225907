from __future__ import annotations

from xml.etree import ElementTree

import pytest

from benchmarks.chart import HEIGHT, WIDTH, Curve, chart, short

SVG = "{http://www.w3.org/2000/svg}"


def power(name, factor, exponent, places=(1, 10, 100, 1_000)):
    return Curve(name, tuple((x, factor * x**exponent) for x in places))


@pytest.mark.parametrize("exponent", [-1.0, 0.0, 0.5, 2.0])
def test_a_power_has_its_exponent(exponent):
    assert power("it", 7, exponent).exponent == pytest.approx(exponent)


def test_a_single_place_has_no_slope():
    with pytest.raises(ValueError, match="no slope of 'it'"):
        _ = Curve("it", ((3, 4),)).exponent


def test_curves_are_drawn_inside_with_their_names_and_exponents():
    curves = [power("records/s", 1e6, -0.5), power("CPU <us>", 0.25, 1)]
    drawn = ElementTree.fromstring(chart("Size & rate", "bytes", curves))
    words = [text.text for text in drawn.iter(f"{SVG}text")]
    assert {"Size & rate", "bytes", "1 k"} <= set(words)
    assert "records/s; exponent -0.50" in words
    assert "CPU <us>; exponent +1.00" in words
    dots = [(float(dot.get("cx")), float(dot.get("cy"))) for dot in drawn.iter(f"{SVG}circle")]
    assert len(dots) == 8
    assert all(0 < x < WIDTH and 0 < y < HEIGHT for x, y in dots)
    first, second = dots[:4], dots[4:]
    assert [x for x, _ in first] == [x for x, _ in second] == sorted(x for x, _ in first)
    assert [y for _, y in first] == sorted(y for _, y in first), "falls: down is more"
    assert [y for _, y in second] == sorted((y for _, y in second), reverse=True)


def test_where_nothing_changes_there_still_is_an_axis():
    ElementTree.fromstring(chart("it", "x", [power("constant", 5, 0)]))


@pytest.mark.parametrize(
    ("value", "words"),
    [
        (0.001, "0.001"),
        (20, "20"),
        (20_000, "20 k"),
        (1e6, "1 M"),
        (2.5e9, "2.5 G"),
        (1e13, "1e+04 G"),
    ],
)
def test_numbers_as_people_say_them(value, words):
    assert short(value) == words
