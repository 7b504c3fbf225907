from __future__ import annotations

import asyncio

from dafka.gateway.broker import ErrorCode, KafkaCommit, KafkaPartition
from dafka.gateway.held_commits import HeldCommits

A, B, C = (KafkaPartition("orders", number) for number in range(3))


def reading(*answers):
    """A node that answers with one after the other."""
    left = list(answers)

    async def read():
        await asyncio.sleep(0)
        return left.pop(0)

    return read


def test_what_was_there_is_read_once_and_what_members_commit_lies_above_it():
    async def run():
        held = HeldCommits()
        held.keep(1, {B: KafkaCommit(5), C: None})
        before = {A: KafkaCommit(1), B: KafkaCommit(2), C: KafkaCommit(3)}
        read = reading(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, before)
        assert await held.all(read) is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
        answers = await asyncio.gather(*(held.all(read) for _ in range(5)))
        assert answers == [{A: KafkaCommit(1), B: KafkaCommit(5)}] * 5

    asyncio.run(run())


def test_of_two_commits_the_later_one_holds_whichever_is_stored_first():
    async def run():
        held = HeldCommits()
        held.keep(2, {A: KafkaCommit(20)})
        held.keep(1, {A: KafkaCommit(10), B: KafkaCommit(10)})
        assert await held.all(reading({})) == {A: KafkaCommit(20), B: KafkaCommit(10)}

    asyncio.run(run())


def test_bytes_are_counted():
    async def run():
        held = HeldCommits()
        held.keep(1, {A: KafkaCommit(1, metadata="x" * 1_000)})
        first = held.size
        assert first > 1_000
        held.keep(2, {A: KafkaCommit(1)})
        assert held.size == first - 1_000
        await held.all(reading({B: KafkaCommit(1)}))
        assert held.size == 2 * (first - 1_000)

    asyncio.run(run())
