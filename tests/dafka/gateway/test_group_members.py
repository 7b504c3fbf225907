from __future__ import annotations

import asyncio

import pytest

from dafka.gateway.broker import ErrorCode
from dafka.gateway.coordinator import CoordinatorSettings
from dafka.gateway.coordinators import new_member_id
from dafka.gateway.wire import SERVED, Api
from dafka.groups.commit import GATEWAYS
from dafka.limits import MEMBER_BYTES_MAX
from tests.support.kafka_groups import KafkaGroups, run, subscription


@pytest.mark.parametrize("version", SERVED[Api.JOIN_GROUP])
def test_a_member_joins_in_every_version(version):
    async def play():
        groups = KafkaGroups()
        joined = await groups.join(version=version)
        if version >= 4:
            assert joined.error_code == ErrorCode.MEMBER_ID_REQUIRED
            joined = await groups.join(version=version, member=joined.member_id)
        assert joined.error_code == 0
        assert joined.member_id.startswith("me-")
        assert (joined.leader, joined.protocol_name) == (joined.member_id, "range")
        assert getattr(joined, "protocol_type", "consumer") == "consumer"
        (member,) = joined.members
        assert (member.member_id, member.metadata) == (joined.member_id, subscription("orders"))
        return joined.generation_id

    assert run(play()) == 1


@pytest.mark.parametrize("version", SERVED[Api.SYNC_GROUP])
def test_members_get_what_the_leader_assigns_in_every_version(version):
    async def play():
        groups = KafkaGroups(CoordinatorSettings(initial_delay_ms=200))
        joined = await asyncio.gather(groups.join(version=3), groups.join(version=3))
        leader, other = sorted(joined, key=lambda one: not one.members)
        waiting = asyncio.create_task(groups.sync(other.member_id, 1, version=version))
        await asyncio.sleep(0)
        parts = {leader.member_id: b"1", other.member_id: b"2"}
        synced = await groups.sync(leader.member_id, 1, parts, version=version)
        assert (synced.error_code, synced.assignment) == (0, b"1")
        synced = await waiting
        assert (synced.error_code, synced.assignment) == (0, b"2")
        assert getattr(synced, "protocol_name", "range") == "range"

    run(play())


@pytest.mark.parametrize("version", SERVED[Api.HEARTBEAT])
def test_members_are_heard_in_every_version(version):
    async def play():
        groups = KafkaGroups()
        member, generation = await groups.settled()
        assert await groups.hear(member, generation, version=version) == 0
        error = await groups.hear(member, generation + 1, version=version)
        assert error == ErrorCode.ILLEGAL_GENERATION
        error = await groups.hear("nobody", generation, version=version)
        assert error == ErrorCode.UNKNOWN_MEMBER_ID

    run(play())


@pytest.mark.parametrize("version", SERVED[Api.LEAVE_GROUP])
def test_members_leave_in_every_version(version):
    async def play():
        groups = KafkaGroups()
        member, _ = await groups.settled()
        leaving = [
            {"member_id": one, "group_instance_id": None, "reason": None}
            for one in (member, "nobody")
        ]
        answer = await groups.ask(
            Api.LEAVE_GROUP, version, group_id="g", member_id=member, members=leaving
        )
        assert answer.error_code == 0
        if version >= 3:
            errors = [one.error_code for one in answer.members]
            assert errors == [0, ErrorCode.UNKNOWN_MEMBER_ID]
        assert not groups.coordinators._all.by_name

    run(play())


def test_a_static_member_that_starts_again_has_what_it_had():
    async def play():
        groups = KafkaGroups()
        member, generation = await groups.settled(instance="a", version=9)
        again = await groups.join(instance="a")
        assert (again.error_code, again.generation_id) == (0, generation)
        assert again.member_id != member
        synced = await groups.sync(again.member_id, generation, group_instance_id="a")
        assert synced.assignment == b"all"
        error = await groups.hear(member, generation, instance="a")
        assert error == ErrorCode.FENCED_INSTANCE_ID

    run(play())


@pytest.mark.parametrize("group", ["", "g" * 250, "g" * 10_000, "ä" * 125, "a\0b", GATEWAYS])
def test_a_group_that_cannot_be_named_is_refused(group):
    async def play():
        groups = KafkaGroups()
        for answer in (await groups.join(group), await groups.sync("m", 1, group=group)):
            assert answer.error_code == ErrorCode.INVALID_GROUP_ID
        assert await groups.hear("m", 1, group) == ErrorCode.INVALID_GROUP_ID
        left = await groups.leave("m", group=group)
        assert (left.error_code, left.members) == (ErrorCode.INVALID_GROUP_ID, [])

    run(play())


def protocols(*names, told=b""):
    return [{"name": name, "metadata": told} for name in names]


FEW = [f"p{number}" for number in range(100)]
OTHERS_BYTES = len("rangemeconsumer" + new_member_id("me"))


def test_a_member_tells_as_much_as_it_may():
    async def play():
        groups = KafkaGroups()
        most = protocols("range", told=bytes(MEMBER_BYTES_MAX - OTHERS_BYTES))
        joined = await groups.join(protocols=most, version=3)
        again = await groups.join(member=joined.member_id, protocols=most, version=3)
        assert joined.error_code == again.error_code == 0
        assert (await groups.join("h", protocols=protocols(*FEW), version=3)).error_code == 0

    run(play())


@pytest.mark.parametrize(
    ("told", "error"),
    [
        (protocols(*FEW, "one more"), ErrorCode.INVALID_REQUEST),
        (
            protocols("range", told=bytes(MEMBER_BYTES_MAX - OTHERS_BYTES + 1)),
            ErrorCode.INVALID_REQUEST,
        ),
        (protocols("range", "range"), ErrorCode.INCONSISTENT_GROUP_PROTOCOL),
        ([], ErrorCode.INCONSISTENT_GROUP_PROTOCOL),
    ],
)
def test_who_tells_too_much_or_nothing_is_refused(told, error):
    async def play():
        groups = KafkaGroups()
        answer = await groups.join(protocols=told, version=3)
        assert answer.error_code == error
        assert not groups.coordinators._all.by_name

    run(play())


def test_who_does_not_lead_brings_no_assignments():
    async def play():
        groups = KafkaGroups(CoordinatorSettings(initial_delay_ms=200))
        joined = await asyncio.gather(groups.join(version=3), groups.join(version=3))
        other = min(joined, key=lambda one: len(one.members))
        refused = await groups.sync(other.member_id, 1, {other.member_id: bytes(1_000)})
        assert refused.error_code == ErrorCode.INVALID_REQUEST

    run(play())
