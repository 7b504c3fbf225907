from __future__ import annotations

import asyncio
from uuid import UUID

import pytest

from dafka.gateway.broker import ErrorCode
from dafka.gateway.configs import TOPIC_CONFIGS, ConfigSource, entrance_of
from dafka.gateway.handlers import Handlers, TopicSettings
from dafka.gateway.wire import SERVED, Api
from dafka.limits import CLIENT_WAIT_MS_MAX
from dafka.process.clock import now_ms
from dafka.testing.broker import MemoryBroker
from tests.support.kafka_messages import ask

every_create = pytest.mark.parametrize("version", SERVED[Api.CREATE_TOPICS])
LATEST = SERVED[Api.CREATE_TOPICS][-1]


def told(api, version, **values):
    """The answer, and the broker as it is then."""

    async def run():
        broker = MemoryBroker()
        await broker.create("orders", 2, {"retention.ms": "5"})
        handlers = Handlers(broker, now_ms, TopicSettings(partitions=3))
        return await ask(handlers, api, version, timeout_ms=1_000, **values), broker

    return asyncio.run(run())


def topic(name="new", partitions=4, factor=1, configs=(), assignments=()):
    return {
        "name": name,
        "num_partitions": partitions,
        "replication_factor": factor,
        "assignments": list(assignments),
        "configs": [{"name": key, "value": value} for key, value in configs],
    }


def created(version, *topics, validate_only=False):
    answer, broker = told(Api.CREATE_TOPICS, version, topics=topics, validate_only=validate_only)
    return answer.topics, broker


@every_create
def test_a_topic_is_made(version):
    (made,), broker = created(version, topic(configs=[("retention.ms", "7")]))
    assert (made.error_code, made.name) == (0, "new")
    assert broker.topic("new")[1:] == (4, UUID(int=2), {"retention.ms": "7"})
    if version >= 5:
        assert (made.num_partitions, made.replication_factor) == (4, 1)
        assert {one.name for one in made.configs} == TOPIC_CONFIGS.keys()
    if version >= 7:
        assert made.topic_id == UUID(int=2)


@every_create
def test_what_is_only_to_be_tried_is_not_made(version):
    (made,), broker = created(version, topic(), validate_only=True)
    assert made.error_code == 0
    assert broker.topic("new") is None


@pytest.mark.parametrize(
    ("timeout_ms", "waits_s"),
    [(1_500, 1.5), (0, 0), (-1, 0), (2**31 - 1, CLIENT_WAIT_MS_MAX / 1_000)],
)
def test_topics_are_waited_for_together_and_as_long_as_the_client_says(timeout_ms, waits_s):
    class Late(MemoryBroker):
        def __init__(self):
            super().__init__()
            self.both = asyncio.Barrier(2)

        async def create(self, name, partitions, configs, timeout_s):
            await self.both.wait()
            assert timeout_s == waits_s
            return ErrorCode.REQUEST_TIMED_OUT

    async def run():
        topics = [topic("a"), topic("b")]
        asked = {"topics": topics, "timeout_ms": timeout_ms, "validate_only": False}
        return await ask(Handlers(Late(), now_ms), Api.CREATE_TOPICS, LATEST, **asked)

    late = asyncio.run(run()).topics
    timed_out = ErrorCode.REQUEST_TIMED_OUT
    assert [(one.name, one.error_code) for one in late] == [("a", timed_out), ("b", timed_out)]


def test_a_topic_without_a_number_has_that_of_the_settings():
    _, broker = created(LATEST, topic(partitions=-1, factor=-1))
    assert broker.topic("new").partitions == 3


@pytest.mark.parametrize(
    ("asked", "error", "why"),
    [
        (topic("orders"), ErrorCode.TOPIC_ALREADY_EXISTS, "is there already"),
        (topic("a/b"), ErrorCode.INVALID_TOPIC, "are a name"),
        (topic("_own"), ErrorCode.INVALID_TOPIC, "the cluster's own"),
        (topic(partitions=0), ErrorCode.INVALID_PARTITIONS, "1 to 4096"),
        (topic(partitions=-2), ErrorCode.INVALID_PARTITIONS, "1 to 4096"),
        (topic(partitions=4_097), ErrorCode.INVALID_PARTITIONS, "1 to 4096"),
        (topic(factor=0), ErrorCode.INVALID_REPLICATION_FACTOR, "once at least"),
        (
            topic(assignments=[{"partition_index": 0, "broker_ids": [1]}]),
            ErrorCode.INVALID_REPLICA_ASSIGNMENT,
            "among themselves",
        ),
        (
            topic(configs=[("cleanup.policy", "compact")]),
            ErrorCode.INVALID_CONFIG,
            "cleanup.policy is delete",
        ),
    ],
)
def test_what_cannot_be_made_is_refused_with_the_reason(asked, error, why):
    (refused, made), broker = created(LATEST, asked, topic("other"))
    assert (refused.error_code, made.error_code) == (error, 0)
    assert why in refused.error_message
    assert {one.name for one in broker.topics()} == {"orders", "other"}


