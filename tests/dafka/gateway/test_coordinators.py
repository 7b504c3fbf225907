from __future__ import annotations

import asyncio
import random
from types import SimpleNamespace

import pytest

from dafka.gateway.broker import NOBODY, ErrorCode, KafkaCommit, KafkaPartition, Leader
from dafka.gateway.consumer_group import ConsumerGroupMachine
from dafka.gateway.coordinator import CoordinatorMachine, CoordinatorSettings
from dafka.gateway.coordinators import new_member_id
from dafka.gateway.handlers import OF_GROUPS
from dafka.gateway.layout import request_schema
from dafka.gateway.wire import SERVED, Api, parse
from dafka.process.clock import now_ms
from tests.support.kafka_groups import AT_ONCE, KafkaGroups, latest, run
from tests.support.kafka_messages import answered, plain, request, some

FIRST, SECOND = (KafkaPartition("orders", number) for number in (0, 1))


async def with_topic(settings=AT_ONCE, **broker):
    groups = KafkaGroups(settings, **broker)
    await groups.broker.create("orders", 2, {})
    return groups


async def until(holds):
    async with asyncio.timeout(120):
        while not holds():
            await asyncio.sleep(0.005)


@pytest.mark.parametrize("owner", [Leader(2, 3), Leader(1, 4), Leader(NOBODY, 3)])
def test_who_waits_is_told_when_the_group_is_anothers(owner):
    async def play():
        groups = await with_topic()
        member, generation = await groups.settled()
        waiting = asyncio.create_task(groups.join(version=3))
        await until(lambda: groups.coordinators._all.by_name["g"].waiting)
        groups.broker.coordinated = owner
        answer = await waiting
        assert answer.error_code == ErrorCode.NOT_COORDINATOR
        assert not groups.coordinators._all.by_name
        assert groups.coordinators._all.size == 0
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
        assert groups.coordinators._all.by_name
        await until(lambda: not groups.coordinators._all.by_name)
        assert groups.coordinators._all.size == 0

    run(play())


def test_a_client_that_has_gone_while_it_waited_is_answered_to_nobody():
    async def play():
        groups = await with_topic()
        member, generation = await groups.settled()
        waiting = asyncio.create_task(groups.join(version=3))
        await until(lambda: groups.coordinators._all.by_name["g"].waiting)
        waiting.cancel()
        await asyncio.wait({waiting})
        assert not groups.coordinators._all.by_name["g"].waiting
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
        assert groups.coordinators._all.size <= 5_000 + 1_100
        for group, member in members.items():
            await groups.leave(member, group=group)
        assert groups.coordinators._all.size == 0
        assert (await groups.join("g9", version=3)).error_code == 0

    run(play())


def test_who_joins_again_needs_no_more_room_than_it_has():
    async def play():
        groups = await with_topic(CoordinatorSettings(initial_delay_ms=0, bytes_max=5_000))
        member, _ = await groups.settled(version=3)
        groups.coordinators._all.size = 5_000
        full = ErrorCode.COORDINATOR_NOT_AVAILABLE
        assert (await groups.join("other", version=3)).error_code == full
        assert (await groups.join(member=member, version=3)).error_code == 0

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
        assert not groups.coordinators._all.by_name
        assert groups.coordinators._all.size == 0

    run(play())


