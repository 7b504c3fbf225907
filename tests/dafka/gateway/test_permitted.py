from __future__ import annotations

import asyncio

import pytest

from dafka.gateway.broker import ErrorCode, KafkaCommit, KafkaPartition
from dafka.gateway.handlers import Handlers
from dafka.gateway.permitted import PermittedBroker
from dafka.gateway.users import KafkaUser
from dafka.gateway.wire import Api
from dafka.process.clock import now_ms
from dafka.testing.broker import MemoryBroker
from dafka.transport.access import Rights
from tests.support.kafka_messages import ask, client_batch

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
        await asyncio.wait_for(waiting, 120)

    run(waited())


def test_topics_are_made_and_deleted_by_who_may_write_them(broker, node):
    assert run(broker.create("read-b", 1, {}, 1)) is DENIED
    assert run(broker.create("written-b", 1, {}, 1)) is ErrorCode.NONE
    assert run(broker.delete("hidden", 1)) is DENIED
    assert node.topic("hidden") is not None
    assert run(broker.delete("written-b", 1)) is run(node.delete("read-a", 1))


def test_all_else_is_as_it_is(broker, node):
    assert (broker.node, broker.cluster_id) == (node.node, node.cluster_id)
    assert broker.entrance == node.entrance
    assert (broker.gateways(), broker.controller()) == (node.gateways(), node.controller())
    assert broker.leader(READ) == node.leader(READ)
    assert isinstance(run(broker.producer_id()), tuple)
    epoch = broker.coordinator("billing").epoch
    assert run(broker.commit("billing", epoch, {READ: KafkaCommit(5)})) is ErrorCode.NONE
    assert run(broker.committed("billing")) == {READ: KafkaCommit(5)}
    assert run(broker.groups()) == ["billing"]
    assert run(broker.forget_group("billing")) is ErrorCode.NONE
    assert run(node.groups()) == []


GROUP_RIGHTS = Rights(read=("orders",), write=("",), groups=("g",))


@pytest.fixture
def asked():
    """Ask a group's coordinator as a user who may read one topic and write all."""
    broker = MemoryBroker()
    handlers = Handlers(broker, now_ms).permitted(KafkaUser("shop", GROUP_RIGHTS, {}))

    async def ask_all(*questions):
        for topic in ("orders", "secret"):
            await broker.create(topic, 1, {})
        epoch = broker.coordinator("g").epoch
        kept = {KafkaPartition(topic, 0): KafkaCommit(5) for topic in ("orders", "secret")}
        assert await broker.commit("g", epoch, kept) is ErrorCode.NONE
        return [await ask(handlers, *question[:2], **question[2]) for question in questions]

    return broker, lambda *questions: run(ask_all(*questions))


def committing(topic):
    of_topic = {"partition_index": 0, "committed_offset": 7, "committed_metadata": ""}
    topics = [{"name": topic, "partitions": [of_topic]}]
    values = {"group_id": "g", "topics": topics, "member_id": ""}
    return Api.OFFSET_COMMIT, 7, values | {"generation_id_or_member_epoch": -1}


def test_where_a_group_is_in_topics_that_may_not_be_read_is_neither_told_nor_changed(asked):
    broker, ask_all = asked
    forgotten = [{"name": "secret", "partitions": [{"partition_index": 0}]}]
    fetched, allowed, denied, deleted = ask_all(
        (Api.OFFSET_FETCH, 5, {"group_id": "g", "topics": None}),
        committing("orders"),
        committing("secret"),
        (Api.OFFSET_DELETE, 0, {"group_id": "g", "topics": forgotten}),
    )
    assert [topic.name for topic in fetched.topics] == ["orders"]
    assert allowed.topics[0].partitions[0].error_code == 0
    assert denied.topics[0].partitions[0].error_code == DENIED
    assert deleted.topics[0].partitions[0].error_code == DENIED
    held = run(broker.committed("g"))
    assert {place.topic: one.offset for place, one in held.items()} == {"orders": 7, "secret": 5}


def test_what_is_not_there_is_not_forgotten(asked):
    _, ask_all = asked
    places = [{"name": "orders", "partitions": [{"partition_index": 9}]}]
    (told,) = ask_all((Api.OFFSET_DELETE, 0, {"group_id": "g", "topics": places}))
    error = told.topics[0].partitions[0].error_code
    assert error == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def test_nobody_is_given_parts_of_what_he_may_not_read(asked):
    _, ask_all = asked
    joins = {"member_epoch": 0, "rebalance_timeout_ms": 1_000, "topic_partitions": []}
    told = ask_all(
        *(
            (Api.CONSUMER_GROUP_HEARTBEAT, 0, joins | {"group_id": name, "member_id": "", **topics})
            for name, topics in (
                ("g1", {"subscribed_topic_names": ["secret"]}),
                ("other", {"subscribed_topic_names": ["orders"]}),
                ("g2", {"subscribed_topic_names": ["orders"]}),
            )
        )
    )
    assert [one.error_code for one in told] == [DENIED, ErrorCode.GROUP_AUTHORIZATION_FAILED, 0]
