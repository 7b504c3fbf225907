from __future__ import annotations

import pytest

from dafka.errors import MisuseError
from dafka.protocol.foreign import Shape
from dafka.transport.wiring import Wiring, Wirings


@pytest.mark.parametrize(
    ("wiring", "content", "shape"),
    [
        (Wiring(), None, Shape.BATCHES),
        (Wiring("rfc46", classic=True), None, Shape.CLASSIC),
        (Wiring("libdafka"), None, Shape.CLASSIC),
        (Wiring("libdafka", classic=False), None, Shape.MARKED),
        (Wiring("libdafka"), "batches", Shape.MARKED),
        (Wiring(), "classic", Shape.CLASSIC),
        (Wiring(), "raw", Shape.RAW),
        (Wiring("libdafka"), "raw", Shape.RAW),
    ],
)
def test_how_a_node_publishes(wiring, content, shape):
    assert wiring.shape(content=content) is shape


def test_a_dialect_that_is_given_counts_before_the_declared_one():
    assert Wiring("rfc46").shape(wire="libdafka") is Shape.CLASSIC


def test_an_unknown_content_is_refused():
    with pytest.raises(MisuseError, match="content 'json' is not known: batches, classic or raw"):
        Wiring().shape(content="json")


def test_what_is_declared_is_found_by_tower():
    wirings = Wirings()
    wirings.declare(["tcp://a:1", "tcp://a:3"], Wiring("libdafka"))
    assert wirings.of("tcp://a:3") == Wiring("libdafka")
    assert wirings.of("tcp://b:1") == Wiring()
    with pytest.raises(MisuseError, match="wire 'kafka' is not known"):
        wirings.declare(["tcp://b:1"], Wiring("kafka"))
