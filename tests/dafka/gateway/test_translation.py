"""Offsets become positions, and positions an offset."""

from __future__ import annotations

import pytest

from dafka.gateway.broker import KafkaPartition, Offsets
from dafka.gateway.commits import OFFSETS, REACHED, row_of
from dafka.gateway.ledger import Ledger
from dafka.gateway.translation import OffsetTranslation, OwnedLedger
from dafka.groups.commit import Commit, CommitKey
from dafka.model import Partition

FIRST = KafkaPartition("orders", 0)
GROUP = "billing"


def key(place):
    return CommitKey(GROUP, place)


def offset(position, epoch=1, commit_ms=1):
    return key(row_of(OFFSETS, FIRST)), Commit(position, epoch, commit_ms)


def position(address, sequence, epoch=1, commit_ms=1):
    return key(Partition("orders", address)), Commit(sequence, epoch, commit_ms)


class Owner:
    """An owner of the partition: records of A, B, A, B, two each."""

    def __init__(self, shown=8, topics=("orders",), rows_max=100):
        self.topics = set(topics)
        self.translation = OffsetTranslation(lambda topic: int(topic in self.topics), rows_max)
        self.ledger = Ledger()
        self.shown = shown
        for address, first in (("A", 0), ("B", 0), ("A", 2), ("B", 2)):
            self.ledger.append(address, first, 2)

    def told(self, *commits):
        """What it adds to these: positions by address, and the offset worked out."""
        self.translation.take(commits)
        owned = {FIRST: OwnedLedger(self.ledger, Offsets(0, self.shown))}
        added = {
            one.partition.address if one.partition.topic == "orders" else one.partition.topic: there
            for one, there in self.translation.work(owned)
        }
        added.pop(OFFSETS, None)  # said again before positions
        return {name: there.position for name, there in added.items()}


@pytest.fixture
def owner():
    return Owner()


def test_an_offset_becomes_positions_of_what_moved(owner):
    assert owner.told(offset(3)) == {"A": 2, "B": 1}
    assert owner.told() == {}
    assert owner.told(offset(4, commit_ms=2)) == {"B": 2}
    assert owner.told(offset(4, commit_ms=3)) == {}
    assert owner.told(offset(1, commit_ms=4)) == {"A": 1, "B": 0}
    assert owner.told(offset(None, commit_ms=5)) == {"A": None, "B": None}


def test_positions_have_the_version_of_the_offset_and_come_after_it(owner):
    owner.translation.take([offset(1, 7, 9)])
    added = owner.translation.work({FIRST: OwnedLedger(owner.ledger, Offsets(0, 8))})
    assert added == [offset(1, 7, 9), position("A", 1, 7, 9)]


def test_positions_that_are_newer_become_an_offset(owner):
    assert owner.told(offset(1)) == {"A": 1}
    assert owner.told(position("A", 2, 2)) == {REACHED: 2}
    assert owner.told(position("B", 1, 2, 2)) == {REACHED: 3}
    assert owner.told(position("B", 2, 2, 3), position("A", 4, 2, 3)) == {REACHED: 6}
    assert owner.told(position("A", 1, 2, 4)) == {REACHED: 1}


def test_what_is_found_later_holds_also_where_it_is_less(owner):
    owner.translation.take([position("A", 4, 2, 5), position("B", 4, 1, 1)])
    owned = {FIRST: OwnedLedger(owner.ledger, Offsets(0, 8))}
    ((_, first),) = owner.translation.work(owned)
    owner.translation.take([position("B", 0, 2, 5)])
    ((_, then),) = owner.translation.work(owned)
    assert (first.position, then.position) == (8, 2)
    assert then.rank() > first.rank()


def test_positions_that_are_all_forgotten_are_no_offset(owner):
    assert owner.told(position("A", 2, 2)) == {REACHED: 2}
    assert owner.told(position("A", None, 3)) == {REACHED: None}


