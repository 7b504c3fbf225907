"""Kafka's real clients that subscribe to patterns of topics, in both protocols of groups."""

from __future__ import annotations

import asyncio
import time

import aiokafka
import confluent_kafka
import kafka
import pytest
from confluent_kafka import KafkaError

from dafka.gateway.coordinator import CoordinatorSettings
from tests.support.kafka_server import served

pytestmark = [pytest.mark.net, pytest.mark.slow]

WAIT_S = 120
QUICK = CoordinatorSettings(consumer_heartbeat_ms=200)
PATTERN = "^orders-.+"


@pytest.fixture
def gateway():
    with served(coordinated=QUICK) as there:
        there.create("orders-eu", 2)
        there.create("payments", 1)
        yield there


def librdkafka(gateway, pattern=PATTERN, **settings):
    consumer = confluent_kafka.Consumer(
        {
            "bootstrap.servers": gateway.endpoint,
            "group.id": "billing",
            "auto.offset.reset": "earliest",
            "topic.metadata.refresh.interval.ms": 300,
            **settings,
        }
    )
    consumer.subscribe([pattern])
    return consumer


def assigned_to(consumer):
    return {(one.topic, one.partition) for one in consumer.assignment()}


HAD = {("orders-eu", 0), ("orders-eu", 1)}
NEW = ("orders-us", 0)


def poll_until(holds, poll):
    deadline_s = time.monotonic() + WAIT_S
    while not holds():
        assert time.monotonic() < deadline_s
        poll()


@pytest.mark.parametrize("protocol", ["consumer", "classic"])
def test_librdkafka_is_given_what_matches_and_what_comes_to_match(gateway, protocol):
    consumer = librdkafka(gateway, **{"group.protocol": protocol})
    try:
        poll_until(lambda: assigned_to(consumer) == HAD, lambda: consumer.poll(0.1))
        gateway.create("orders-us", 1)
        poll_until(lambda: assigned_to(consumer) == HAD | {NEW}, lambda: consumer.poll(0.1))
    finally:
        consumer.close()


def test_librdkafka_is_told_what_is_no_pattern(gateway):
    consumer = librdkafka(gateway, r"^(o)rders\1", **{"group.protocol": "consumer"})
    try:
        found = []
        poll_until(lambda: found, lambda: found.extend(filter(None, [consumer.poll(0.1)])))
        assert found[0].error().code() == KafkaError._FATAL
        assert "regular expression is not valid" in found[0].error().str()
    finally:
        consumer.close()


def test_kafka_python_subscribes_to_a_pattern(gateway):
    consumer = kafka.KafkaConsumer(
        bootstrap_servers=gateway.endpoint, group_id="billing", metadata_max_age_ms=1_000
    )
    try:
        consumer.subscribe(pattern=PATTERN)
        poll_until(lambda: assigned_to(consumer) == HAD, lambda: consumer.poll(2_000))
        gateway.create("orders-us", 1)
        poll_until(lambda: assigned_to(consumer) == HAD | {NEW}, lambda: consumer.poll(2_000))
    finally:
        consumer.close()


def test_aiokafka_subscribes_to_a_pattern(gateway):
    async def play():
        consumer = aiokafka.AIOKafkaConsumer(
            bootstrap_servers=gateway.endpoint, group_id="billing", metadata_max_age_ms=300
        )
        await consumer.start()
        try:
            consumer.subscribe(pattern=PATTERN)
            async with asyncio.timeout(WAIT_S):
                while assigned_to(consumer) != HAD:
                    await consumer.getmany(timeout_ms=100)
                await asyncio.to_thread(gateway.create, "orders-us")
                while assigned_to(consumer) != HAD | {NEW}:
                    await consumer.getmany(timeout_ms=100)
        finally:
            await consumer.stop()

    asyncio.run(play())
