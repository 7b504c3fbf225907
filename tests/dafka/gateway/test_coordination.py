"""Which groups a gateway coordinates, and when a commit counts."""

from __future__ import annotations

import pytest

from dafka.gateway.broker import ErrorCode, KafkaPartition
from dafka.gateway.commits import OFFSETS, row_of
from dafka.gateway.coordination import COORDINATED, WAITING_MAX, Coordination, coordinated_in
from dafka.gateway.effects import CommitOffsets, Coordinating, OffsetsCommitted
from dafka.groups.commit import TOPIC, decode
from dafka.model import Partition
from dafka.records.batch import raw_records

GROUP = "billing"
PLACE = row_of(OFFSETS, KafkaPartition("orders", 0))
MINE = coordinated_in(GROUP)
WALL_MS = 1_000


def wanted(token=1, offset=5, epoch=3, known=None, metadata=""):
    return CommitOffsets(token, GROUP, epoch, {PLACE: (offset, metadata)}, WALL_MS, known)


@pytest.fixture
def coordination():
    there = Coordination("AB")
    there.hold([MINE], 3)
    return there


def test_every_gateway_says_the_same_of_a_group():
    assert coordinated_in("billing") == 42
    assert {coordinated_in(f"group-{number}") for number in range(1_000)} == set(range(COORDINATED))
    assert 0 <= coordinated_in("\ud800") < COORDINATED


def test_an_ownership_keeps_its_epoch_while_it_lasts():
    there = Coordination("AB")
    assert there.hold([1, 2], 3) == [Coordinating({1: 3, 2: 3})]
    assert there.hold([1, 2], 4) == []
    assert there.hold([1, 2, 5], 5) == [Coordinating({1: 3, 2: 3, 5: 5})]
    assert there.keep([2, 7]) == [Coordinating({2: 3})]
    assert there.hold([1, 2], 6) == [Coordinating({2: 3, 1: 6})]


def test_a_commit_is_above_all_that_a_majority_knew(coordination):
    refused = coordination.commit(wanted(), 0)
    assert refused == OffsetsCommitted(1, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
    ((key, commit),) = coordination.commit(wanted(known=10, metadata="m"), 0)
    assert key == (GROUP, PLACE)
    assert (commit.position, commit.epoch, commit.metadata) == (5, 13, "m")
    ((_, later),) = coordination.commit(wanted(2), 13)
    assert (later.epoch, later.commit_ms) == (13, WALL_MS + 1)
    ((_, above),) = coordination.commit(wanted(3), 20)
    assert above.epoch == 23


def test_it_is_answered_once_it_is_stored(coordination):
    for token in (1, 2):
        coordination.commit(wanted(token, known=0), 0)
    (batch,) = coordination.flush()
    assert (batch.partition, batch.sequence, batch.count) == (Partition(TOPIC, "AB"), 0, 2)
    records = [decode(one.key, one.value) for one in raw_records(batch.content)]
    assert [commit.position for _, commit in records] == [5, 5]
    assert coordination.flush() == []
    assert coordination.stored(1, leased=True) == [OffsetsCommitted(1, ErrorCode.NONE)]
    assert coordination.stored(2, leased=True) == [OffsetsCommitted(2, ErrorCode.NONE)]
    coordination.commit(wanted(3), 0)
    (batch,) = coordination.flush()
    assert batch.sequence == 2


def test_who_has_lost_the_group_does_not_acknowledge(coordination):
    lost = ErrorCode.NOT_COORDINATOR
    coordination.commit(wanted(1, known=0), 0)
    assert coordination.stored(1, leased=False) == [OffsetsCommitted(1, lost)]
    coordination.commit(wanted(2), 0)
    coordination.keep([])
    coordination.hold([MINE], 4)
    assert coordination.stored(2, leased=True) == [OffsetsCommitted(2, lost)]
    assert coordination.commit(wanted(3), 0) == OffsetsCommitted(3, lost)
    unread = coordination.commit(wanted(4, epoch=4), 0)
    assert unread == OffsetsCommitted(4, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)


def test_what_cannot_be_kept_is_refused(coordination):
    refused = coordination.commit(wanted(known=0, metadata="x" * 5_000), 0)
    assert refused == OffsetsCommitted(1, ErrorCode.INVALID_REQUEST)
    nothing = CommitOffsets(2, GROUP, 3, {}, WALL_MS)
    assert coordination.commit(nothing, 0) == OffsetsCommitted(2, ErrorCode.NONE)
    assert coordination.flush() == []


def test_only_so_many_commits_wait(coordination):
    for token in range(WAITING_MAX):
        assert isinstance(coordination.commit(wanted(token, known=0), 0), list)
    refused = coordination.commit(wanted(9), 0)
    assert refused == OffsetsCommitted(9, ErrorCode.COORDINATOR_NOT_AVAILABLE)