def test_nothing_is_found_beyond_what_clients_were_shown():
    owner = Owner(shown=3)
    assert owner.told(position("A", 4, 2), position("B", 4, 2)) == {REACHED: 3}
    owner.shown = 5
    assert owner.told() == {REACHED: 5}
    owner.shown = 8
    assert owner.told() == {REACHED: 8}
    owner.ledger.append("C", 0, 1)
    owner.shown = 9
    assert owner.told() == {}


def test_who_was_shown_less_than_the_client_takes_nothing_back():
    owner = Owner(shown=3)
    assert owner.told(position("A", 4), position("B", 1), offset(8, commit_ms=2)) == {}
    owner.shown = 8
    assert owner.told() == {"B": 4}


def test_who_goes_on_from_what_was_found_keeps_what_positions_say(owner):
    assert owner.told(position("A", 4, 2), position("B", 1, 2)) == {REACHED: 3}
    assert owner.told(offset(4, 3)) == {"B": 2}
    assert owner.told(offset(2, 3, 2)) == {"B": 0}


def test_an_epoch_is_said_though_nothing_moved(owner):
    assert owner.told(offset(3)) == {"A": 2, "B": 1}
    assert owner.told(offset(3, 2)) == {"A": 2}
    assert owner.told(offset(3, 2, 2)) == {}
    fresh = Owner()
    assert fresh.told(offset(0)) == {"A": 0}


def test_an_offset_of_an_empty_partition_is_said_once_there_is_something():
    owner = Owner(shown=0)
    assert owner.told(offset(0)) == {}
    owner.shown = 8
    assert owner.told() == {"A": 0}


def test_another_owner_finds_out_what_is_missing(owner):
    said = [position("A", 2), position("B", 2)]
    assert owner.told(*said, offset(6, commit_ms=2)) == {"A": 4}
    assert owner.translation.work({}) == []
    assert owner.told(offset(7, commit_ms=3)) == {"B": 3}


def test_topics_that_come_later_have_their_commits():
    owner = Owner(topics=())
    assert owner.told(position("A", 2), offset(1)) == {}
    assert owner.translation.groups() == []
    owner.topics = {"orders"}
    owner.translation.catalogued()
    assert owner.translation.groups() == [GROUP]
    assert owner.told() == {}
    assert owner.told(position("A", 3, 2)) == {REACHED: 2}


def test_groups_are_those_with_an_offset(owner):
    owner.told(offset(3))
    assert owner.translation.groups() == [GROUP]
    assert owner.translation.epoch_of(GROUP) == 1
    owner.told(offset(None, 4))
    assert owner.translation.groups() == []
    assert owner.translation.epoch_of(GROUP) == 4
    assert owner.translation.epoch_of("nobody") == 0


def test_only_so_many_commits_are_followed():
    owner = Owner(rows_max=2)
    owner.translation.take([position("A", 1), position("B", 1)])
    assert not owner.translation.full
    owner.translation.take([position("C", 1, 9), position("A", 2, 2)])
    assert owner.translation.full
    assert owner.translation.epoch_of(GROUP) == 2
    other = CommitKey("other", row_of(OFFSETS, FIRST))
    owner.translation.take([(other, Commit(1, 1, 1))])
    assert [*owner.translation._standings[FIRST]] == [GROUP], "nothing is kept of others"


def test_how_far_a_group_is_behind_what_clients_were_told_of(owner):
    def behind():
        owned = {FIRST: OwnedLedger(owner.ledger, Offsets(2, owner.shown))}
        return list(owner.translation.behind(owned))

    assert behind() == []
    owner.told(offset(3))
    assert behind() == [(GROUP, 5)]
    owner.told(offset(1, commit_ms=2))
    assert behind() == [(GROUP, 6)]  # retention has taken the rest
    owner.told(offset(9, commit_ms=3))
    assert behind() == [(GROUP, 0)]
    owner.told(position("A", 4, 2), position("B", 1, 2))
    assert behind() == [(GROUP, 5)]  # by the offset that positions amount to
    owner.told(offset(None, epoch=3))
    assert behind() == []
