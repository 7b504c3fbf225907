from __future__ import annotations

import asyncio

import pytest

from dafka.gateway.broker import ErrorCode, KafkaPartition, Offsets
from dafka.gateway.handlers import Handlers
from dafka.gateway.users import KafkaUser
from dafka.gateway.wire import SERVED, Api
from dafka.process.clock import now_ms
from dafka.testing.broker import MemoryBroker
from dafka.transport.access import Rights
from tests.support.kafka_messages import ask, client_batch

ORDERS = KafkaPartition("orders", 0)


def run(*asked, version=2, rights=None):
    """The answers by partition, and what is there then."""

    async def asking():
        broker = MemoryBroker()
        await broker.create("orders", 2, {})
        await broker.append(ORDERS, client_batch([b"x"] * 10), -1, 1.0)
        broker.elsewhere.add(KafkaPartition("orders", 1))
        handlers = Handlers(broker, now_ms)
        if rights is not None:
            handlers = handlers.permitted(KafkaUser("shop", rights, {}))
        topics = [
            {"name": name, "partitions": [{"partition_index": number, "offset": offset}]}
            for name, number, offset in asked
        ]
        answer = await ask(handlers, Api.DELETE_RECORDS, version, topics=topics, timeout_ms=9)
        told = [
            (one.error_code, one.low_watermark)
            for topic in answer.topics
            for one in topic.partitions
        ]
        return told, broker.offsets(ORDERS)

    return asyncio.run(asking())


@pytest.mark.parametrize("version", SERVED[Api.DELETE_RECORDS])
def test_offsets_begin_where_a_client_says(version):
    assert run(("orders", 0, 4), version=version) == ([(ErrorCode.NONE, 4)], Offsets(4, 10))


def test_the_high_watermark_is_all_of_it():
    assert run(("orders", 0, -1)) == ([(ErrorCode.NONE, 10)], Offsets(10, 10))


@pytest.mark.parametrize(
    ("name", "number", "offset", "error"),
    [
        ("orders", 0, 11, ErrorCode.OFFSET_OUT_OF_RANGE),
        ("orders", 0, -2, ErrorCode.OFFSET_OUT_OF_RANGE),
        ("orders", 1, 0, ErrorCode.NOT_LEADER_OR_FOLLOWER),
        ("orders", 2, 0, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        ("unknown", 0, 0, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
    ],
)
def test_what_cannot_be_is_refused(name, number, offset, error):
    assert run((name, number, offset)) == ([(error, -1)], Offsets(0, 10))


def test_who_may_not_write_may_not_delete():
    denied = [(ErrorCode.TOPIC_AUTHORIZATION_FAILED, -1)]
    assert run(("orders", 0, 4), rights=Rights(read=("",))) == (denied, Offsets(0, 10))
    assert run(("orders", 0, 4), rights=Rights(write=("orders",)))[1] == Offsets(4, 10)
