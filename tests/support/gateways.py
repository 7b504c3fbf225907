"""Gateways in this process, without Kafka's wire: what they are given, and waiting for them."""

from __future__ import annotations

import asyncio

from dafka.gateway.broker import ErrorCode, KafkaPartition
from dafka.records.batch import BatchBuilder, raw_records
from dafka.records.envelope import FRESH, pack

ORDERS = KafkaPartition("orders", 0)


def batch_of(*values, producer=None, sequence=0, epoch=0, time_ms=1_000):
    """What a Kafka client sends."""
    builder = BatchBuilder(100_000)
    for value in values:
        assert builder.append(time_ms, None, value, ())
    if producer is not None:
        builder._begun().set_producer_state(producer, epoch, sequence)
    return bytes(builder.build())


def read(batches):
    """Offsets and values of what a client has fetched."""
    return [
        (record.sequence, record.value)
        for batch in batches
        for record in raw_records(pack(FRESH) + batch)
    ]


async def until(happens, seconds=120.0):
    """Wait until something is so; Kafka clients ask again likewise."""
    async with asyncio.timeout(seconds):
        while not (found := await happens()):
            await asyncio.sleep(0.02)
    return found


async def compared(broker):
    """Wait until no store has a new disk any more, so that one may be away."""

    async def are_known():
        return all(one.told and not one.new for one in broker._watches)

    await until(are_known)


async def appended(broker, partition, batch, acks=-1):
    """Where a batch was placed, once somebody owns the partition."""

    async def try_it():
        placed = await broker.append(partition, batch, acks, 30)
        return None if placed.error is ErrorCode.NOT_LEADER_OR_FOLLOWER else placed

    return await until(try_it)


async def made(broker, name, partitions):
    assert await broker.create(name, partitions, {}, 60) is ErrorCode.NONE


async def topic_of(broker, name):
    return broker.topic(name)


def die(gateway):
    """As if its process had been killed: it says no goodbye."""
    gateway._node.stop()
