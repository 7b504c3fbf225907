from __future__ import annotations

import pytest

from dafka.errors import QueryError, RefusedError
from dafka.model import Partition
from dafka.query.listing import Listing
from dafka.storage.log import ChangeOrder
from tests.support.batches import make_batch
from tests.support.listed_store import ListedStore

A, B = Partition("orders", "A"), Partition("orders", "B")


class Older(ListedStore):
    """One of before there were changes to ask for."""

    def changes(self, since, topic=None):
        raise RefusedError("query message")


@pytest.fixture
def store():
    return ListedStore()


def grow(store, partition, sequence=0):
    store.log.append([make_batch([b"1", b"2"], sequence, partition)])


def test_everything_once_and_then_what_has_changed(store):
    grow(store, A)
    listing = Listing()
    assert listing.read(store) == ({A: range(2)}, True)
    assert listing.read(store) == ({}, False)
    grow(store, B)
    assert listing.read(store) == ({B: range(2)}, False)
    store.log.append([], trims={A: 2})
    store.log.append([], forgets=[A])
    assert listing.read(store) == ({A: None}, False)
    assert store.listed == [None]


def test_of_one_topic(store):
    grow(store, A)
    grow(store, Partition("other", "A"))
    listing = Listing("other")
    assert listing.read(store) == ({Partition("other", "A"): range(2)}, True)
    grow(store, A, 2)
    assert listing.read(store) == ({}, False)
    assert store.listed == ["other"]


def test_a_store_that_was_opened_anew_lists_everything(store):
    listing = Listing()
    listing.read(store)
    grow(store, A)
    store.log.changes = ChangeOrder("another opening")
    assert listing.read(store) == ({A: range(2)}, True)
    assert listing.read(store) == ({}, False)


def test_one_that_cannot_tell_what_has_changed_lists_everything_each_time():
    store, listing = Older(), Listing()
    grow(store, A)
    for _ in range(2):
        assert listing.read(store) == ({A: range(2)}, True)


def test_what_was_not_answered_is_told_the_next_time(store, monkeypatch):
    listing = Listing()
    listing.read(store)
    grow(store, A)
    with monkeypatch.context() as patch:
        patch.setattr(store, "changes", lambda *_: (_ for _ in ()).throw(QueryError("away")))
        with pytest.raises(QueryError, match="away"):
            listing.read(store)
    assert listing.read(store) == ({A: range(2)}, False)
