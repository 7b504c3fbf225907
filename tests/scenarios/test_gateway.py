"""A gateway in front of a real store, over real sockets, without Kafka's wire."""

from __future__ import annotations

import asyncio

import pytest

from dafka.cluster import Cluster
from dafka.gateway.broker import ErrorCode, KafkaPartition, Offsets
from dafka.gateway.machine import node_number
from dafka.node.gateway import GatewayNode
from dafka.records.batch import BatchBuilder, raw_records
from dafka.records.envelope import FRESH, pack

pytestmark = [pytest.mark.net, pytest.mark.slow]

ORDERS = KafkaPartition("orders", 0)


def batch_of(*values, producer=None, sequence=0, epoch=0):
    """What a Kafka client sends."""
    builder = BatchBuilder(100_000)
    for value in values:
        assert builder.append(1_000, None, value, ())
    if producer is not None:
        builder._builder.set_producer_state(producer, epoch, sequence)
    return bytes(builder.build())


def read(batches):
    """Offsets and values of what a client has fetched."""
    return [
        (record.sequence, record.value)
        for batch in batches
        for record in raw_records(pack(FRESH) + batch)
    ]


async def until(happens, seconds=30.0):
    """Wait until something is so; Kafka clients ask again likewise."""
    async with asyncio.timeout(seconds):
        while not (found := await happens()):
            await asyncio.sleep(0.02)
    return found


async def appended(broker, partition, batch, acks=-1):
    """Where a batch was placed, once somebody owns the partition."""

    async def try_it():
        placed = await broker.append(partition, batch, acks)
        return None if placed.error is ErrorCode.NOT_LEADER_OR_FOLLOWER else placed

    return await until(try_it)


async def made(broker, name, partitions):
    assert await broker.create(name, partitions, {}) is ErrorCode.NONE


@pytest.fixture
def running(cluster):
    cluster.start_tower()
    cluster.store()
    return cluster


@pytest.fixture
def gateway(running, free_ports):
    """A function that opens a gateway."""
    opened = []

    def open_one():
        place, _ = running.place(None, {"stores": running.queries})
        opened.append(GatewayNode(place, "127.0.0.1", free_ports(1)))
        return opened[-1]

    yield open_one
    for one in opened:
        one.close()


def test_what_is_appended_is_read_by_offset(gateway):
    broker = gateway()

    async def scenario():
        await made(broker, "orders", 1)
        first = await appended(broker, ORDERS, batch_of(b"a", b"b"))
        assert (first.error, first.offset) == (ErrorCode.NONE, 0)
        second = await appended(broker, ORDERS, batch_of(b"c"))
        assert second.offset == 2
        assert broker.offsets(ORDERS) == Offsets(0, 3)
        fetched = await broker.fetch(ORDERS, 1, 1_000)
        assert read(fetched.batches) == [(0, b"a"), (1, b"b"), (2, b"c")]
        assert (await broker.fetch(ORDERS, 3, 1_000)).batches == ()
        assert (await broker.fetch(ORDERS, 4, 1_000)).error is ErrorCode.OFFSET_OUT_OF_RANGE

    asyncio.run(scenario())


def test_records_of_dafka_producers_get_offsets_too(gateway, running):
    broker = gateway()
    producer = running.producer()

    async def scenario():
        await made(broker, "orders", 1)
        await appended(broker, ORDERS, batch_of(b"a"))
        producer.send("orders", b"b")
        producer.flush(10)
        await broker.arrival({ORDERS: 1}, 30)
        fetched = await broker.fetch(ORDERS, 1, 1_000)
        assert read(fetched.batches) == [(1, b"b")]
        assert (await appended(broker, ORDERS, batch_of(b"c"))).offset == 2

    asyncio.run(scenario())


def test_a_dafka_consumer_reads_what_was_appended(gateway, running):
    broker = gateway()
    consumer = running.consumer("orders")

    async def scenario():
        await made(broker, "orders", 4)
        for number in range(4):
            await appended(broker, KafkaPartition("orders", number), batch_of(b"%d" % number))

    asyncio.run(scenario())
    assert {consumer.poll(10).value for _ in range(4)} == {b"0", b"1", b"2", b"3"}
