from __future__ import annotations

import asyncio
from uuid import UUID

import pytest

from dafka.gateway.admin import ON_DEMAND_S
from dafka.gateway.broker import ErrorCode, KafkaPartition, Leader, Topic
from dafka.gateway.handlers import Handlers, TopicSettings
from dafka.gateway.wire import SERVED, Api
from dafka.process.clock import now_ms
from dafka.testing.broker import MemoryBroker
from tests.support.kafka_messages import ask

LATEST = SERVED[Api.METADATA][-1]
MADE = TopicSettings()


def told(api, version, made=MADE, broker_type=MemoryBroker, **values):
    async def run():
        broker = broker_type()
        broker.endpoint = ("gateway.example", 9092)
        await broker.create("orders", 2, {})
        await broker.create("__internal", 1, {})
        broker.elsewhere.add(KafkaPartition("orders", 1))
        return await ask(Handlers(broker, now_ms, made), api, version, **values)

    return asyncio.run(run())


def metadata(version=LATEST, names=(), **values):
    topics = [{"name": name} for name in names]
    return told(Api.METADATA, version, topics=topics, **values)


@pytest.mark.parametrize("version", SERVED[Api.METADATA])
def test_clients_are_told_who_has_what(version):
    answer = metadata(version, ["orders"])
    (broker,) = answer.brokers
    assert (broker.node_id, broker.host, broker.port) == (1, "gateway.example", 9092)
    (topic,) = answer.topics
    assert (topic.error_code, topic.name) == (0, "orders")
    assert [(one.partition_index, one.leader_id) for one in topic.partitions] == [(0, 1), (1, 2)]
    assert getattr(answer, "controller_id", 1) == 1
    assert getattr(topic, "topic_id", UUID(int=1)) == UUID(int=1)
    assert getattr(answer, "cluster_id", "in-memory") == "in-memory"


@pytest.mark.parametrize(("version", "every"), [(0, []), (1, None), (LATEST, None)])
def test_all_topics_are_told_to_whom_names_none(version, every):
    answer = told(Api.METADATA, version, topics=every)
    assert [topic.name for topic in answer.topics] == ["orders", "__internal"]
    if version:
        assert [topic.is_internal for topic in answer.topics] == [False, True]


@pytest.mark.parametrize("name", ["a b", "\udc80", "ä"])
def test_a_topic_of_the_mesh_that_kafka_cannot_name_is_not_told(name):
    class Mesh(MemoryBroker):
        def topics(self):
            orders, internal = super().topics()
            return [orders, internal._replace(name=name)]

    answer = told(Api.METADATA, LATEST, broker_type=Mesh, topics=None)
    assert [topic.name for topic in answer.topics] == ["orders"]


def test_a_topic_is_told_once_however_often_it_is_named():
    assert [topic.name for topic in metadata(names=["orders"] * 9).topics] == ["orders"]
    ids = [{"topic_id": UUID(int=1), "name": None}] * 9
    assert [topic.name for topic in told(Api.METADATA, LATEST, topics=ids).topics] == ["orders"]


@pytest.mark.parametrize("version", [1, LATEST])
def test_no_topic_is_told_to_whom_wants_none(version):
    assert told(Api.METADATA, version, topics=[]).topics == []


def test_a_topic_has_an_id_by_which_it_is_known():
    ids = [{"topic_id": UUID(int=1), "name": None}, {"topic_id": UUID(int=99), "name": None}]
    known, unknown = told(Api.METADATA, LATEST, topics=ids).topics
    assert (known.error_code, known.name) == (0, "orders")
    assert (unknown.error_code, unknown.topic_id) == (ErrorCode.UNKNOWN_TOPIC_ID, UUID(int=99))


@pytest.mark.parametrize("version", SERVED[Api.METADATA])
def test_a_topic_is_made_on_demand(version):
    made = TopicSettings(partitions=3)
    (topic,) = metadata(version, ["new"], made=made, allow_auto_topic_creation=True).topics
    assert (topic.error_code, len(topic.partitions)) == (0, 3)