def test_a_topic_that_is_named_twice_is_not_made():
    rows, broker = created(LATEST, topic(), topic(partitions=5))
    assert [one.error_code for one in rows] == [ErrorCode.INVALID_REQUEST] * 2
    assert broker.topic("new") is None


@pytest.mark.parametrize("version", SERVED[Api.CREATE_PARTITIONS])
def test_the_number_of_partitions_does_not_change(version):
    topics = [{"name": name, "count": 8, "assignments": None} for name in ("orders", "other")]
    answer, broker = told(Api.CREATE_PARTITIONS, version, topics=topics, validate_only=False)
    assert [one.error_code for one in answer.results] == [
        ErrorCode.INVALID_PARTITIONS,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    ]
    assert "was made with" in answer.results[0].error_message
    assert broker.topic("orders").partitions == 2


def source_of(config, version):
    """Who has set a config; version 0 says only whether anybody has."""
    if version > 0:
        return config.config_source
    return ConfigSource.DEFAULT if config.is_default else None


def described(version, kind, name, keys=None):
    one = {"resource_type": kind, "resource_name": name, "configuration_keys": keys}
    answer, _ = told(Api.DESCRIBE_CONFIGS, version, resources=[one])
    (row,) = answer.results
    assert bool(row.error_message) == bool(row.error_code)
    return row.error_code, {config.name: config for config in row.configs}


@pytest.mark.parametrize("version", SERVED[Api.DESCRIBE_CONFIGS])
def test_configs_of_a_topic_are_described(version):
    error, configs = described(version, 2, "orders")
    assert error == 0
    assert configs.keys() == TOPIC_CONFIGS.keys()
    assert configs["retention.ms"].value == "5"
    assert source_of(configs["retention.ms"], version) == (ConfigSource.TOPIC if version else None)
    assert source_of(configs["compression.type"], version) == ConfigSource.DEFAULT
    assert configs["compression.type"].read_only
    assert described(version, 2, "orders", ["retention.ms"])[1].keys() == {"retention.ms"}


def test_configs_are_described_once_however_often_they_are_asked_for():
    one = {"resource_type": 2, "resource_name": "orders", "configuration_keys": None}
    answer, _ = told(Api.DESCRIBE_CONFIGS, 4, resources=[one] * 9)
    assert [found.resource_name for found in answer.results] == ["orders"]


@pytest.mark.parametrize("version", SERVED[Api.DESCRIBE_CONFIGS])
def test_configs_of_a_gateway_are_described(version):
    error, configs = described(version, 4, "1")
    assert error == 0
    assert configs["advertised.listeners"].value == "GATEWAY://127.0.0.1:0"
    assert configs["num.partitions"].value == "3"
    assert configs["delete.topic.enable"].value == "true"
    assert all(one.read_only for one in configs.values())
    (source,) = {source_of(one, version) for one in configs.values()}
    assert source == (ConfigSource.GATEWAY if version else None)
    assert described(version, 4, "1", ["num.partitions"])[1].keys() == {"num.partitions"}


@pytest.mark.parametrize("version", SERVED[Api.DESCRIBE_CONFIGS])
def test_configs_of_all_gateways_say_where_their_cluster_is(version):
    error, configs = described(version, 4, "")
    assert error == 0
    assert entrance_of({one.name: one.value for one in configs.values()}) == MemoryBroker.entrance
    assert all(one.read_only for one in configs.values())
    assert described(version, 4, "", ["dafka.keys"])[1].keys() == {"dafka.keys"}


@pytest.mark.parametrize("version", SERVED[Api.DESCRIBE_CONFIGS])
def test_other_things_have_no_configs(version):
    assert described(version, 4, "99") == (ErrorCode.INVALID_REQUEST, {})
    assert described(version, 2, "other") == (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, {})
    assert described(version, 9, "orders") == (ErrorCode.INVALID_REQUEST, {})
