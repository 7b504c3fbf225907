from __future__ import annotations

import asyncio
from uuid import UUID

import pytest

from dafka.gateway.broker import ErrorCode
from dafka.gateway.handlers import Handlers
from dafka.gateway.wire import SERVED, Api
from dafka.process.clock import now_ms
from dafka.testing.broker import MemoryBroker
from tests.support.kafka_messages import ask


def deleted(version, **values):
    """The answer, and the broker as it is then."""

    async def run():
        broker = MemoryBroker()
        await broker.create("orders", 2, {})
        handlers = Handlers(broker, now_ms)
        return await ask(handlers, Api.DELETE_TOPICS, version, timeout_ms=1_000, **values), broker

    return asyncio.run(run())


@pytest.mark.parametrize("version", SERVED[Api.DELETE_TOPICS])
def test_topics_are_deleted_by_name(version):
    names = ["orders", "other"]
    answer, broker = deleted(version, topic_names=names, topics=[{"name": name} for name in names])
    assert [(one.name, one.error_code) for one in answer.responses] == [
        ("orders", 0),
        ("other", ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
    ]
    assert broker.topics() == []


def test_topics_are_deleted_by_id():
    ids = [{"name": None, "topic_id": UUID(int=number)} for number in (1, 9)]
    answer, broker = deleted(6, topics=ids)
    assert [(one.name, one.error_code) for one in answer.responses] == [
        ("orders", 0),
        (None, ErrorCode.UNKNOWN_TOPIC_ID),
    ]
    assert broker.topics() == []
