from __future__ import annotations

import asyncio

import pytest

from dafka.gateway.broker import ErrorCode
from dafka.gateway.handlers import Handlers
from dafka.gateway.wire import SERVED, Api
from dafka.process.clock import now_ms
from dafka.testing.broker import MemoryBroker
from tests.support.kafka_messages import ask

every_alter = pytest.mark.parametrize("version", SERVED[Api.ALTER_CONFIGS])
every_increment = pytest.mark.parametrize("version", SERVED[Api.INCREMENTAL_ALTER_CONFIGS])
SET, DELETE, APPEND = 0, 1, 2


def altered(api, version, *resources, validate_only=False, broker=None):
    """The answers, and what the topic has then."""
    broker = broker or MemoryBroker()

    async def run():
        await broker.create("orders", 2, {"retention.ms": "5"})
        handlers = Handlers(broker, now_ms)
        asked = {"resources": resources, "validate_only": validate_only}
        answer = await ask(handlers, api, version, **asked)
        return answer.responses, broker.topic("orders").configs

    return asyncio.run(run())


def topic(*configs, name="orders", kind=2):
    rows = [
        {"name": key, "value": value, "config_operation": operation[0] if operation else SET}
        for key, value, *operation in configs
    ]
    return {"resource_type": kind, "resource_name": name, "configs": rows}


@every_alter
def test_what_is_not_said_is_what_it_was_without(version):
    (told,), configs = altered(Api.ALTER_CONFIGS, version, topic(("max.message.bytes", "7")))
    assert (told.error_code, told.resource_name) == (0, "orders")
    assert configs == {"max.message.bytes": "7"}
    _, nothing = altered(Api.ALTER_CONFIGS, version, topic())
    assert nothing == {}


@every_increment
def test_what_is_not_said_stays(version):
    api = Api.INCREMENTAL_ALTER_CONFIGS
    (told,), configs = altered(api, version, topic(("max.message.bytes", "7")))
    assert told.error_code == 0
    assert configs == {"retention.ms": "5", "max.message.bytes": "7"}
    assert altered(api, version, topic(("retention.ms", None, DELETE)))[1] == {}
    assert altered(api, version, topic())[1] == {"retention.ms": "5"}


@every_increment
def test_what_is_only_to_be_tried_is_not_done(version):
    api = Api.INCREMENTAL_ALTER_CONFIGS
    (told,), configs = altered(api, version, topic(("retention.ms", "7")), validate_only=True)
    assert (told.error_code, configs) == (0, {"retention.ms": "5"})


@pytest.mark.parametrize(
    ("resource", "error", "why"),
    [
        (topic(("retention.ms", "soon")), ErrorCode.INVALID_CONFIG, "is a number"),
        (topic(("cleanup.policy", "compact")), ErrorCode.INVALID_CONFIG, "is delete here"),
        (topic(("segment.bytes", "7")), ErrorCode.INVALID_CONFIG, "no config"),
        (topic(("retention.ms", None)), ErrorCode.INVALID_CONFIG, "no value"),
        (topic(("cleanup.policy", "x", APPEND)), ErrorCode.INVALID_CONFIG, "set and deleted"),
        (topic(*[("retention.ms", "7")] * 2), ErrorCode.INVALID_CONFIG, "named twice"),
        (topic(name="other"), ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "no topic 'other'"),
        (topic(kind=4, name="1"), ErrorCode.INVALID_REQUEST, "topics alone"),
    ],
)
def test_what_cannot_be_altered_is_refused_with_the_reason(resource, error, why):
    (told,), configs = altered(Api.INCREMENTAL_ALTER_CONFIGS, 1, resource)
    assert told.error_code == error
    assert why in told.error_message
    assert configs == {"retention.ms": "5"}


def test_a_topic_that_is_named_twice_is_not_altered():
    told, configs = altered(Api.ALTER_CONFIGS, 2, topic(), topic())
    assert [one.error_code for one in told] == [ErrorCode.INVALID_REQUEST] * 2
    assert configs == {"retention.ms": "5"}


class LateBroker(MemoryBroker):
    """One whose stores do not answer."""

    async def alter(self, *_, **__):
        return ErrorCode.REQUEST_TIMED_OUT


@every_alter
def test_what_fails_is_said_in_words_which_are_all_that_sarama_looks_at(version):
    (told,), configs = altered(Api.ALTER_CONFIGS, version, topic(), broker=LateBroker())
    assert (told.error_code, told.error_message) == (7, "REQUEST_TIMED_OUT")
    assert configs == {"retention.ms": "5"}


def test_topics_are_altered_at_once():
    class Late(MemoryBroker):
        def __init__(self):
            super().__init__()
            self.both = asyncio.Barrier(2)

        async def alter(self, name, configs, *, whole):
            await self.both.wait()
            return ErrorCode.REQUEST_TIMED_OUT

    broker = Late()
    changes = [topic(("retention.ms", "7"), name=name) for name in ("orders", "other")]

    async def run():
        async with asyncio.timeout(10):
            await asyncio.gather(broker.create("orders", 1, {}), broker.create("other", 1, {}))
            asked = {"resources": changes, "validate_only": False}
            return await ask(Handlers(broker, now_ms), Api.INCREMENTAL_ALTER_CONFIGS, 1, **asked)

    told = asyncio.run(run()).responses
    assert [one.error_code for one in told] == [ErrorCode.REQUEST_TIMED_OUT] * 2
