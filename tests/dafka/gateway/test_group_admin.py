from __future__ import annotations

import pytest

from dafka.gateway.broker import NOBODY, ErrorCode, Leader
from dafka.gateway.wire import SERVED, Api
from dafka.groups.commit import GATEWAYS
from tests.support.kafka_groups import KafkaGroups, run, subscription


async def found(groups, version, *keys, kind=0):
    answer = await groups.ask(
        Api.FIND_COORDINATOR, version, key=keys[0], coordinator_keys=list(keys), key_type=kind
    )
    return answer.coordinators if version >= 4 else [answer]


@pytest.mark.parametrize("version", SERVED[Api.FIND_COORDINATOR])
def test_clients_are_told_who_coordinates(version):
    async def play():
        groups = KafkaGroups()
        keys = ("a", "b") if version >= 4 else ("a",)
        rows = await found(groups, version, *keys)
        assert [getattr(one, "key", "a") for one in rows] == list(keys)
        told = [(one.error_code, one.node_id, one.host, one.port) for one in rows]
        assert told == [(0, 1, "gateway.example", 9092)] * len(keys)

    run(play())


@pytest.mark.parametrize("version", SERVED[Api.FIND_COORDINATOR])
@pytest.mark.parametrize(
    ("key", "kind", "coordinator", "error"),
    [
        ("a", 0, Leader(NOBODY, 3), ErrorCode.COORDINATOR_NOT_AVAILABLE),
        ("a", 0, Leader(7, 3), ErrorCode.COORDINATOR_NOT_AVAILABLE),  # it has gone just now
        ("", 0, Leader(1, 3), ErrorCode.INVALID_GROUP_ID),
        ("a" * 10_000, 0, Leader(1, 3), ErrorCode.INVALID_GROUP_ID),
        ("a" * 32_767, 0, Leader(1, 3), ErrorCode.INVALID_GROUP_ID),
        (GATEWAYS, 0, Leader(1, 3), ErrorCode.INVALID_GROUP_ID),
        ("a", 1, Leader(1, 3), ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED),
        ("a", 2, Leader(1, 3), ErrorCode.INVALID_REQUEST),
    ],
)
def test_where_nobody_coordinates(version, key, kind, coordinator, error):
    if kind and not version:
        return  # version 0 knows groups only

    async def play():
        groups = KafkaGroups()
        groups.broker.coordinated = coordinator
        (row,) = await found(groups, version, key, kind=kind)
        assert (row.error_code, row.node_id) == (error, NOBODY)

    run(play())


async def listed(groups, version=None, **filters):
    answer = await groups.ask(Api.LIST_GROUPS, version, **filters)
    assert answer.error_code == 0
    return {one.group_id: one for one in answer.groups}


async def with_three():
    """A group with a member, one with commits and none, and one with both."""
    groups = KafkaGroups()
    await groups.broker.create("orders", 2, {})
    for name in ("committed", "both"):
        await groups.commit({0: 1}, group=name)
    member, _ = await groups.settled("member")
    await groups.settled("both")
    return groups, member


@pytest.mark.parametrize("version", SERVED[Api.LIST_GROUPS])
def test_groups_are_listed_in_every_version(version):
    async def play():
        groups, _ = await with_three()
        rows = await listed(groups, version)
        kinds = {name: row.protocol_type for name, row in rows.items()}
        assert kinds == {"committed": "", "member": "consumer", "both": "consumer"}
        if version >= 4:
            states = {name: row.group_state for name, row in rows.items()}
            assert states == {"committed": "Empty", "member": "Stable", "both": "Stable"}
            only = await listed(groups, version, states_filter=["stable"])
            assert set(only) == {"member", "both"}
        if version >= 5:
            assert {row.group_type for row in rows.values()} == {"classic"}
            assert await listed(groups, version, types_filter=["consumer"]) == {}
            assert len(await listed(groups, version, types_filter=["Classic"])) == 3

    run(play())


@pytest.mark.parametrize("version", SERVED[Api.DESCRIBE_GROUPS])
def test_groups_are_described_in_every_version(version):
    async def play():
        groups, member = await with_three()
        answer = await groups.ask(
            Api.DESCRIBE_GROUPS, version, groups=["member", "committed", "none", ""]
        )
        told = [(one.group_id, one.group_state, one.error_code) for one in answer.groups]
        assert told == [
            ("member", "Stable", 0),
            ("committed", "Empty", 0),
            ("none", "Dead", 0),
            ("", "", ErrorCode.INVALID_GROUP_ID),
        ]
        first = answer.groups[0]
        assert (first.protocol_type, first.protocol_data) == ("consumer", "range")
        (one,) = first.members
        assert (one.member_id, one.client_id) == (member, "me")
        assert (one.member_metadata, one.member_assignment) == (subscription("orders"), b"all")
        groups.broker.coordinated = Leader(2, 3)
        answer = await groups.ask(Api.DESCRIBE_GROUPS, version, groups=["member"])
        assert answer.groups[0].error_code == ErrorCode.NOT_COORDINATOR
        assert await listed(groups) == {}

    run(play())


def test_a_group_is_described_once_however_often_it_is_named():
    async def play():
        groups, _ = await with_three()
        answer = await groups.ask(Api.DESCRIBE_GROUPS, groups=["member"] * 9)
        assert [one.group_id for one in answer.groups] == ["member"]

    run(play())


@pytest.mark.parametrize("version", SERVED[Api.DELETE_GROUPS])
def test_groups_without_members_are_deleted_in_every_version(version):
    async def play():
        groups, member = await with_three()
        named = ["committed", "member", "none", "", "committed"]
        answer = await groups.ask(Api.DELETE_GROUPS, version, groups_names=named)
        assert [(one.group_id, one.error_code) for one in answer.results] == [
            ("committed", 0),
            ("member", ErrorCode.NON_EMPTY_GROUP),
            ("none", ErrorCode.GROUP_ID_NOT_FOUND),
            ("", ErrorCode.INVALID_GROUP_ID),
        ]
        await groups.leave(member, group="member")
        assert set(await listed(groups)) == {"both"}

    run(play())
