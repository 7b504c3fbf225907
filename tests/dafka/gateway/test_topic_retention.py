from __future__ import annotations

import asyncio

import pytest

from dafka.gateway.broker import ErrorCode, Found, KafkaPartition, Offsets
from dafka.gateway.topic_retention import TopicRetention
from dafka.testing.broker import MemoryBroker
from tests.support.gateways import ORDERS, batch_of

AGED = {"retention.ms": "1000"}


def retained(now_ms, configs=AGED, broker=None):
    """What there is of a partition with records of 1,000, 2,000 and 3,000 ms."""

    async def scenario():
        there = broker or MemoryBroker()
        await there.create("orders", 2, configs)
        for time_ms in (1_000, 2_000, 3_000):
            await there.append(ORDERS, batch_of(b"a", b"b", time_ms=time_ms), -1, 1)
        await TopicRetention(there, lambda: now_ms).look()
        assert there.offsets(KafkaPartition("orders", 1)) == Offsets(0, 0)
        return there.offsets(ORDERS)

    return asyncio.run(scenario())


@pytest.mark.parametrize(
    ("now_ms", "start"), [(0, 0), (2_000, 0), (2_001, 2), (3_000, 2), (4_000, 4), (4_001, 6)]
)
def test_what_is_older_than_a_topic_says_has_no_offset(now_ms, start):
    assert retained(now_ms) == Offsets(start, 6)


@pytest.mark.parametrize("configs", [{}, {"retention.ms": "-1"}])
def test_without_an_age_nothing_is_too_old(configs):
    assert retained(10**15, configs) == Offsets(0, 6)


def test_what_cannot_be_searched_stays():
    class Unread(MemoryBroker):
        async def find(self, _partition, _timestamp_ms):
            return Found(ErrorCode.KAFKA_STORAGE_ERROR)

    assert retained(10**15, broker=Unread()) == Offsets(0, 6)


def test_what_comes_during_the_search_stays():
    class Busy(MemoryBroker):
        async def find(self, partition, timestamp_ms):
            found = await super().find(partition, timestamp_ms)
            await self.append(partition, batch_of(b"new", time_ms=10**15), -1, 1)
            return found

    assert retained(10_000, broker=Busy()) == Offsets(6, 7)


@pytest.mark.parametrize("again", [False, True], ids=["altered", "made again"])
def test_what_is_not_as_old_any_more_during_the_search_stays(again):
    class Changing(MemoryBroker):
        async def find(self, partition, timestamp_ms):
            found = await super().find(partition, timestamp_ms)
            if again:
                await self.delete("orders", 1)
                await self.create("orders", 2, {"retention.ms": "10000000"})
                await self.append(ORDERS, batch_of(*[b"c"] * 9, time_ms=4_000), -1, 1)
            else:
                await self.alter("orders", {}, whole=True)
            return found

    assert retained(10_000, broker=Changing()) == Offsets(0, 9 if again else 6)


def test_each_topic_is_as_it_is_when_its_turn_comes():
    class Slow(MemoryBroker):
        async def find(self, partition, timestamp_ms):
            await self.alter("later", {}, whole=True)
            return await super().find(partition, timestamp_ms)

    broker, later = Slow(), KafkaPartition("later", 0)

    async def scenario():
        for name in ("first", "later"):
            await broker.create(name, 1, AGED)
            await broker.append(KafkaPartition(name, 0), batch_of(b"a"), -1, 1)
        await TopicRetention(broker, lambda: 10**15).look()
        assert broker.offsets(KafkaPartition("first", 0)) == Offsets(1, 1)
        assert broker.offsets(later) == Offsets(0, 1)

    asyncio.run(scenario())


def test_what_another_gateway_owns_is_left_to_it():
    broker = MemoryBroker()

    async def scenario():
        await broker.create("orders", 1, AGED)
        await broker.append(ORDERS, batch_of(b"a"), -1, 1)
        broker.elsewhere.add(ORDERS)
        await TopicRetention(broker, lambda: 10**15).look()
        broker.elsewhere.clear()
        assert broker.offsets(ORDERS) == Offsets(0, 1)

    asyncio.run(scenario())


def test_a_partition_is_searched_again_once_its_first_record_is_too_old():
    class Counted(MemoryBroker):
        searched = 0

        async def find(self, partition, timestamp_ms):
            self.searched += 1
            return await super().find(partition, timestamp_ms)

    broker = Counted()

    async def scenario():
        await broker.create("orders", 1, AGED)
        for time_ms in (1_000, 3_000):
            await broker.append(ORDERS, batch_of(b"a", time_ms=time_ms), -1, 1)
        clock = iter((1_500, 2_000, 2_001, 2_500, 4_000, 4_001))
        retention = TopicRetention(broker, lambda: next(clock))
        seen = []
        for _ in range(6):
            await retention.look()
            seen.append((broker.searched, broker.offsets(ORDERS).start))
        assert seen == [(1, 0), (1, 0), (2, 1), (2, 1), (2, 1), (3, 2)]
        await broker.append(ORDERS, batch_of(b"a", time_ms=1_000), -1, 1)
        retention = TopicRetention(broker, lambda: 1_500)
        await retention.look()
        await broker.delete_records(ORDERS, 3, 1)
        await broker.append(ORDERS, batch_of(b"a", time_ms=1_000), -1, 1)
        await retention.look()
        assert broker.searched == 5, "offsets begin elsewhere by now"

    asyncio.run(scenario())
