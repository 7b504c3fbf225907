from io import BytesIO

import pytest
from PIL import Image

from topology.errors import TooLargeError
from topology.picture import CLUSTERS_MAX, render_png
from topology.testing import topology_of, tree_of

PNG = b"\x89PNG\r\n\x1a\n"


def drawn(nested):
    octets = render_png(topology_of(tree_of(nested)))
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


def test_more_clusters_make_a_wider_picture_and_more_levels_a_higher_one():
    two, three = drawn((1, "c1", "c2")), drawn((1, "c1", "c2", "c3"))
    deep = drawn((2, "c1", (1, "c2", "c3")))
    assert two.width < three.width == deep.width
    assert two.height == three.height < deep.height


def test_a_tree_makes_the_same_picture_each_time():
    topology = topology_of(tree_of((2, "c1", (1, "c2", "c3"))))
    assert render_png(topology) == render_png(topology)


@pytest.mark.slow
def test_as_many_clusters_as_fit_are_drawn_and_one_more_is_refused():
    names = [f"c{number}" for number in range(CLUSTERS_MAX + 1)]
    assert drawn((1, *names[:-1])).width > 0
    with pytest.raises(TooLargeError, match=f"cannot draw {CLUSTERS_MAX + 1} clusters.*DOT"):
        render_png(topology_of(tree_of((1, *names))))
