from io import BytesIO
from itertools import combinations

import pytest
from PIL import Image, ImageFont
from pygraphviz import AGraph

from topology.errors import TooLargeError
from topology.picture import CLUSTERS_MAX, HEIGHT, laid_out, render_png
from topology.render import render_dot
from topology.testing import topology_of, tree_of

PNG = b"\x89PNG\r\n\x1a\n"


def drawn(nested):
    return drawn_of(topology_of(tree_of(nested)))


def placed(topology):
    """Where everything stands, in points."""
    return [*laid_out(AGraph(string=render_dot(topology)), ImageFont.load_default(30)).values()]


def drawn_of(topology):
    octets = render_png(topology)
    assert octets.startswith(PNG)
    with Image.open(BytesIO(octets)) as image:
        image.load()
        return image.copy()


@pytest.mark.parametrize(
    "nested",
    [
        "c1",
        (1, "c1", "c2"),
        (3, (2, "c1", (1, "c2", "c3")), (1, "c4", "c5")),
        (2, (1, "a" * 63, "b.c-d_e"), "c3", "c4"),
    ],
)
def test_a_picture_is_a_png_that_opens(nested):
    image = drawn(nested)
    assert image.mode == "RGB"
    assert len(image.getcolors(maxcolors=1 << 20)) > 3


def test_a_picture_is_white_around_the_tree():
    image = drawn((1, "c1", "c2"))
    width, height = image.size
    for corner in ((0, 0), (width - 1, 0), (0, height - 1), (width - 1, height - 1)):
        assert image.getpixel(corner) == (255, 255, 255)


def test_more_clusters_make_a_higher_picture_and_more_levels_a_wider_one():
    two, three = drawn((1, "c1", "c2")), drawn((1, "c1", "c2", "c3"))
    deep = drawn((2, "c1", (1, "c2", "c3")))
    assert two.height < three.height == deep.height
    assert two.width == three.width < deep.width


def test_twelve_clusters_fit_on_a_page_and_stand_in_the_order_of_the_file():
    """As on paper and in most viewers: what is wider has to be made too small to be read."""
    names = [
        f"eu-{place}-{number}"
        for place in ("north", "east", "south", "west")
        for number in (1, 2, 3)
    ]
    low = [(1, *names[at : at + 3]) for at in range(0, 12, 3)]
    topology = topology_of(tree_of((3, (2, *low[:2]), (2, *low[2:]))))
    image = drawn_of(topology)
    assert image.width <= 1_000
    assert image.height <= 1_500
    nodes = placed(topology)
    clusters = [one for one in nodes if not one.label.startswith("level")]
    assert [one.label for one in sorted(clusters, key=lambda one: one.y)] == names
    assert len({round(one.x) for one in clusters}) == 1
    for one, other in combinations(nodes, 2):
        apart = abs(one.x - other.x) >= (one.width + other.width) / 2
        assert apart or abs(one.y - other.y) > HEIGHT, (one, other)


def test_a_tree_makes_the_same_picture_each_time():
    topology = topology_of(tree_of((2, "c1", (1, "c2", "c3"))))
    assert render_png(topology) == render_png(topology)


@pytest.mark.slow
def test_as_many_clusters_as_fit_are_drawn_and_one_more_is_refused():
    names = [f"c{number}" for number in range(CLUSTERS_MAX + 1)]
    assert drawn((1, *names[:-1])).width > 0
    with pytest.raises(TooLargeError, match=f"cannot draw {CLUSTERS_MAX + 1} clusters.*DOT"):
        render_png(topology_of(tree_of((1, *names))))
