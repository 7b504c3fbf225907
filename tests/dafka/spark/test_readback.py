from __future__ import annotations

import pytest

from dafka.errors import QueryError
from dafka.spark import readback
from dafka.spark.readback import OverlappedError, Published


@pytest.fixture(autouse=True)
def impatient(monkeypatch):
    monkeypatch.setattr("dafka.spark.readback.ANSWER_TIMEOUT_MS", 200)


@pytest.fixture(params=[1, 1 << 20])
def published(make_batch, request, monkeypatch):
    """Two batches, compared apart or together."""
    monkeypatch.setattr(readback, "_PORTION_BYTES", request.param)
    batches = [make_batch([b"0", b"1", b"2"]), make_batch([b"3", b"4"], 3)]
    published = Published(batches[0].partition)
    for batch in batches:
        published.add(batch)
    return published, batches


def test_stores_that_have_it_confirm_it(published, serve, silent):
    noted, batches = published
    whole, part = serve(*batches), serve(batches[0])
    noted.check([whole.endpoint], 1)
    noted.check([silent, part.endpoint, whole.endpoint], 1)
    with pytest.raises(QueryError, match=r"only 1 of 3 stores .*; 2 are needed") as raised:
        noted.check([silent, part.endpoint, whole.endpoint], 2)
    assert raised.value.retriable


def test_other_records_are_told_by_address_and_range(published, serve, make_batch):
    noted, batches = published
    other = serve(batches[0], make_batch([b"4", b"3"], 3))
    with pytest.raises(OverlappedError, match=r"to 4 of partition ABAB\w* of topic 'orders'"):
        noted.check([serve(*batches).endpoint, other.endpoint], 1)
    with pytest.raises(OverlappedError):
        noted.compare([other.endpoint])


def test_nothing_published_is_confirmed_by_anybody(serve, make_batch):
    Published(make_batch([b"0"]).partition).check([serve().endpoint], 1)
