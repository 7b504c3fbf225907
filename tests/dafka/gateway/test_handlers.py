from __future__ import annotations

import asyncio
import random

import pytest
from kio.index import load_request_schema

from dafka.gateway.broker import ErrorCode
from dafka.gateway.handlers import Handlers
from dafka.gateway.wire import ADVERTISED_FROM, SERVED, Api, Request, parse
from dafka.process.clock import now_ms
from dafka.testing.broker import MemoryBroker
from tests.support.kafka_messages import (
    EVERY_VERSION,
    answered,
    ask,
    request_header,
    some,
    written,
)

ANYTHING = 20


@pytest.mark.parametrize("version", SERVED[Api.API_VERSIONS])
def test_clients_are_told_what_is_served(version):
    answer = asyncio.run(ask(Handlers(MemoryBroker(), now_ms), Api.API_VERSIONS, version))
    assert answer.error_code == 0
    told = {one.api_key: (one.min_version, one.max_version) for one in answer.api_keys}
    assert told == {
        api: (ADVERTISED_FROM.get(api, versions.start), versions[-1])
        for api, versions in SERVED.items()
    }


def test_clients_that_ask_in_an_unknown_version_are_told_as_well():
    asked = Request(Api.API_VERSIONS, 0, 5, "", None)
    pieces = asyncio.run(Handlers(MemoryBroker(), now_ms).answer(asked))
    correlation, answer = answered(pieces, Api.API_VERSIONS, 0)
    assert (correlation, answer.error_code) == (5, ErrorCode.UNSUPPORTED_VERSION)
    assert len(answer.api_keys) == len(Api)


@pytest.mark.parametrize(("api", "version"), EVERY_VERSION)
def test_whatever_is_asked_is_answered(api, version):
    """Any values in the fields: an answer that kio can read, and never an error of ours."""
    chance = random.Random(31)
    schema = load_request_schema(api, version)

    async def run():
        broker = MemoryBroker()
        await broker.create("orders", 2, {})
        handlers = Handlers(broker, lambda: 0)
        for _ in range(ANYTHING):
            frame = request_header(api, version, schema.__flexible__) + written(
                some(schema, chance)
            )
            asked = parse(frame)
            for name in ("max_wait_ms", "acks"):  # not to wait, and to be answered
                if hasattr(asked.body, name):
                    setattr(asked.body, name, -1)
            pieces = await handlers.answer(asked)
            assert answered(pieces, api, version)[0] == 7

    asyncio.run(asyncio.wait_for(run(), 60))
