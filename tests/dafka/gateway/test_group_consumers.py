from __future__ import annotations

import pytest

from dafka.gateway.broker import ErrorCode, Leader
from dafka.gateway.coordinator import CoordinatorSettings
from dafka.gateway.group_events import JOINS, LEAVES
from dafka.gateway.wire import SERVED, Api
from tests.support.kafka_groups import KafkaGroups, run

every_version = pytest.mark.parametrize("version", SERVED[Api.CONSUMER_GROUP_HEARTBEAT])


class Consumers(KafkaGroups):
    """Groups in which the coordinator assigns."""

    async def hear(self, member, epoch, owned=None, version=None, **values):
        topic = self.broker.topic("orders")
        first = epoch == JOINS
        if first:
            owned = []
        told = None if owned is None else [{"topic_id": topic.id, "partitions": owned}]
        given = {
            "group_id": "g",
            "member_id": member,
            "member_epoch": epoch,
            "instance_id": None,
            "rack_id": None,
            "rebalance_timeout_ms": 60_000 if first else -1,
            "subscribed_topic_names": ["orders"] if first else None,
            "subscribed_topic_regex": None,
            "server_assignor": None,
            "topic_partitions": [] if first else told,
        }
        return await self.ask(Api.CONSUMER_GROUP_HEARTBEAT, version, **given | values)


async def with_topic():
    groups = Consumers()
    await groups.broker.create("orders", 4, {})
    return groups


def assigned(answer):
    """By the number of a topic."""
    told = answer.assignment.topic_partitions
    return {one.topic_id.int: sorted(one.partitions) for one in told}


@every_version
def test_members_are_told_what_they_have_in_every_version(version):
    async def play():
        groups = await with_topic()
        first = await groups.hear("a", JOINS, version=version)
        assert (first.error_code, first.member_id, first.member_epoch) == (0, "a", 1)
        assert first.heartbeat_interval_ms == 5_000
        assert assigned(first) == {1: [0, 1, 2, 3]}
        again = await groups.hear("a", 1, version=version)
        assert again.assignment is None
        await groups.hear("b", JOINS, version=version)
        assert assigned(await groups.hear("a", 1, version=version)) == {1: [0, 1]}
        assert (await groups.hear("a", 1, [0, 1], version=version)).member_epoch == 2
        assert assigned(await groups.hear("b", 2, version=version)) == {1: [2, 3]}
        assert (await groups.hear("a", LEAVES, version=version)).member_epoch == LEAVES
        fenced = await groups.hear("b", 9, version=version)
        assert fenced.error_code == ErrorCode.FENCED_MEMBER_EPOCH

    run(play())


def test_a_member_without_an_id_is_given_one():
    async def play():
        groups = await with_topic()
        assert (await groups.hear("", JOINS, version=0)).member_id.startswith("me-")

    run(play())


def test_who_is_a_member_stays_one_while_others_hold_all_the_room_there_is():
    async def play():
        groups = Consumers(CoordinatorSettings(initial_delay_ms=0, bytes_max=20_000))
        await groups.broker.create("orders", 4, {})
        assert (await groups.hear("a", JOINS)).error_code == 0
        groups.coordinators._all.size = 20_000
        full = ErrorCode.COORDINATOR_NOT_AVAILABLE
        assert (await groups.hear("b", JOINS)).error_code == full
        assert (await groups.hear("a", 1)).error_code == 0
        more = await groups.hear("a", 1, subscribed_topic_names=["x" * 1_000])
        assert more.error_code == full
        assert (await groups.hear("a", LEAVES)).error_code == 0

    run(play())


def by_pattern(pattern, names=None):
    return {"subscribed_topic_regex": pattern, "subscribed_topic_names": names}


def test_a_pattern_takes_in_topics_as_they_come():
    async def play():
        groups = await with_topic()
        first = await groups.hear("a", JOINS, **by_pattern("order.+"))
        assert assigned(first) == {1: [0, 1, 2, 3]}
        await groups.broker.create("payments", 1, {})
        assert (await groups.hear("a", 1)).assignment is None
        await groups.broker.create("orders-eu", 2, {})
        more = await groups.hear("a", 1)
        assert (more.member_epoch, assigned(more)) == (2, {1: [0, 1, 2, 3], 3: [0, 1]})
        both = await groups.hear("a", 2, **by_pattern(None, ["payments"]))
        assert assigned(both) == {1: [0, 1, 2, 3], 2: [0], 3: [0, 1]}
        groups_told = await groups.ask(Api.CONSUMER_GROUP_DESCRIBE, 1, group_ids=["g"])
        (member,) = groups_told.groups[0].members
        assert (member.subscribed_topic_regex, member.subscribed_topic_names) == (
            "order.+",
            ["payments"],
        )
        await groups.hear("a", 3, **by_pattern(""))
        kept = [{"topic_id": groups.broker.topic("payments").id, "partitions": [0]}]
        assert assigned(await groups.hear("a", 3, topic_partitions=kept)) == {2: [0]}

    run(play())


