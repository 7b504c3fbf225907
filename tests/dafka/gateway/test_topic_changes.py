from __future__ import annotations

from uuid import UUID

import pytest

from dafka.gateway.broker import ErrorCode, KafkaPartition, Topic
from dafka.gateway.catalog import EmptiedPartition, TopicStage, TopicState
from dafka.gateway.topic_changes import AlterTopic, DeleteTopic, MakeTopic, TopicChanges

ORDERS = Topic("orders", 2, UUID(int=7), {})
AGAIN = ORDERS._replace(id=UUID(int=8))
LIVE = TopicState(ORDERS)
DELETED = TopicState(ORDERS, TopicStage.DELETED, 3)
EMPTIED = TopicState(ORDERS, TopicStage.EMPTIED, 5)
GONE = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


@pytest.mark.parametrize(
    ("wanted", "state", "step"),
    [
        (MakeTopic(1, ORDERS), None, LIVE),
        (MakeTopic(1, ORDERS), LIVE, ErrorCode.NONE),
        (MakeTopic(1, AGAIN), LIVE, ErrorCode.TOPIC_ALREADY_EXISTS),
        (MakeTopic(1, AGAIN), DELETED, None),
        (MakeTopic(1, AGAIN), EMPTIED, TopicState(AGAIN, TopicStage.LIVE, 5)),
        (MakeTopic(1, AGAIN._replace(partitions=3)), EMPTIED, ErrorCode.INVALID_PARTITIONS),
        (DeleteTopic(1, "orders", ORDERS.id), None, GONE),
        (DeleteTopic(1, "orders", ORDERS.id), LIVE, LIVE._replace(stage=TopicStage.DELETED)),
        (DeleteTopic(1, "orders", ORDERS.id), DELETED, None),
        (DeleteTopic(1, "orders", ORDERS.id), EMPTIED, ErrorCode.NONE),
        (DeleteTopic(1, "orders", ORDERS.id), TopicState(AGAIN, change=6), ErrorCode.NONE),
        (AlterTopic(1, "orders", {}, whole=False), None, GONE),
        (AlterTopic(1, "orders", {}, whole=False), DELETED, GONE),
        (AlterTopic(1, "orders", {"retention.ms": None}, whole=False), LIVE, ErrorCode.NONE),
    ],
)
def test_what_comes_next_follows_from_what_there_is(wanted, state, step):
    assert wanted.step(state) == step


def test_settings_are_added_or_are_all_there_is():
    state = TopicState(ORDERS._replace(configs={"retention.ms": "5"}), change=2)
    added = AlterTopic(1, "orders", {"max.message.bytes": "7"}, whole=False).step(state)
    assert added.topic.configs == {"retention.ms": "5", "max.message.bytes": "7"}
    assert added.change == 2, "the one that it follows"
    whole = AlterTopic(1, "orders", {"max.message.bytes": "7"}, whole=True).step(state)
    assert whole.topic.configs == {"max.message.bytes": "7"}


def emptied(number, change):
    return EmptiedPartition(KafkaPartition("orders", number), change)


def test_a_change_that_does_not_follow_the_last_is_void():
    changes = TopicChanges()
    altered = TopicState(ORDERS._replace(configs={"retention.ms": "5"}))
    assert changes.take(1, altered) == altered._replace(change=1)
    assert changes.take(2, LIVE) is None, "it did not know of the first"
    assert changes.take(3, LIVE._replace(change=1)) == LIVE._replace(change=3)
    assert changes.take(4, LIVE._replace(change=9)) is None


def test_a_deleted_topic_is_emptied_partition_by_partition():
    changes = TopicChanges()
    deletion = LIVE._replace(stage=TopicStage.DELETED)
    assert changes.take(1, deletion) == deletion._replace(change=1)
    assert changes.take(2, TopicState(AGAIN, change=1)) is None, "it is not empty yet"
    assert changes.take(3, emptied(0, 1)) is None
    assert changes.take(4, emptied(0, 1)) is None, "said twice"
    assert changes.take(5, emptied(1, 7)) is None, "another deletion"
    assert changes.take(6, emptied(1, 1)) == TopicState(ORDERS, TopicStage.EMPTIED, 6)
    assert changes.take(7, emptied(1, 1)) is None
    assert changes.take(8, TopicState(AGAIN, change=6)) == TopicState(AGAIN, change=8)


def test_what_owners_before_have_said_need_not_be_read_again():
    altered = LIVE._replace(change=4)
    changes = TopicChanges([altered, TopicState(AGAIN._replace(name="other"))])
    assert changes.take(2, LIVE) is None, "it was decided then"
    assert changes.take(4, LIVE._replace(change=2)) is None
    assert changes.take(5, LIVE._replace(change=2)) is None, "it is void"
    assert changes.take(6, altered) == LIVE._replace(change=6)
    other = TopicState(AGAIN._replace(name="other"))
    assert changes.take(7, other) == other._replace(change=7)


def test_a_deletion_that_was_said_before_goes_on():
    changes = TopicChanges([DELETED])
    assert changes.take(3, DELETED._replace(change=0)) is None
    assert changes.take(4, TopicState(AGAIN, change=3)) is None
    assert changes.take(5, emptied(0, 3)) is None
    assert changes.take(6, emptied(1, 3)) == EMPTIED._replace(change=6)


def test_nobody_but_owners_says_that_a_topic_is_empty():
    assert TopicChanges().take(1, EMPTIED._replace(change=0)) is None
