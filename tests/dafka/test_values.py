from __future__ import annotations

import gc
import pickle

import pytest

from dafka.model import Batch, Partition
from dafka.values import replace
from dafka.wire.messages import Head, MessageId

HEAD = Head("orders", "AA", 7)


def test_they_are_equal_by_their_fields_and_can_be_kept_in_sets():
    assert Head("orders", "AA", 7, stored=False) == HEAD
    assert {HEAD, Head("orders", "AA", 7)} == {HEAD}
    assert Head("orders", "AA", 8) != HEAD


def test_nobody_can_change_them():
    with pytest.raises(AttributeError):
        HEAD.sequence = 8  # type: ignore[misc]
    assert replace(HEAD, sequence=8) == Head("orders", "AA", 8)
    assert HEAD.sequence == 7


def test_what_belongs_to_the_kind_is_no_field():
    assert HEAD.id is MessageId.HEAD
    assert repr(HEAD) == "Head(topic='orders', address='AA', sequence=7, stored=False)"


def test_the_collector_does_not_look_at_them():
    assert not gc.is_tracked(Batch(Partition("orders", "AA"), 0, 1, b"x"))


def test_they_travel_between_processes():
    batch = Batch(Partition("orders", "AA"), 3, 2, b"x")
    assert pickle.loads(pickle.dumps(batch)) == batch
    assert batch.end == 5
