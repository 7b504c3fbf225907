from __future__ import annotations

import asyncio

import pytest

from dafka.gateway.broker import ErrorCode, KafkaCommit, KafkaPartition
from dafka.gateway.permitted import PermittedBroker
from dafka.testing.broker import MemoryBroker
from dafka.transport.access import Rights
from tests.support.kafka_messages import client_batch

DENIED = ErrorCode.TOPIC_AUTHORIZATION_FAILED
READ, WRITTEN, HIDDEN = (KafkaPartition(name, 0) for name in ("read-a", "written-a", "hidden"))


@pytest.fixture
def node():
    return MemoryBroker()


@pytest.fixture
def broker(node):
    for partition in (READ, WRITTEN, HIDDEN):
        assert run(node.create(partition.topic, 1, {})) is ErrorCode.NONE
    return PermittedBroker(node, Rights(read=("read-",), write=("written-",)))


def run(coroutine):
    return asyncio.run(coroutine)


def test_topics_of_others_are_not_there(broker, node):
    assert broker.topic("read-a") == node.topic("read-a")
    assert broker.topic("written-a") is not None
    assert broker.topic("hidden") is None
    assert [topic.name for topic in broker.topics()] == ["read-a", "written-a"]


def test_records_go_where_they_may(broker, node):
    async def placed(partition):
        return (await broker.append(partition, client_batch([b"x"]), -1, 1.0)).error

    assert run(placed(WRITTEN)) is ErrorCode.NONE
    assert {run(placed(READ)), run(placed(HIDDEN))} == {DENIED}
    assert node.offsets(WRITTEN).end == 1
    assert node.offsets(READ).end == node.offsets(HIDDEN).end == 0


def test_records_come_from_where_they_may(broker):
    for partition, error in ((READ, ErrorCode.NONE), (WRITTEN, DENIED), (HIDDEN, DENIED)):
        assert run(broker.fetch(partition, 0, 1_000)).error is error
        assert run(broker.find(partition, -2)).error is error
        found = broker.offsets(partition)
        assert found is error if error is DENIED else found.end == 0


def test_nobody_is_woken_by_what_is_hidden_from_him(broker, node):
    async def waited():
        waiting = asyncio.ensure_future(broker.arrival({READ: 0, HIDDEN: 0}, 30))
        await asyncio.sleep(0)
        await node.append(HIDDEN, client_batch([b"x"]), -1, 1.0)
        await asyncio.sleep(0.01)
        assert not waiting.done()
        await node.append(READ, client_batch([b"x"]), -1, 1.0)
        await asyncio.wait_for(waiting, 20)

    run(waited())


def test_topics_are_made_and_deleted_by_who_may_write_them(broker, node):
    assert run(broker.create("read-b", 1, {})) is DENIED
    assert run(broker.create("written-b", 1, {})) is ErrorCode.NONE
    assert run(broker.delete("hidden")) is DENIED
    assert node.topic("hidden") is not None
    assert run(broker.delete("written-b")) is run(node.delete("read-a"))


def test_all_else_is_as_it_is(broker, node):
    assert (broker.node, broker.cluster_id) == (node.node, node.cluster_id)
    assert (broker.gateways(), broker.controller()) == (node.gateways(), node.controller())
    assert broker.leader(READ) == node.leader(READ)
    assert isinstance(run(broker.producer_id()), tuple)
    epoch = broker.coordinator("billing").epoch
    assert run(broker.commit("billing", epoch, {READ: KafkaCommit(5)})) is ErrorCode.NONE
    assert run(broker.committed("billing")) == {READ: KafkaCommit(5)}
    assert run(broker.groups()) == ["billing"]
    assert run(broker.forget_group("billing")) is ErrorCode.NONE
    assert run(node.groups()) == []
