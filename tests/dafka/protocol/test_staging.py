from __future__ import annotations

import pytest

from dafka.model import Partition
from dafka.protocol.staging import STAGED_BYTES_MAX, Staged
from tests.support.batches import make_batch

P, Q = Partition("orders", "AA"), Partition("orders", "BB")
HALF = bytes(STAGED_BYTES_MAX // 2)


@pytest.fixture
def staged():
    return Staged()


def test_it_is_full_once_it_has_as_much_as_is_written_at_once(staged):
    staged.add(make_batch([HALF], 0, P))
    assert not staged.full
    staged.add(make_batch([HALF], 1, P))
    assert staged.full


def test_what_is_taken_out_is_in_order_and_leaves_nothing(staged):
    batches = tuple(make_batch([HALF], sequence, P) for sequence in range(2))
    for one in batches:
        staged.add(one)
    assert staged.take() == batches
    assert not staged
    assert not staged.full


def test_what_a_partition_has_there_is_dropped_and_counts_no_more(staged):
    for partition in (P, Q, P):
        staged.add(make_batch([HALF], 0, partition))
    staged.drop(P)
    assert [one.partition for one in staged] == [Q]
    assert not staged.full
