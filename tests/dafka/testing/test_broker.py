"""What a broker owes the gateway's front, shown on the one in memory."""

from __future__ import annotations

import asyncio

import pytest

from dafka.gateway.broker import (
    EARLIEST_MS,
    LATEST_MS,
    MAX_TIMESTAMP_MS,
    ErrorCode,
    Fetched,
    Found,
    KafkaPartition,
    Offsets,
    Placed,
)
from dafka.records.client_batch import placed
from dafka.testing.broker import MemoryBroker
from tests.support.kafka_messages import client_batch

ORDERS = KafkaPartition("orders", 0)
OTHER = KafkaPartition("other", 0)
BATCH = client_batch()
GONE = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
WAIT_S = 120


def played(play, *, batches=0, configs=(), **settings):
    async def run():
        broker = MemoryBroker(**settings)
        assert await broker.create("orders", 1, dict(configs)) is ErrorCode.NONE
        for _ in range(batches):
            await broker.append(ORDERS, BATCH, -1, WAIT_S)
        return await play(broker)

    return asyncio.run(asyncio.wait_for(run(), WAIT_S))


def test_batches_get_the_next_offsets_in_the_order_of_the_calls():
    async def play(broker):
        answers = [broker.append(ORDERS, client_batch([b"a"] * n), -1, 1) for n in (1, 2, 3)]
        return [(await one).offset for one in reversed(answers)]

    assert played(play, store_s=0.01) == [3, 1, 0]


def test_nothing_is_shown_before_it_is_stored():
    async def play(broker):
        answer = broker.append(ORDERS, BATCH, -1, WAIT_S)
        assert broker.offsets(ORDERS) == Offsets(0, 0)
        assert (await broker.fetch(ORDERS, 0, 1_000)).batches == []
        await answer
        assert broker.offsets(ORDERS) == Offsets(0, 3)
        assert (await broker.fetch(ORDERS, 0, 1_000)).batches == [placed(BATCH, 0, 3)]

    played(play, store_s=0.01)


@pytest.mark.parametrize("acks", [0, 1])
def test_who_need_not_wait_for_the_store_does_not(acks):
    async def play(broker):
        return await broker.append(ORDERS, BATCH, acks, WAIT_S)

    assert played(play, store_s=3_600) == Placed(ErrorCode.NONE, 0, 0)


def test_what_takes_too_long_is_said_so():
    async def play(broker):
        return await broker.append(ORDERS, BATCH, -1, 0.01)

    assert played(play, store_s=3_600).error is ErrorCode.REQUEST_TIMED_OUT


def test_a_fetch_brings_at_least_one_batch():
    async def play(broker):
        return [len((await broker.fetch(ORDERS, 0, size * len(BATCH))).batches) for size in (0, 2)]

    assert played(play, batches=3) == [1, 2]


def test_a_fetch_outside_is_said_so():
    async def play(broker):
        return await broker.fetch(ORDERS, 4, 1_000)

    assert played(play, batches=1) == Fetched(ErrorCode.OFFSET_OUT_OF_RANGE, Offsets(0, 3))


def test_who_waits_is_woken_by_what_is_stored():
    async def play(broker):
        waiting = asyncio.create_task(broker.arrival({ORDERS: 3}, WAIT_S))
        await asyncio.sleep(0)
        assert not waiting.done()
        await broker.append(ORDERS, BATCH, -1, WAIT_S)
        await waiting

    played(play, batches=1)


def test_who_waits_for_what_is_there_does_not_wait():
    played(lambda broker: broker.arrival({ORDERS: 2}, WAIT_S), batches=1)


def test_who_waits_for_nothing_waits_as_long_as_he_said():
    played(lambda broker: broker.arrival({ORDERS: 3}, 0.01), batches=1)


def test_who_waits_is_woken_when_the_partition_goes():
    async def play(broker):
        waiting = asyncio.create_task(broker.arrival({ORDERS: 0}, WAIT_S))
        await asyncio.sleep(0)
        assert await broker.delete("orders", 1) is ErrorCode.NONE
        await waiting

    played(play)


@pytest.mark.parametrize(
    ("time_ms", "found"),
    [
        (EARLIEST_MS, Found(ErrorCode.NONE, 0)),
        (LATEST_MS, Found(ErrorCode.NONE, 6)),
        (MAX_TIMESTAMP_MS, Found(ErrorCode.NONE, 2, 1_002)),
        (1_001, Found(ErrorCode.NONE, 1, 1_001)),
        (1_003, Found(ErrorCode.NONE)),
    ],
)
def test_records_are_found_by_time(time_ms, found):
    assert played(lambda broker: broker.find(ORDERS, time_ms), batches=2) == found


def test_what_an_empty_partition_has_is_not_found():
    assert played(lambda broker: broker.find(ORDERS, MAX_TIMESTAMP_MS)) == Found(ErrorCode.NONE)


def test_retention_takes_whole_batches_from_the_front():
    async def play(broker):
        return broker.offsets(ORDERS)

    kept = {"retention.bytes": str(2 * len(BATCH))}
    assert played(play, batches=5, configs=kept) == Offsets(9, 15)


@pytest.mark.parametrize("elsewhere", [True, False])
def test_other_partitions_are_not_served(elsewhere):
    error = ErrorCode.NOT_LEADER_OR_FOLLOWER if elsewhere else GONE

    async def play(broker):
        if elsewhere:
            broker.elsewhere.add(OTHER)
        assert (await broker.append(OTHER, BATCH, -1, 1)).error is error
        assert (await broker.fetch(OTHER, 0, 1)).error is error
        assert (await broker.find(OTHER, LATEST_MS)).error is error
        assert broker.offsets(OTHER) is error
        await broker.arrival({OTHER: 0}, WAIT_S)

    played(play)


def test_topics_are_made_once_and_deleted_once():
    async def play(broker):
        assert await broker.create("orders", 1, {}) is ErrorCode.TOPIC_ALREADY_EXISTS
        before = broker.topic("orders").id
        assert await broker.delete("orders", 1) is ErrorCode.NONE
        assert await broker.delete("orders", 1) is GONE
        await broker.create("orders", 1, {})
        assert broker.topic("orders").id != before
        for number in range(2_000):
            await broker.create(f"t{number}", 1, {})
        assert len(broker.topics()) == 1_000

    played(play)


def test_producers_get_different_numbers():
    async def play(broker):
        return await broker.producer_id(), await broker.producer_id()

    first, second = played(play)
    assert first != second
