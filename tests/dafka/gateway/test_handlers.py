from __future__ import annotations

import asyncio
import random

import pytest

from dafka.errors import RequestError
from dafka.gateway.broker import ErrorCode
from dafka.gateway.handlers import Handlers
from dafka.gateway.session import Session
from dafka.gateway.wire import ADVERTISED_FROM, SERVED, Api, Request, parse
from dafka.process.clock import now_ms
from dafka.testing.broker import MemoryBroker
from dafka.testing.mutation import edited, random_edits
from tests.support.kafka_messages import answered, ask, requests

EACH = 20
MUTATIONS = 3_000


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


async def answered_to(session, frame):
    """Ask without waiting, and wanting an answer; whether it was a request."""
    try:
        asked = parse(frame)
    except RequestError:
        return False
    if asked.body is not None:
        for name in ("max_wait_ms", "acks"):
            if hasattr(asked.body, name):
                setattr(asked.body, name, -1)
    pieces = await session.answer(asked)
    assert answered(pieces, asked.api, asked.version)[0] == asked.correlation
    return True


def asking(frames):
    """Whether each was a request; all of them are answered so that kio can read it."""

    async def run():
        broker = MemoryBroker()
        await broker.create("orders", 2, {})
        session = Session(Handlers(broker, lambda: 0))
        return [await answered_to(session, frame) for frame in frames]

    return asyncio.run(asyncio.wait_for(run(), 120))


def test_whatever_is_asked_is_answered():
    assert all(asking(requests(random.Random(31), EACH)))


def test_whatever_is_sent_is_answered_or_is_no_request():
    chance = random.Random(32)
    examples = list(requests(chance, 2))
    frames = [edited([chance.choice(examples)], random_edits(chance)) for _ in range(MUTATIONS)]
    found = asking(b"".join(frame) for frame in frames)
    assert found.count(True) > MUTATIONS / 10
    assert found.count(False) > MUTATIONS / 10
