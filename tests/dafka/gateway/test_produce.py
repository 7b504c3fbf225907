from __future__ import annotations

import asyncio

import pytest

from dafka.errors import RequestError
from dafka.gateway.broker import ErrorCode, KafkaPartition
from dafka.gateway.handlers import Handlers
from dafka.gateway.wire import SERVED, Api
from dafka.process.clock import now_ms
from dafka.records.client_batch import placed
from dafka.records.compression import Codec
from dafka.testing.broker import MemoryBroker
from tests.support.kafka_messages import ask, client_batch, producing

ORDERS = KafkaPartition("orders", 0)
LATEST = SERVED[Api.PRODUCE][-1]


def produced(*requests, version=LATEST, configs=(), **settings):
    """The one partition's part of each answer, and what is stored in the end."""

    async def run():
        broker = MemoryBroker(**settings)
        await broker.create("orders", 2, dict(configs))
        handlers = Handlers(broker, now_ms)
        answers = [await ask(handlers, Api.PRODUCE, version, **one) for one in requests]
        stored = (await broker.fetch(ORDERS, 0, 1 << 30)).batches
        return [one and one.responses[0].partition_responses[0] for one in answers], stored

    return asyncio.run(run())


@pytest.mark.parametrize("version", SERVED[Api.PRODUCE])
@pytest.mark.parametrize("acks", [1, -1])
def test_a_batch_is_stored_as_it_came(version, acks):
    batch = client_batch(leader_epoch=77)
    (first, second), stored = produced(
        producing(batch, acks=acks), producing(batch, acks=acks), version=version
    )
    assert (first.error_code, first.base_offset) == (ErrorCode.NONE, 0)
    assert second.base_offset == 3
    assert stored == [placed(batch, 0, 3), placed(batch, 3, 3)]


def test_nothing_is_answered_to_whom_wants_no_answer():
    (answer,), stored = produced(producing(client_batch(), acks=0))
    assert answer is None
    assert len(stored) == 1


def test_who_wants_no_answer_is_disconnected_where_nothing_could_be_stored():
    with pytest.raises(RequestError, match="CORRUPT_MESSAGE"):
        produced(producing(client_batch()[:-1] + b"!", acks=0))


@pytest.mark.parametrize(
    ("batch", "error"),
    [
        (None, ErrorCode.INVALID_RECORD),
        (client_batch()[:-1] + b"!", ErrorCode.CORRUPT_MESSAGE),
        (client_batch()[:-1], ErrorCode.INVALID_RECORD),
        (client_batch() + client_batch(), ErrorCode.INVALID_RECORD),
        (client_batch(magic=1), ErrorCode.INVALID_RECORD),
        (client_batch(records=2), ErrorCode.INVALID_RECORD),
        (client_batch(attributes=0x20), ErrorCode.INVALID_RECORD),
        (client_batch(attributes=0x10), ErrorCode.INVALID_RECORD),
        (client_batch(producer=(9, 0, -1)), ErrorCode.INVALID_RECORD),
        (client_batch(producer=(9, -1, 0)), ErrorCode.INVALID_RECORD),
        (client_batch([b"x" * 2_000]), ErrorCode.MESSAGE_TOO_LARGE),
    ],
)
def test_what_is_no_batch_that_can_be_stored_is_refused(batch, error):
    (answer,), stored = produced(producing(batch), configs={"max.message.bytes": "1000"})
    assert (answer.error_code, answer.base_offset) == (error, -1)
    assert stored == []


def test_zstd_is_refused_from_clients_that_are_older_than_it():
    batch = client_batch([b"a" * 1_000], codec=Codec.ZSTD)
    (answer,), _ = produced(producing(batch), version=6)
    assert answer.error_code == ErrorCode.UNSUPPORTED_COMPRESSION_TYPE
    (answer,), _ = produced(producing(batch), version=7)
    assert answer.error_code == ErrorCode.NONE


@pytest.mark.parametrize(
    ("change", "error"),
    [
        ({"topic": "other"}, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        ({"partition": 2}, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        ({"partition": -1}, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        ({"acks": 2}, ErrorCode.INVALID_REQUIRED_ACKS),
    ],
)
def test_a_request_that_names_nothing_is_refused(change, error):
    (answer,), _ = produced(producing(client_batch(), **change))
    assert answer.error_code == error


def test_a_transaction_is_refused_as_clients_understand_it():
    asked = producing(client_batch()) | {"transactional_id": "t"}
    (answer,), stored = produced(asked)
    assert answer.error_code == ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
    assert stored == []


def test_a_batch_that_comes_again_is_answered_as_before_and_not_stored():
    first, second = client_batch(producer=(9, 0, 0)), client_batch(producer=(9, 0, 3))
    beyond = client_batch(producer=(9, 0, 9))
    answers, stored = produced(*map(producing, (first, second, first, second, beyond)))
    assert [one.base_offset for one in answers] == [0, 3, 0, 3, -1]
    assert answers[-1].error_code == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert len(stored) == 2


def test_what_is_not_stored_in_time_is_said_so():
    (answer,), _ = produced(producing(client_batch(), timeout_ms=10), store_s=60)
    assert answer.error_code == ErrorCode.REQUEST_TIMED_OUT


def test_each_partition_has_its_own_answer():
    async def run():
        broker = MemoryBroker()
        for name in ("a", "b"):
            await broker.create(name, 2, {})
        broker.elsewhere.add(KafkaPartition("b", 1))
        data = [
            {
                "name": name,
                "partition_data": [
                    {"index": number, "records": client_batch()} for number in range(2)
                ],
            }
            for name in ("a", "b")
        ]
        asked = {"acks": -1, "timeout_ms": 1_000, "topic_data": data}
        return await ask(Handlers(broker, now_ms), Api.PRODUCE, LATEST, **asked)

    answer = asyncio.run(run())
    assert [
        (topic.name, one.index, one.error_code)
        for topic in answer.responses
        for one in topic.partition_responses
    ] == [("a", 0, 0), ("a", 1, 0), ("b", 0, 0), ("b", 1, ErrorCode.NOT_LEADER_OR_FOLLOWER)]
