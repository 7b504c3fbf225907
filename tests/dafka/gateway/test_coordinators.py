from __future__ import annotations

import asyncio

import pytest

from dafka.gateway.broker import NOBODY, ErrorCode, KafkaCommit, KafkaPartition, Leader
from dafka.gateway.coordinator import CoordinatorSettings
from dafka.gateway.coordinators import new_member_id
from tests.support.kafka_groups import AT_ONCE, KafkaGroups, run

FIRST, SECOND = (KafkaPartition("orders", number) for number in (0, 1))


async def with_topic(settings=AT_ONCE, **broker):
    groups = KafkaGroups(settings, **broker)
    await groups.broker.create("orders", 2, {})
    return groups


async def until(holds):
    async with asyncio.timeout(20):
        while not holds():
            await asyncio.sleep(0.005)


@pytest.mark.parametrize("owner", [Leader(2, 3), Leader(1, 4), Leader(NOBODY, 3)])
def test_who_waits_is_told_when_the_group_is_anothers(owner):
    async def play():
        groups = await with_topic()
        member, generation = await groups.settled()
        waiting = asyncio.create_task(groups.join(version=3))
        await until(lambda: groups.coordinators._groups["g"].waiting)
        groups.broker.coordinated = owner
        answer = await waiting
        assert answer.error_code == ErrorCode.NOT_COORDINATOR
        assert not groups.coordinators._groups
        assert groups.coordinators._held == 0
        expected = {
            2: ErrorCode.NOT_COORDINATOR,
            1: ErrorCode.UNKNOWN_MEMBER_ID,  # it is ours again, and we know nobody
            NOBODY: ErrorCode.COORDINATOR_NOT_AVAILABLE,
        }
        assert await groups.hear(member, generation) == expected[owner.node]

    run(play())


def test_a_member_that_is_silent_is_gone_without_anybody_asking():
    async def play():
        groups = await with_topic()
        await groups.settled(session_timeout_ms=1_000)
        assert groups.coordinators._groups
        await until(lambda: not groups.coordinators._groups)
        assert groups.coordinators._held == 0

    run(play())


def test_a_client_that_has_gone_while_it_waited_is_answered_to_nobody():
    async def play():
        groups = await with_topic()
        member, generation = await groups.settled()
        waiting = asyncio.create_task(groups.join(version=3))
        await until(lambda: groups.coordinators._groups["g"].waiting)
        waiting.cancel()
        await asyncio.wait({waiting})
        assert not groups.coordinators._groups["g"].waiting
        again = await groups.join(member=member)
        assert again.generation_id == generation + 1
        assert len(again.members) == 2  # until its session is over

    run(play())


def test_while_there_are_members_what_links_bring_does_not_move_them():
    async def play():
        groups = await with_topic()
        await groups.commit({0: 5})
        groups.broker.brought("g", {FIRST: KafkaCommit(7)})
        assert await groups.held() == {FIRST: 7}
        member, generation = await groups.settled()
        assert await groups.held() == {FIRST: 7}
        groups.broker.brought("g", {FIRST: KafkaCommit(9), SECOND: KafkaCommit(1)})
        assert await groups.held() == {FIRST: 7}
        await groups.commit({0: 8}, member, generation)
        assert await groups.held() == {FIRST: 8}
        await groups.leave(member)
        groups.broker.brought("g", {FIRST: KafkaCommit(10)})
        assert await groups.held() == {FIRST: 10, SECOND: 1}

    run(play())


def test_what_is_not_stored_does_not_hold():
    async def play():
        groups = await with_topic(store_s=0.02)
        member, generation = await groups.settled()
        assert await groups.held() == {}
        committing = asyncio.create_task(groups.commit({0: 8}, member, generation))
        await asyncio.sleep(0)
        groups.broker.coordinated = Leader(2, 4)
        assert await committing == {FIRST: ErrorCode.NOT_COORDINATOR}
        groups.broker.coordinated = Leader(1, 5)
        assert await groups.held() == {}

    run(play())


def test_commits_go_to_the_node_in_their_order():
    async def play():
        groups = await with_topic(store_s=0.01)
        member, generation = await groups.settled()
        given = []
        commit = groups.broker.commit

        async def noting(group, epoch, offsets):
            given.append(offsets[FIRST].offset)
            return await commit(group, epoch, offsets)

        groups.broker.commit = noting
        asked = [groups.commit({0: number}, member, generation) for number in range(10)]
        for told in await asyncio.gather(*asked):
            assert told == {FIRST: 0}
        assert given == list(range(10))
        assert await groups.held() == {FIRST: 9}

    run(play())


def test_all_groups_together_have_a_bound():
    async def play():
        groups = await with_topic(CoordinatorSettings(initial_delay_ms=0, bytes_max=5_000))
        members = {}
        for number in range(10):
            joined = await groups.join(f"g{number}", version=3)
            if joined.error_code:
                assert joined.error_code == ErrorCode.COORDINATOR_NOT_AVAILABLE
                break
            members[f"g{number}"] = joined.member_id
        assert 3 <= len(members) < 6
        assert groups.coordinators._held <= 5_000 + 1_100
        for group, member in members.items():
            await groups.leave(member, group=group)
        assert groups.coordinators._held == 0
        assert (await groups.join("g9", version=3)).error_code == 0

    run(play())


def test_commits_count_as_well():
    async def play():
        groups = await with_topic(CoordinatorSettings(initial_delay_ms=0, bytes_max=6_000))
        member, generation = await groups.settled()
        told = [
            await groups.commit({number: 1}, member, generation, metadata="x" * 4_000)
            for number in (0, 1)
        ]
        assert told == [{FIRST: 0}, {SECOND: 0}]
        assert await groups.hear(member, generation) == 0
        told = await groups.commit({0: 2}, member, generation)
        assert told == {FIRST: ErrorCode.COORDINATOR_NOT_AVAILABLE}
        assert await groups.held() == {FIRST: 1, SECOND: 1}

    run(play())


def test_whoever_only_asks_leaves_nothing_behind():
    async def play():
        groups = await with_topic()
        for number in range(100):
            error = await groups.hear("nobody", 1, f"g{number}")
            assert error == ErrorCode.UNKNOWN_MEMBER_ID
            assert (await groups.sync("nobody", 1, group=f"g{number}")).error_code == error
            await groups.commit({0: 1}, group=f"g{number}")
            await groups.fetch(group=f"g{number}")
        assert not groups.coordinators._groups
        assert groups.coordinators._held == 0

    run(play())


def test_ids_of_members_say_whose_they_are():
    first, second = (new_member_id("billing" * 100) for _ in range(2))
    assert first.startswith("billing")
    assert len(first) < 120
    assert first != second