class Strangers:
    """Clients that say anything to two groups: what they were told, and what they make up."""

    def __init__(self, chance, groups):
        self.chance, self.groups = chance, groups
        self.members, self.generations = ["", "nobody"], [-1, 0, 1]
        self.tasks = set()
        self.answered = 0

    def step(self, **follows):
        chance = self.chance
        api = Api.SYNC_GROUP if follows else chance.choice(APIS)
        values = vars(plain(some(request_schema(api, latest(api)), chance)))
        changed = {
            "group_id": chance.choice("ggggh"),
            "member_id": chance.choice(["", *self.members[-3:]]),
            "group_instance_id": chance.choice((None, None, None, None, "", "a", "b")),
            "instance_id": chance.choice((None, None, None, None, "", "a", "b")),
            "member_epoch": chance.choice((0, 0, -1, -2, *self.generations[-3:])),
            "subscribed_topic_names": chance.choice((["orders"], None)),
            "subscribed_topic_regex": None,
            "server_assignor": None,
            "topic_partitions": chance.choice(([], None)),
            "generation_id": chance.choice(self.generations[-3:]),
            "generation_id_or_member_epoch": chance.choice(self.generations[-3:]),
            "session_timeout_ms": chance.choice((0, 1_000, 1_000, 1_000, 1_200, 1_200)),
            "rebalance_timeout_ms": chance.choice((-1, 1_000, 1_300)),
            "protocol_type": chance.choice((*["consumer"] * 9, "connect", "")),
            "protocol_name": "range",
            "assignments": [{"member_id": chance.choice(self.members), "assignment": b"part"}],
            "protocols": [{"name": "range", "metadata": chance.randbytes(9)}],
            **follows,
        }
        values = {name: changed.get(name, value) for name, value in values.items()}
        version = chance.choice(SERVED[api])
        asked = parse(request(api, version, **as_values(values)))
        task = asyncio.create_task(self._ask(asked))
        self.tasks.add(task)
        task.add_done_callback(self.tasks.discard)

    async def _ask(self, asked):
        pieces = await self.groups.handlers.answer(asked)
        answer = answered(pieces, asked.api, asked.version)[1]
        self.answered += 1
        if asked.api is Api.JOIN_GROUP:
            self.members.append(answer.member_id)
            self.generations.append(answer.generation_id)
            if answer.error_code == 0 and self.chance.random() < 0.7:
                self.step(
                    group_id=asked.body.group_id,
                    group_instance_id=getattr(asked.body, "group_instance_id", None),
                    member_id=answer.member_id,
                    generation_id=answer.generation_id,
                    protocol_type=asked.body.protocol_type,
                )


APIS = sorted(OF_GROUPS)


def as_values(value):
    if isinstance(value, SimpleNamespace):
        return {name: as_values(inner) for name, inner in vars(value).items()}
    if isinstance(value, dict):
        return {name: as_values(inner) for name, inner in value.items()}
    return [as_values(one) for one in value] if isinstance(value, list) else value


@pytest.mark.slow
def test_whatever_is_said_all_are_answered_and_nothing_is_left():
    seen = set()

    async def play(seed):
        chance = random.Random(seed)
        settings = CoordinatorSettings(
            initial_delay_ms=5, members_max=10, consumer_session_ms=1_000
        )
        began_ms = now_ms()
        hurried = lambda: began_ms + 20 * (now_ms() - began_ms)  # noqa: E731 - for sessions to end
        groups = await with_topic(settings, clock_ms=hurried)
        there = groups.coordinators
        strangers = Strangers(chance, groups)
        for _ in range(1_000):
            strangers.step()
            await asyncio.sleep(chance.choice((0, 0, 0.001)))
            if strangers.tasks and chance.random() < 0.05:
                chance.choice(list(strangers.tasks)).cancel()
            if chance.random() < 0.002:
                groups.broker.coordinated = Leader(1, groups.broker.coordinated.epoch + 1)
            for group in there._all.by_name.values():
                group.machine.check()
                seen.add((type(group.machine), group.described().state))
            assert there._all.size == sum(group.size for group in there._all.by_name.values())
        await until(lambda: not strangers.tasks and not there._all.by_name)
        assert there._all.size == 0
        assert strangers.answered > 500

    for seed in range(4):
        run(play(seed))
    # In which of them depends on the machine: sessions end by its clock.
    assert (CoordinatorMachine, "PreparingRebalance") in seen
    assert (ConsumerGroupMachine, "Stable") in seen


def test_ids_of_members_say_whose_they_are():
    first, second = (new_member_id("billing" * 100) for _ in range(2))
    assert first.startswith("billing")
    assert len(first) < 120
    assert first != second
