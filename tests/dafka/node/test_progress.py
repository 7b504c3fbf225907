from __future__ import annotations

import pytest

from dafka.groups.events import Handed, PartitionAssigned, Revoke, Revoked
from dafka.model import Batch, Partition, Record
from dafka.node.progress import Hand

A1, B2 = Partition("orders", "A1"), Partition("orders", "B2")


class Holding:
    """A hand whose partition A1 began at 10 and B2 at 0, and what came back from it."""

    def __init__(self):
        self.returned = []
        self.hand = Hand(self.returned.append)
        self.hand.begin(PartitionAssigned(A1, 1, 10))
        self.hand.begin(PartitionAssigned(B2, 2, 0))


@pytest.fixture
def holding():
    return Holding()


@pytest.fixture
def hand(holding):
    return holding.hand


def handed(partition, sequence, count, run, start=None):
    return Handed(Batch(partition, sequence, count, b""), start or sequence, run)


def record(partition, sequence):
    return Record(*partition, sequence, 0, None, b"", (), 0, 0)


def test_nothing_is_processed_before_the_next_is_asked_for(hand):
    assert hand.take(handed(A1, 8, 6, 1, start=10))
    assert hand.processed() == {A1: 10, B2: 0}
    hand.record = record(A1, 10)
    assert hand.processed() == {A1: 10, B2: 0}
    assert hand.positions() == {A1: 11, B2: 0}
    hand.record = record(A1, 11)
    assert hand.processed() == {A1: 11, B2: 0}
    hand.record = record(A1, 13)
    hand.put()
    assert hand.processed() == {A1: 14, B2: 0}


def test_a_batch_that_is_taken_whole_is_processed_whole(hand):
    assert hand.take(handed(A1, 10, 5, 1), whole=True)
    assert hand.processed() == {A1: 10, B2: 0}
    assert hand.positions() == {A1: 15, B2: 0}
    hand.put()
    assert hand.processed() == {A1: 15, B2: 0}


def test_the_rest_of_a_batch_may_be_taken_whole(hand):
    hand.take(handed(A1, 10, 5, 1))
    hand.record = record(A1, 12)
    hand.hold_rest()
    assert hand.processed()[A1] == 12
    hand.put()
    assert hand.processed()[A1] == 15


def test_what_the_application_vouches_for_is_processed_though_it_is_held(hand):
    hand.take(handed(A1, 10, 5, 1))
    hand.record = record(A1, 10)
    assert hand.vouch() == ({A1: 11, B2: 0}, frozenset())
    assert hand.processed()[A1] == 11
    hand.record = record(A1, 11)
    assert hand.processed()[A1] == 11
    hand.take(handed(A1, 15, 5, 1), whole=True)
    hand.vouch()
    assert hand.processed()[A1] == 20


def test_what_belongs_to_an_earlier_run_is_not_taken(hand):
    hand.begin(PartitionAssigned(A1, 3, 20))
    assert not hand.take(handed(A1, 10, 5, 1))
    assert hand.take(handed(A1, 20, 5, 3))


def test_what_is_not_held_is_given_back_at_once(hand):
    hand.take(handed(B2, 0, 5, 2))
    assert hand.revoke(Revoke(7, frozenset({A1}))) == Revoked(7, {A1: 10})
    assert not hand.take(handed(A1, 10, 5, 1))
    assert hand.positions() == {B2: 0}


def test_what_is_held_is_given_back_when_the_application_is_back(holding, hand):
    hand.take(handed(A1, 10, 5, 1))
    hand.record = record(A1, 11)
    assert hand.revoke(Revoke(7, frozenset({A1, B2}))) is None
    assert hand.stopped
    assert holding.returned == []
    hand.put()
    assert holding.returned == [Revoked(7, {A1: 12, B2: 0})]
    assert hand.processed() == {}


def test_what_was_lost_is_told_once(hand):
    hand.take(handed(A1, 10, 5, 1))
    hand.revoke(Revoke(7, frozenset({A1})))
    hand.expel()
    assert hand.stopped
    assert hand.vouch() == ({}, frozenset({A1, B2}))
    assert hand.vouch() == ({}, frozenset())
    hand.put()
    assert not hand.stopped


def test_seeking_stops_what_is_held_and_what_is_on_its_way(hand):
    hand.take(handed(A1, 10, 5, 1))
    assert hand.seek(A1, 3)
    assert hand.stopped
    assert hand.processed()[A1] == 3
    hand.put()
    assert hand.processed()[A1] == 3
    assert not hand.take(handed(A1, 15, 5, 1))
    hand.begin(PartitionAssigned(A1, 4, 3))
    assert hand.take(handed(A1, 3, 5, 4))


def test_seeking_where_nothing_is_to_be_had(hand):
    assert not hand.seek(Partition("orders", "C3"), 3)
