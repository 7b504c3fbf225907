from __future__ import annotations

import pytest

from dafka.gateway.broker import ErrorCode, KafkaPartition, Leader
from dafka.gateway.wire import SERVED, Api
from dafka.limits import COMMIT_METADATA_BYTES_MAX
from tests.support.kafka_groups import KafkaGroups, run

FIRST, SECOND = ("orders", 0), ("orders", 1)


async def with_topics(**settings):
    groups = KafkaGroups(**settings)
    for topic in ("orders", "other"):
        await groups.broker.create(topic, 2, {})
    return groups


@pytest.mark.parametrize("version", SERVED[Api.OFFSET_COMMIT])
def test_what_a_member_commits_holds_in_every_version(version):
    async def play():
        groups = await with_topics()
        member, generation = await groups.settled()
        told = await groups.commit({0: 7}, member, generation, version=version, metadata="note")
        assert told == {FIRST: 0}
        commit = (await groups.broker.committed("g"))[KafkaPartition("orders", 0)]
        assert commit == (7, 4 if version >= 6 else -1, "note")
        told = await groups.commit({0: 8}, member, generation + 1, version=version)
        assert told == {FIRST: ErrorCode.ILLEGAL_GENERATION}
        assert await groups.held() == {FIRST: 7}

    run(play())


@pytest.mark.parametrize("version", SERVED[Api.OFFSET_FETCH])
def test_what_is_committed_is_fetched_in_every_version(version):
    async def play():
        groups = await with_topics()
        assert await groups.commit({1: 7}, metadata="note") == {SECOND: 0}
        (topic,) = (await groups.fetch({"orders": [0, 1]}, version=version)).topics
        found = [
            (one.partition_index, one.committed_offset, one.metadata, one.error_code)
            for one in topic.partitions
        ]
        assert found == [(0, -1, "", 0), (1, 7, "note", 0)]
        if version >= 5:
            assert [one.committed_leader_epoch for one in topic.partitions] == [-1, 4]
        if version >= 2:
            (topic,) = (await groups.fetch(version=version)).topics
            assert [one.partition_index for one in topic.partitions] == [1]

    run(play())


@pytest.mark.parametrize("version", SERVED[Api.OFFSET_FETCH])
def test_who_asks_another_gateway_than_the_coordinator_is_told_so(version):
    async def play():
        groups = await with_topics()
        groups.broker.coordinated = Leader(2, 3)
        answer = await groups.fetch({"orders": [0]}, version=version)
        if version >= 2:
            assert answer.error_code == ErrorCode.NOT_COORDINATOR
            assert not answer.topics
        else:
            (one,) = answer.topics[0].partitions
            assert (one.error_code, one.committed_offset) == (ErrorCode.NOT_COORDINATOR, -1)
        told = await groups.commit({0: 7})
        assert told == {FIRST: ErrorCode.NOT_COORDINATOR}

    run(play())


def test_several_groups_are_fetched_at_once():
    async def play():
        groups = await with_topics()
        await groups.commit({0: 7}, group="a")
        asked = [
            {"group_id": one, "topics": None, "member_id": None, "member_epoch": -1}
            for one in ("a", "", "b")
        ]
        answer = await groups.ask(Api.OFFSET_FETCH, groups=asked)
        told = [(one.group_id, one.error_code, len(one.topics)) for one in answer.groups]
        assert told == [("a", 0, 1), ("", ErrorCode.INVALID_GROUP_ID, 0), ("b", 0, 0)]

    run(play())


def test_a_group_and_a_partition_are_fetched_once_however_often_they_are_named():
    async def play():
        groups = await with_topics()
        await groups.commit({0: 7}, group="a")
        topics = [{"name": "orders", "partition_indexes": [0] * 9}]
        one = {"group_id": "a", "topics": topics, "member_id": None, "member_epoch": -1}
        (group,) = (await groups.ask(Api.OFFSET_FETCH, groups=[one] * 9)).groups
        assert [told.partition_index for told in group.topics[0].partitions] == [0]

    run(play())


def test_each_partition_is_judged_by_itself():
    async def play():
        groups = await with_topics()
        offsets = {0: 7, 1: -2, 2: 7, -1: 7, ("none", 0): 7}
        told = await groups.commit(offsets)
        assert told == {
            FIRST: 0,
            SECOND: ErrorCode.OFFSET_OUT_OF_RANGE,
            ("orders", 2): ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
            ("orders", -1): ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
            ("none", 0): ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        }
        assert await groups.held() == {FIRST: 7}

    run(play())


def test_metadata_has_a_bound():
    async def play():
        groups = await with_topics()
        longest = "x" * COMMIT_METADATA_BYTES_MAX
        assert await groups.commit({0: 1}, metadata=longest) == {FIRST: 0}
        told = await groups.commit({0: 2}, metadata=longest + "x")
        assert told == {FIRST: ErrorCode.OFFSET_METADATA_TOO_LARGE}
        assert await groups.held() == {FIRST: 1}

    run(play())


def test_who_is_no_member_commits_only_while_there_are_none():
    async def play():
        groups = await with_topics()
        assert await groups.commit({0: 1}) == {FIRST: 0}
        await groups.settled()
        assert await groups.commit({0: 2}) == {FIRST: ErrorCode.UNKNOWN_MEMBER_ID}
        assert await groups.held() == {FIRST: 1}

    run(play())


async def deleted(groups, *topics):
    """The error of all, and of each partition 0."""
    answer = await groups.ask(
        Api.OFFSET_DELETE,
        group_id="g",
        topics=[{"name": one, "partitions": [{"partition_index": 0}]} for one in topics],
    )
    told = {topic.name: topic.partitions[0].error_code for topic in answer.topics}
    return answer.error_code, told


def test_commits_are_forgotten_but_for_topics_that_members_read():
    async def play():
        groups = await with_topics()
        assert await deleted(groups, "orders") == (ErrorCode.GROUP_ID_NOT_FOUND, {})
        await groups.commit({0: 1, ("other", 0): 2})
        member, _ = await groups.settled()
        refused = ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC
        assert await groups.held() == {FIRST: 1, ("other", 0): 2}
        assert await deleted(groups, "orders", "other") == (0, {"orders": refused, "other": 0})
        assert await groups.held() == {FIRST: 1}
        await groups.leave(member)
        assert await deleted(groups, "orders") == (0, {"orders": 0})
        assert await groups.held() == {}

    run(play())


def test_of_other_groups_than_consumers_nothing_is_forgotten():
    async def play():
        groups = await with_topics()
        await groups.commit({0: 1})
        assert (await groups.join(protocol_type="connect", version=3)).error_code == 0
        assert (await deleted(groups, "orders"))[0] == ErrorCode.NON_EMPTY_GROUP
        assert await groups.held() == {FIRST: 1}

    run(play())
