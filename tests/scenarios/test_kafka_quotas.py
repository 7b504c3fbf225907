"""Kafka's real clients at a gateway that holds them to quotas, at real rates."""

from __future__ import annotations

import time

import confluent_kafka
import kafka
import pytest

from dafka.gateway.broker import KafkaPartition
from dafka.gateway.quotas import Quotas
from dafka.gateway.users import load_users
from dafka.process.clock import now_ms
from tests.support.certificates import write_users
from tests.support.kafka_messages import client_batch
from tests.support.kafka_server import served

pytestmark = [pytest.mark.net, pytest.mark.slow]

WAIT_S = 120
RATE = 200_000
VALUE = bytes(1_000)
SECONDS = 4
BATCH_BYTES = 20_000
"""Of the largest request: what is beyond a quota when it comes is taken in."""

RULES = {"read": ["*"], "write": ["*"], "groups": ["*"]}


class Place:
    """A gateway, its user, and what the user was told."""

    def __init__(self, gateway, password, told):
        self.gateway, self.password, self.told = gateway, password, told
        gateway.create("orders")

    def librdkafka(self, **more):
        return {
            "bootstrap.servers": self.gateway.endpoint,
            "security.protocol": "SASL_PLAINTEXT",
            "sasl.mechanism": "PLAIN",
            "sasl.username": "shop",
            "sasl.password": self.password,
            **{name.replace("_", "."): value for name, value in more.items()},
        }

    def python(self):
        return {
            "bootstrap_servers": self.gateway.endpoint,
            "security_protocol": "SASL_PLAINTEXT",
            "sasl_mechanism": "PLAIN",
            "sasl_plain_username": "shop",
            "sasl_plain_password": self.password,
        }

    @property
    def throttled_s(self):
        return sum(owes_ms for _, _, owes_ms in self.told) / 1_000


@pytest.fixture
def place(tmp_path):
    file, passwords = write_users(tmp_path, shop=RULES)
    rates = f"producer_byte_rate = {RATE}\nconsumer_byte_rate = {RATE}\n"
    file.write_text(file.read_text() + rates)
    told = []
    quotas = Quotas(now_ms, lambda *what: told.append(what))
    with served(users=load_users(file), quotas=quotas) as gateway:
        yield Place(gateway, passwords["shop"], told)


def bound(seconds, largest=BATCH_BYTES):
    return RATE * (seconds + 1) + largest


def test_librdkafka_produces_as_fast_as_it_may(place):
    throttles, acknowledged = [], []
    producer = confluent_kafka.Producer(
        place.librdkafka(batch_size=BATCH_BYTES, linger_ms=5, acks=1),
        throttle_cb=throttles.append,
    )
    began = time.monotonic()
    while time.monotonic() < began + SECONDS:
        try:
            producer.produce("orders", VALUE, on_delivery=lambda *one: acknowledged.append(one))
        except BufferError:
            producer.poll(0.01)
        producer.poll(0)
    seconds = time.monotonic() - began
    got_through = len(VALUE) * len([one for one, _ in acknowledged if one is None])
    assert got_through <= bound(seconds)
    assert got_through >= RATE * seconds / 2
    assert any(one.throttle_time > 0 for one in throttles)
    assert {what[:2] for what in place.told} == {("shop", "produce")}
    producer.purge()


def test_kafka_python_produces_as_fast_as_it_may(place):
    producer = kafka.KafkaProducer(
        **place.python(), batch_size=BATCH_BYTES, linger_ms=5, acks=1, max_block_ms=WAIT_S * 1_000
    )
    total = RATE * SECONDS
    began = time.monotonic()
    for _ in range(total // len(VALUE)):
        producer.send("orders", VALUE)
    producer.flush(WAIT_S)
    seconds = time.monotonic() - began
    producer.close()
    assert total <= bound(seconds)
    assert place.throttled_s > 0


def fill(place):
    """As much as may be read in some seconds, by somebody who is not held to a quota."""
    broker = place.gateway.broker

    async def append():
        for _ in range(RATE * SECONDS // BATCH_BYTES):
            batch = client_batch([VALUE] * (BATCH_BYTES // len(VALUE)))
            await broker.append(KafkaPartition("orders", 0), batch, 1, WAIT_S)

    place.gateway.call(append())
    return RATE * SECONDS // len(VALUE)


def test_librdkafka_fetches_as_fast_as_it_may(place):
    records = fill(place)
    consumer = confluent_kafka.Consumer(
        place.librdkafka(group_id="g", auto_offset_reset="earliest")
    )
    consumer.assign([confluent_kafka.TopicPartition("orders", 0, 0)])
    came, began = 0, time.monotonic()
    while came < records:
        assert time.monotonic() < began + WAIT_S
        came += len(consumer.consume(1_000, 0.1))
    seconds = time.monotonic() - began
    consumer.close()
    assert records * len(VALUE) <= bound(seconds, RATE + BATCH_BYTES)
    assert {what[:2] for what in place.told} == {("shop", "fetch")}


def test_kafka_python_fetches_as_fast_as_it_may(place):
    records = fill(place)
    consumer = kafka.KafkaConsumer(**place.python(), auto_offset_reset="earliest")
    consumer.assign([kafka.TopicPartition("orders", 0)])
    came, began = 0, time.monotonic()
    while came < records:
        assert time.monotonic() < began + WAIT_S
        came += sum(map(len, consumer.poll(100).values()))
    seconds = time.monotonic() - began
    consumer.close()
    assert records * len(VALUE) <= bound(seconds, RATE + BATCH_BYTES)
    assert place.throttled_s > 0
