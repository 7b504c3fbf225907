"""Kafka's real clients at a gateway where one has to log in: passwords, certificates and rights."""

from __future__ import annotations

import asyncio
import shutil
import ssl
import subprocess
import time

import aiokafka
import confluent_kafka
import kafka
import pytest
from aiokafka.errors import KafkaError as AioKafkaError
from confluent_kafka import KafkaError
from confluent_kafka.admin import AdminClient

from dafka.gateway.users import load_users
from tests.support.certificates import write_users
from tests.support.kafka_server import served

pytestmark = [pytest.mark.net, pytest.mark.slow]

WAIT_S = 120
MECHANISMS = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512")
RULES = {"read": ["orders*"], "write": ["orders*"], "groups": ["shop*"]}


class Place:
    """A gateway, and what a user of it has."""

    def __init__(self, gateway, directory, password, *, tls):
        self.gateway, self.directory, self.password, self.tls = gateway, directory, password, tls
        self.protocol = "SASL_SSL" if tls else "SASL_PLAINTEXT"
        gateway.create("orders")
        gateway.create("secret")

    def librdkafka(self, mechanism="SCRAM-SHA-256", password=None, **more):
        return {
            "bootstrap.servers": self.gateway.endpoint,
            "security.protocol": self.protocol,
            "sasl.mechanism": mechanism,
            "sasl.username": "shop",
            "sasl.password": self.password if password is None else password,
            "ssl.ca.location": str(self.directory / "ca.pem"),
            "log_level": 0,
            **{name.replace("_", "."): value for name, value in more.items()},
        }

    def certified(self, name):
        """librdkafka's settings with a certificate instead of a password."""
        pem = str(self.directory / f"{name}.pem")
        plain = {name: value for name, value in self.librdkafka().items() if "sasl" not in name}
        own = {"ssl.certificate.location": pem, "ssl.key.location": pem}
        return plain | own | {"security.protocol": "SSL"}

    def python(self, mechanism, password=None):
        return {
            "bootstrap_servers": self.gateway.endpoint,
            "security_protocol": self.protocol,
            "sasl_mechanism": mechanism,
            "sasl_plain_username": "shop",
            "sasl_plain_password": self.password if password is None else password,
            "ssl_context": self.context(),
        }

    def context(self):
        if not self.tls:
            return None
        return ssl.create_default_context(cafile=str(self.directory / "ca.pem"))


@pytest.fixture
def make_place(tmp_path):
    opened = []

    def make(*, tls):
        file, passwords = write_users(tmp_path, tls=tls, certified=("stranger",), shop=RULES)
        opened.append(served(users=load_users(file)))
        return Place(opened[-1].__enter__(), tmp_path, passwords["shop"], tls=tls)

    yield make
    for one in opened:
        one.__exit__(None, None, None)


def failing(settings):
    """The codes of errors that a consumer of these settings tells, until it has told some."""
    told = []
    client = confluent_kafka.Consumer(settings, error_cb=lambda error: told.append(error.code()))
    client.subscribe(["orders"])
    deadline = time.monotonic() + WAIT_S
    while not told:
        assert time.monotonic() < deadline, "no error was told"
        message = client.poll(0.2)
        if message is not None and message.error():
            told.append(message.error().code())
    client.close()
    return told


@pytest.mark.parametrize("tls", [False, True], ids=["plain text", "TLS"])
@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_who_has_the_password_writes_and_reads(make_place, mechanism, tls):
    place = make_place(tls=tls)
    producer = confluent_kafka.Producer(place.librdkafka(mechanism))
    producer.produce("orders", b"librdkafka")
    assert producer.flush(WAIT_S) == 0
    python = kafka.KafkaProducer(**place.python(mechanism))
    assert python.send("orders", b"kafka-python").get(WAIT_S).offset == 1
    python.close()

    async def read():
        consumer = aiokafka.AIOKafkaConsumer(
            auto_offset_reset="earliest", **place.python(mechanism)
        )
        await consumer.start()
        try:
            consumer.assign([aiokafka.TopicPartition("orders", 0)])
            return [(await consumer.getone()).value for _ in range(2)]
        finally:
            await consumer.stop()

    values = asyncio.run(asyncio.wait_for(read(), WAIT_S))
    assert values == [b"librdkafka", b"kafka-python"]


needs_kcat = pytest.mark.skipif(shutil.which("kcat") is None, reason="needs kcat: make tools")