@pytest.mark.parametrize(
    ("made", "allowed"), [(TopicSettings(on_demand=False), True), (TopicSettings(), False)]
)
def test_a_topic_is_not_made_where_that_is_not_wanted(made, allowed):
    (topic,) = metadata(names=["new"], made=made, allow_auto_topic_creation=allowed).topics
    assert topic.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


@pytest.mark.parametrize("allowed", [False, True])
def test_a_topic_that_another_gateway_has_just_made_is_there(allowed):
    class Late(MemoryBroker):
        def __init__(self):
            super().__init__()
            self.unheard["new"] = Topic("new", 3, UUID(int=9), {})

    (topic,) = metadata(names=["new"], allow_auto_topic_creation=allowed, broker_type=Late).topics
    assert (topic.error_code, len(topic.partitions)) == (0, 3)


@pytest.mark.parametrize("name", ["", ".", "..", "a/b", "a" * 250, "ä", "a\n", "a b"])
def test_a_topic_that_kafka_cannot_name_is_not_made(name):
    (topic,) = metadata(names=[name], allow_auto_topic_creation=True).topics
    assert (topic.error_code, topic.name) == (ErrorCode.INVALID_TOPIC, name)


def test_a_topic_that_cannot_be_made_is_an_error():
    class Full(MemoryBroker):
        async def create(self, name, partitions, configs, timeout_s=0):
            if name == "new":
                return ErrorCode.THROTTLING_QUOTA_EXCEEDED
            return await super().create(name, partitions, configs)

    (topic,) = metadata(names=["new"], allow_auto_topic_creation=True, broker_type=Full).topics
    assert topic.error_code == ErrorCode.THROTTLING_QUOTA_EXCEEDED


@pytest.mark.parametrize(
    "error", [ErrorCode.NONE, ErrorCode.REQUEST_TIMED_OUT, ErrorCode.TOPIC_ALREADY_EXISTS]
)
def test_topics_that_are_being_made_are_asked_for_again(error):
    class Slow(MemoryBroker):
        both = asyncio.Barrier(2)

        async def create(self, name, partitions, configs, timeout_s=0):
            if name in ("orders", "__internal"):
                return await super().create(name, partitions, configs)
            await self.both.wait()
            assert timeout_s == ON_DEMAND_S, "others on the connection wait as long"
            return error

    names = ["new", "other"]
    topics = metadata(names=names, allow_auto_topic_creation=True, broker_type=Slow).topics
    assert [one.error_code for one in topics] == [ErrorCode.LEADER_NOT_AVAILABLE] * 2


def test_a_partition_without_an_owner_is_said_to_have_none():
    class Nobody(MemoryBroker):
        def leader(self, partition):
            return Leader(-1, 0)

    (topic,) = metadata(names=["orders"], broker_type=Nobody).topics
    for one in topic.partitions:
        assert one.error_code == ErrorCode.LEADER_NOT_AVAILABLE
        assert (one.leader_id, one.replica_nodes, one.isr_nodes) == (-1, [], [])


@pytest.mark.parametrize("version", SERVED[Api.DESCRIBE_CLUSTER])
def test_the_cluster_is_described(version):
    answer = told(Api.DESCRIBE_CLUSTER, version)
    assert (answer.error_code, answer.cluster_id, answer.controller_id) == (0, "in-memory", 1)
    assert [(one.broker_id, one.port) for one in answer.brokers] == [(1, 9092)]


@pytest.mark.parametrize("version", SERVED[Api.INIT_PRODUCER_ID])
def test_a_producer_gets_a_number_unless_it_wants_transactions(version):
    answer = told(Api.INIT_PRODUCER_ID, version, transactional_id=None)
    assert (answer.error_code, answer.producer_id, answer.producer_epoch) == (0, 1_000, 0)
    answer = told(Api.INIT_PRODUCER_ID, version, transactional_id="t")
    assert answer.error_code == ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
    assert answer.producer_id == -1


def test_a_node_that_has_no_number_to_give_says_so():
    class Without(MemoryBroker):
        async def producer_id(self):
            return ErrorCode.COORDINATOR_NOT_AVAILABLE

    answer = told(Api.INIT_PRODUCER_ID, 4, broker_type=Without, transactional_id=None)
    assert answer.error_code == ErrorCode.COORDINATOR_NOT_AVAILABLE