def test_what_is_no_pattern_is_refused_with_the_reason():
    async def play():
        groups = await with_topic()
        refused = await groups.hear("b", JOINS, **by_pattern("order("))
        assert refused.error_code == ErrorCode.INVALID_REGULAR_EXPRESSION
        assert "not closed" in refused.error_message
        nothing = await groups.hear("b", JOINS, **by_pattern("", None))
        assert nothing.error_code == ErrorCode.INVALID_REQUEST

    run(play())


def test_commits_of_members_are_taken_and_hold():
    async def play():
        groups = await with_topic()
        await groups.hear("a", JOINS)
        assert await groups.commit({0: 7}, "a", 1) == {("orders", 0): 0}
        told = await groups.commit({0: 8}, "a", 2)
        assert told == {("orders", 0): ErrorCode.STALE_MEMBER_EPOCH}
        assert await groups.held() == {("orders", 0): 7}
        answer = await groups.ask(
            Api.OFFSET_DELETE,
            group_id="g",
            topics=[{"name": "orders", "partitions": [{"partition_index": 0}]}],
        )
        (refused,) = answer.topics[0].partitions
        assert refused.error_code == ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC

    run(play())


def test_a_group_speaks_one_protocol_while_it_has_members():
    async def play():
        groups = await with_topic()
        await groups.settled()
        refused = await groups.hear("a", JOINS)
        assert refused.error_code == ErrorCode.GROUP_ID_NOT_FOUND
        await groups.hear("a", JOINS, group_id="h")
        refused = await groups.join("h", version=3)
        assert refused.error_code == ErrorCode.INCONSISTENT_GROUP_PROTOCOL
        await groups.hear("a", LEAVES, group_id="h")
        await groups.settled("h")

    run(play())


@pytest.mark.parametrize("version", SERVED[Api.CONSUMER_GROUP_DESCRIBE])
def test_groups_are_described_in_every_version(version):
    async def play():
        groups = await with_topic()
        await groups.hear("a", JOINS)
        await groups.hear("b", JOINS)
        await groups.settled("classic")
        names = ["g", "classic", "none", "g"]
        answer = await groups.ask(Api.CONSUMER_GROUP_DESCRIBE, version, group_ids=names)
        errors = [one.error_code for one in answer.groups]
        assert errors == [0, ErrorCode.GROUP_ID_NOT_FOUND, ErrorCode.GROUP_ID_NOT_FOUND]
        group = answer.groups[0]
        assert (group.group_state, group.assignor_name) == ("Reconciling", "uniform")
        assert (group.group_epoch, group.assignment_epoch) == (2, 2)
        first, second = group.members
        assert (first.member_id, first.client_id, first.member_epoch) == ("a", "me", 1)
        assert first.subscribed_topic_names == ["orders"]
        assert assigned(first) == {1: [0, 1, 2, 3]}
        assert second.target_assignment.topic_partitions[0].partitions == [2, 3]
        listed = await groups.ask(Api.LIST_GROUPS, types_filter=["consumer"])
        assert [(one.group_id, one.group_type) for one in listed.groups] == [("g", "consumer")]
        described = await groups.ask(Api.DESCRIBE_GROUPS, groups=["g"])
        assert described.groups[0].group_state == "Dead"

    run(play())


def test_a_coordinator_that_takes_over_knows_nobody():
    async def play():
        groups = await with_topic()
        await groups.hear("a", JOINS)
        groups.broker.coordinated = Leader(1, 9)
        assert (await groups.hear("a", 1)).error_code == ErrorCode.UNKNOWN_MEMBER_ID
        groups.broker.coordinated = Leader(2, 10)
        assert (await groups.hear("a", JOINS)).error_code == ErrorCode.NOT_COORDINATOR
        assert groups.coordinators._all.size == 0

    run(play())


def test_what_is_not_there_is_not_owned():
    async def play():
        groups = await with_topic()
        await groups.hear("a", JOINS)
        gone = [{"topic_id": groups.broker.topic("orders").id, "partitions": [0]}]
        await groups.broker.delete("orders", 1)
        answer = await groups.ask(
            Api.CONSUMER_GROUP_HEARTBEAT,
            group_id="g",
            member_id="a",
            member_epoch=1,
            rebalance_timeout_ms=-1,
            subscribed_topic_names=None,
            server_assignor=None,
            topic_partitions=gone,
        )
        assert answer.error_code == 0
        assert answer.assignment.topic_partitions == []

    run(play())