def written_by_kcat(place, settings):
    options = [word for name, value in settings.items() for word in ("-X", f"{name}={value}")]
    kcat = ["kcat", "-P", "-b", place.gateway.endpoint, "-t", "orders", "-p", "0", *options]
    subprocess.run(kcat, input=b"kcat\n", check=True, timeout=WAIT_S)
    return place.gateway.broker.offsets(("orders", 0)).end


@needs_kcat
@pytest.mark.parametrize("tls", [False, True], ids=["plain text", "TLS"])
@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_kcat_that_has_the_password_writes(make_place, mechanism, tls):
    """Its librdkafka says its own nonce twice, which is let pass; SCRAM proves all the same."""
    place = make_place(tls=tls)
    assert written_by_kcat(place, place.librdkafka(mechanism)) == 1


@needs_kcat
@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_kcat_that_has_not_writes_nothing(make_place, mechanism):
    place = make_place(tls=False)
    settings = place.librdkafka(mechanism, "wrong", message_timeout_ms=5_000)
    with pytest.raises(subprocess.CalledProcessError):
        written_by_kcat(place, settings)
    assert place.gateway.broker.offsets(("orders", 0)).end == 0


@needs_kcat
def test_kcat_writes_where_its_certificate_is_a_login(make_place):
    place = make_place(tls=True)
    assert written_by_kcat(place, place.certified("shop")) == 1


def test_kafka_python_and_aiokafka_write_where_a_certificate_is_a_login(make_place):
    place = make_place(tls=True)
    context = place.context()
    context.load_cert_chain(place.directory / "shop.pem")
    settings = {"security_protocol": "SSL", "ssl_context": context}
    python = kafka.KafkaProducer(bootstrap_servers=place.gateway.endpoint, **settings)
    assert python.send("orders", b"kafka-python").get(WAIT_S).offset == 0
    python.close()

    async def write():
        producer = aiokafka.AIOKafkaProducer(bootstrap_servers=place.gateway.endpoint, **settings)
        await producer.start()
        try:
            return (await producer.send_and_wait("orders", b"aiokafka")).offset
        finally:
            await producer.stop()

    assert asyncio.run(asyncio.wait_for(write(), WAIT_S)) == 1


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_who_has_not_is_told_so_clearly(make_place, mechanism):
    place = make_place(tls=False)
    wrong = place.librdkafka(mechanism, "wrong", group_id="shop")
    assert KafkaError._AUTHENTICATION in failing(wrong)

    async def log_in():
        client = aiokafka.AIOKafkaProducer(**place.python(mechanism, "wrong"))
        try:
            await client.start()
        finally:
            await client.stop()

    with pytest.raises(AioKafkaError, match=r"no user has these credentials|Unable to bootstrap"):
        asyncio.run(asyncio.wait_for(log_in(), WAIT_S))


def test_a_certificate_of_the_authority_is_a_login_and_anothers_is_none(make_place):
    place = make_place(tls=True)

    def known_as(name):
        return AdminClient(place.certified(name) | {"socket.timeout.ms": 5_000})

    assert "orders" in known_as("shop").list_topics(timeout=WAIT_S).topics
    with pytest.raises(confluent_kafka.KafkaException):
        known_as("stranger").list_topics(timeout=3)


def test_what_is_not_permitted_is_refused_and_hidden(make_place):
    place = make_place(tls=False)
    assert set(AdminClient(place.librdkafka()).list_topics(timeout=WAIT_S).topics) == {"orders"}
    told = []
    producer = confluent_kafka.Producer(place.librdkafka(message_timeout_ms=10_000))
    producer.produce("secret", b"x", on_delivery=lambda error, _: told.append(error))
    producer.flush(WAIT_S)
    assert told[0] is not None
    assert place.gateway.broker.offsets(("secret", 0)).end == 0
    told = failing(place.librdkafka(group_id="other"))
    assert KafkaError.GROUP_AUTHORIZATION_FAILED in told


def test_a_group_that_is_permitted_is_served(make_place):
    place = make_place(tls=True)
    producer = confluent_kafka.Producer(place.librdkafka())
    producer.produce("orders", b"x")
    assert producer.flush(WAIT_S) == 0
    client = confluent_kafka.Consumer(
        place.librdkafka(group_id="shop-1", auto_offset_reset="earliest")
    )
    client.subscribe(["orders"])
    message = None
    deadline = time.monotonic() + WAIT_S
    while message is None and time.monotonic() < deadline:
        message = client.poll(0.5)
    assert message.value() == b"x"
    client.close()
