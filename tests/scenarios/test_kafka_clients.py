"""Kafka's real clients on the gateway's front, over a broker in memory.

Three makes of client, librdkafka, kafka-python and aiokafka, and kcat where it is installed: they
write with each codec what each other reads, and are told clearly what is not served.
"""

from __future__ import annotations

import asyncio
import shutil
import subprocess
import time

import aiokafka
import confluent_kafka
import kafka
import pytest
from aiokafka.admin import AIOKafkaAdminClient
from aiokafka.admin import NewTopic as AioNewTopic
from aiokafka.admin.config_resource import ConfigResource as AioConfigResource
from aiokafka.admin.config_resource import ConfigResourceType as AioConfigResourceType
from confluent_kafka import KafkaError, KafkaException
from confluent_kafka.admin import (
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    NewPartitions,
    NewTopic,
    OffsetSpec,
)
from kafka.errors import (
    InvalidConfigurationError,
    InvalidTopicError,
    TopicAlreadyExistsError,
)
from kafka.errors import (
    KafkaError as PythonKafkaError,
)

from dafka.gateway.handlers import TopicSettings
from dafka.gateway.wire import Api
from dafka.records.header import CODEC_MASK, header_of
from tests.support.kafka_server import served

pytestmark = [pytest.mark.net, pytest.mark.slow]

CODECS = ("none", "gzip", "snappy", "lz4", "zstd")
RECORDS = 300
WAIT_S = 120
BEGAN_MS = 1_700_000_000_000


@pytest.fixture
def gateway():
    with served() as there:
        yield there


def values_of(name, records=RECORDS):
    return [f"{name} {number}".encode() * 5 for number in range(records)]


class Librdkafka:
    @staticmethod
    def produce(endpoint, topic, values, codec="none", idempotent=False, acks="all"):
        failed = []
        producer = confluent_kafka.Producer(
            {
                "bootstrap.servers": endpoint,
                "compression.type": codec,
                "enable.idempotence": idempotent,
                "acks": acks,
                "linger.ms": 5,
            }
        )
        for number, value in enumerate(values):
            producer.produce(
                topic,
                value,
                b"key",
                partition=0,
                timestamp=BEGAN_MS + number,
                headers=[("name", b"value")],
                on_delivery=lambda error, _: failed.append(error) if error else None,
            )
        assert producer.flush(WAIT_S) == 0
        assert not failed

    @staticmethod
    def consume(endpoint, topic, count, offset=0):
        consumer = confluent_kafka.Consumer(
            {"bootstrap.servers": endpoint, "group.id": "none", "enable.auto.commit": False}
        )
        consumer.assign([confluent_kafka.TopicPartition(topic, 0, offset)])
        found = []
        try:
            while len(found) < count:
                message = consumer.poll(WAIT_S)
                assert message is not None
                assert message.error() is None, message.error()
                found.append((message.offset(), message.value()))
        finally:
            consumer.close()
        return found


class KafkaPython:
    @staticmethod
    def produce(endpoint, topic, values, codec="none", idempotent=False, acks="all"):
        producer = kafka.KafkaProducer(
            bootstrap_servers=endpoint,
            compression_type=None if codec == "none" else codec,
            enable_idempotence=idempotent,
            acks=acks if acks == "all" else int(acks),
        )
        try:
            sent = [
                producer.send(topic, value, b"key", [("name", b"value")], 0, BEGAN_MS + number)
                for number, value in enumerate(values)
            ]
            producer.flush(WAIT_S)
            for one in sent:
                one.get(WAIT_S)
        finally:
            producer.close()

    @staticmethod
    def consume(endpoint, topic, count, offset=0):
        consumer = kafka.KafkaConsumer(
            bootstrap_servers=endpoint, consumer_timeout_ms=WAIT_S * 1_000, group_id=None
        )
        try:
            consumer.assign([kafka.TopicPartition(topic, 0)])
            consumer.seek(kafka.TopicPartition(topic, 0), offset)
            return [(one.offset, one.value) for _, one in zip(range(count), consumer, strict=False)]
        finally:
            consumer.close()


class Aiokafka:
    @staticmethod
    def produce(endpoint, topic, values, codec="none", idempotent=False, acks="all"):
        async def run():
            producer = aiokafka.AIOKafkaProducer(
                bootstrap_servers=endpoint,
                compression_type=None if codec == "none" else codec,
                enable_idempotence=idempotent,
                acks=acks if acks == "all" else int(acks),
            )
            await producer.start()
            try:
                sent = [
                    await producer.send(
                        topic,
                        value,
                        b"key",
                        0,
                        timestamp_ms=BEGAN_MS + number,
                        headers=[("name", b"value")],
                    )
                    for number, value in enumerate(values)
                ]
                await asyncio.wait_for(asyncio.gather(*sent), WAIT_S)
            finally:
                await producer.stop()

        asyncio.run(run())

    @staticmethod
    def consume(endpoint, topic, count, offset=0):
        async def run():
            consumer = aiokafka.AIOKafkaConsumer(bootstrap_servers=endpoint)
            await consumer.start()
            try:
                partition = aiokafka.TopicPartition(topic, 0)
                consumer.assign([partition])
                consumer.seek(partition, offset)
                found = []
                while len(found) < count:
                    one = await asyncio.wait_for(consumer.getone(), WAIT_S)
                    found.append((one.offset, one.value))
                return found
            finally:
                await consumer.stop()

        return asyncio.run(run())


MAKES = [Librdkafka, KafkaPython, Aiokafka]
CODECS_OF = {Librdkafka: CODECS, KafkaPython: ("none", "gzip"), Aiokafka: CODECS}
"""The others kafka-python has only with packages that nothing else here needs."""

WRITTEN = [(make, codec) for make in MAKES for codec in CODECS_OF[make]]
every_make = pytest.mark.parametrize("make", MAKES, ids=lambda make: make.__name__)


needs_kcat = pytest.mark.skipif(shutil.which("kcat") is None, reason="needs kcat: make tools")


def headers_of(gateway, topic):
    found = gateway.call(gateway.broker.fetch((topic, 0), 0, 1 << 30))
    return [header_of(batch) for batch in found.batches]


def codecs_of(gateway, topic):
    return {one.attributes & CODEC_MASK for one in headers_of(gateway, topic)}


@pytest.mark.parametrize(("make", "codec"), WRITTEN)
def test_what_one_writes_with_a_codec_all_read(gateway, make, codec):
    gateway.create("orders")
    values = values_of(codec)
    make.produce(gateway.endpoint, "orders", values, codec)
    assert codecs_of(gateway, "orders") == {CODECS.index(codec)}
    for reader in (one for one in MAKES if codec in CODECS_OF[one]):
        found = reader.consume(gateway.endpoint, "orders", len(values))
        assert found == list(enumerate(values)), reader.__name__


@every_make
def test_an_idempotent_producer_writes_each_record_once(gateway, make):
    gateway.create("orders")
    make.produce(gateway.endpoint, "orders", values_of("a"), idempotent=True)
    make.produce(gateway.endpoint, "orders", values_of("b"), idempotent=True)
    found = Librdkafka.consume(gateway.endpoint, "orders", 2 * RECORDS)
    assert found == list(enumerate(values_of("a") + values_of("b")))


def test_pipelined_requests_of_a_producer_keep_their_order():
    with served(store_s=0.02) as gateway:
        gateway.create("orders")
        values = values_of("p", 2_000)
        producer = confluent_kafka.Producer(
            {
                "bootstrap.servers": gateway.endpoint,
                "batch.num.messages": 20,
                "max.in.flight.requests.per.connection": 1_000,
            }
        )
        for value in values:
            producer.produce("orders", value, partition=0)
        assert producer.flush(WAIT_S) == 0
        found = Librdkafka.consume(gateway.endpoint, "orders", len(values))
        assert found == list(enumerate(values))


@every_make
def test_a_consumer_begins_at_any_offset(gateway, make):
    gateway.create("orders")
    values = values_of("o")
    Librdkafka.produce(gateway.endpoint, "orders", values)
    found = make.consume(gateway.endpoint, "orders", 10, offset=RECORDS // 2)
    assert found == list(enumerate(values))[RECORDS // 2 : RECORDS // 2 + 10]


@every_make
def test_what_is_sent_without_an_answer_arrives(gateway, make):
    gateway.create("orders")
    make.produce(gateway.endpoint, "orders", values_of("0"), acks="0")
    found = Librdkafka.consume(gateway.endpoint, "orders", RECORDS)
    assert found == list(enumerate(values_of("0")))


def test_a_consumer_that_waits_gets_what_comes(gateway):
    gateway.create("orders")
    consumer = confluent_kafka.Consumer(
        {
            "bootstrap.servers": gateway.endpoint,
            "group.id": "none",
            "enable.auto.commit": False,
            "fetch.wait.max.ms": 50_000,
        }
    )
    consumer.assign([confluent_kafka.TopicPartition("orders", 0, 0)])
    try:
        for number in range(5):
            assert consumer.poll(0.05) is None
            Librdkafka.produce(gateway.endpoint, "orders", [b"%d" % number])
            began_s = time.monotonic()
            assert consumer.poll(WAIT_S).value() == b"%d" % number
            assert time.monotonic() - began_s < 25  # long before the wait is over
    finally:
        consumer.close()


def test_offsets_are_found_by_time_record_by_record(gateway):
    gateway.create("orders")
    Librdkafka.produce(gateway.endpoint, "orders", values_of("t"))
    consumer = kafka.KafkaConsumer(bootstrap_servers=gateway.endpoint, group_id=None)
    partition = kafka.TopicPartition("orders", 0)
    try:
        found = consumer.offsets_for_times({partition: BEGAN_MS + 123})[partition]
        assert (found.offset, found.timestamp) == (123, BEGAN_MS + 123)
        assert consumer.offsets_for_times({partition: BEGAN_MS + RECORDS})[partition] is None
        assert consumer.beginning_offsets([partition]) == {partition: 0}
        assert consumer.end_offsets([partition]) == {partition: RECORDS}
    finally:
        consumer.close()
    admin = AdminClient({"bootstrap.servers": gateway.endpoint})
    place = confluent_kafka.TopicPartition("orders", 0)
    (latest,) = admin.list_offsets({place: OffsetSpec.max_timestamp()}).values()
    assert latest.result(WAIT_S).offset == RECORDS - 1


def test_offsets_begin_where_librdkafka_says(gateway):
    gateway.create("orders")
    Librdkafka.produce(gateway.endpoint, "orders", values_of("d"))
    admin = AdminClient({"bootstrap.servers": gateway.endpoint})

    def begin_at(offset):
        place = confluent_kafka.TopicPartition("orders", 0, offset)
        (begun,) = admin.delete_records([place]).values()
        return begun.result(WAIT_S).low_watermark

    assert begin_at(100) == begin_at(50) == 100
    found = Librdkafka.consume(gateway.endpoint, "orders", 1, confluent_kafka.OFFSET_BEGINNING)
    assert found == [(100, values_of("d")[100])]
    with pytest.raises(KafkaException) as refused:
        begin_at(RECORDS + 1)
    assert refused.value.args[0].code() == KafkaError.OFFSET_OUT_OF_RANGE
    assert begin_at(confluent_kafka.OFFSET_END) == RECORDS


def test_librdkafka_administers_topics(gateway):
    admin = AdminClient({"bootstrap.servers": gateway.endpoint})
    made = NewTopic("orders", 4, config={"retention.ms": "60000"})
    admin.create_topics([made])["orders"].result(WAIT_S)
    listed = admin.list_topics(timeout=WAIT_S)
    assert len(listed.topics["orders"].partitions) == 4
    assert listed.brokers[gateway.broker.node].port == gateway.port
    resource = ConfigResource(ConfigResource.Type.TOPIC, "orders")
    configs = admin.describe_configs([resource])[resource].result(WAIT_S)
    assert configs["retention.ms"].value == "60000"
    assert not configs["retention.ms"].is_default
    assert configs["cleanup.policy"].value == "delete"
    assert configs["cleanup.policy"].is_read_only
    with pytest.raises(KafkaException) as refused:
        admin.create_partitions([NewPartitions("orders", 8)])["orders"].result(WAIT_S)
    assert refused.value.args[0].code() == KafkaError.INVALID_PARTITIONS
    assert "made with" in refused.value.args[0].str()
    with pytest.raises(KafkaException) as refused:
        admin.create_topics([NewTopic("orders", 4)])["orders"].result(WAIT_S)
    assert refused.value.args[0].code() == KafkaError.TOPIC_ALREADY_EXISTS
    admin.delete_topics(["orders"])["orders"].result(WAIT_S)
    assert "orders" not in admin.list_topics(timeout=WAIT_S).topics


def test_kafka_python_administers_topics(gateway):
    admin = kafka.KafkaAdminClient(bootstrap_servers=gateway.endpoint)
    try:
        admin.create_topics([kafka.admin.NewTopic("orders", 3, 1)])
        assert admin.describe_cluster()["cluster_id"] == gateway.broker.cluster_id
        assert "orders" in admin.list_topics()
        with pytest.raises(TopicAlreadyExistsError):
            admin.create_topics([kafka.admin.NewTopic("orders", 3, 1)])
        with pytest.raises(InvalidTopicError):
            admin.create_topics([kafka.admin.NewTopic("no such/name", 3, 1)])
        compacted = {"cleanup.policy": "compact"}
        with pytest.raises(InvalidConfigurationError):
            admin.create_topics([kafka.admin.NewTopic("c", 1, 1, topic_configs=compacted)])
        admin.delete_topics(["orders"])
        assert "orders" not in admin.list_topics()
    finally:
        admin.close()


def test_aiokafka_administers_topics(gateway):
    async def run():
        admin = AIOKafkaAdminClient(bootstrap_servers=gateway.endpoint)
        await admin.start()
        try:
            await admin.create_topics([AioNewTopic("orders", 2, 1)])
            (described,) = await admin.describe_topics(["orders"])
            assert len(described["partitions"]) == 2
            await admin.delete_topics(["orders"])
            assert "orders" not in await admin.list_topics()
        finally:
            await admin.close()

    asyncio.run(run())


def test_librdkafka_alters_topics(gateway):
    admin = AdminClient({"bootstrap.servers": gateway.endpoint})
    admin.create_topics([NewTopic("orders", 2)])["orders"].result(WAIT_S)
    admin.delete_topics(["orders"])["orders"].result(WAIT_S)
    admin.create_topics([NewTopic("orders", 2)])["orders"].result(WAIT_S)
    entry = ConfigEntry("max.message.bytes", "1000", incremental_operation=AlterConfigOpType.SET)
    resource = ConfigResource(ConfigResource.Type.TOPIC, "orders", incremental_configs=[entry])
    admin.incremental_alter_configs([resource])[resource].result(WAIT_S)
    configs = admin.describe_configs([resource])[resource].result(WAIT_S)
    assert configs["max.message.bytes"].value == "1000"
    assert not configs["max.message.bytes"].is_default
    producer = confluent_kafka.Producer({"bootstrap.servers": gateway.endpoint})
    failed = []
    producer.produce("orders", b"x" * 2_000, on_delivery=lambda error, _: failed.append(error))
    assert producer.flush(WAIT_S) == 0
    assert [one.code() for one in failed] == [KafkaError.MSG_SIZE_TOO_LARGE]
    wrong = ConfigEntry("retention.ms", "soon", incremental_operation=AlterConfigOpType.SET)
    refused = ConfigResource(ConfigResource.Type.TOPIC, "orders", incremental_configs=[wrong])
    with pytest.raises(KafkaException) as told:
        admin.incremental_alter_configs([refused])[refused].result(WAIT_S)
    assert told.value.args[0].code() == KafkaError.INVALID_CONFIG


def test_kafka_python_alters_topics(gateway):
    admin = kafka.KafkaAdminClient(bootstrap_servers=gateway.endpoint)
    try:
        for _ in range(2):
            admin.create_topics([kafka.admin.NewTopic("orders", 3, 1)])
            admin.delete_topics(["orders"])
        admin.create_topics([kafka.admin.NewTopic("orders", 3, 1)])
        altered = {"retention.ms": "60000"}
        kind = kafka.admin.ConfigResourceType.TOPIC
        admin.alter_configs([kafka.admin.ConfigResource(kind, "orders", configs=altered)])
        assert gateway.broker.topic("orders").configs == altered
    finally:
        admin.close()


def test_aiokafka_alters_topics(gateway):
    async def run():
        admin = AIOKafkaAdminClient(bootstrap_servers=gateway.endpoint)
        await admin.start()
        try:
            for _ in range(2):
                await admin.create_topics([AioNewTopic("orders", 2, 1)])
                await admin.delete_topics(["orders"])
            await admin.create_topics([AioNewTopic("orders", 2, 1)])
            altered = {"retention.ms": "60000"}
            kind = AioConfigResourceType.TOPIC
            await admin.alter_configs([AioConfigResource(kind, "orders", configs=altered)])
            assert gateway.broker.topic("orders").configs == altered
        finally:
            await admin.close()

    asyncio.run(run())


def test_a_topic_is_made_when_it_is_asked_for_and_only_where_that_is_allowed(gateway):
    Librdkafka.produce(gateway.endpoint, "on-demand", [b"a"])
    assert gateway.broker.topic("on-demand").partitions == 1
    with served(topics=TopicSettings(on_demand=False)) as strict:
        producer = kafka.KafkaProducer(bootstrap_servers=strict.endpoint, max_block_ms=500)
        try:
            with pytest.raises(PythonKafkaError):
                producer.send("on-demand", b"a").get(WAIT_S)
        finally:
            producer.close()
        assert strict.broker.topic("on-demand") is None


def test_transactions_are_refused_so_that_librdkafka_says_so(gateway):
    producer = confluent_kafka.Producer(
        {"bootstrap.servers": gateway.endpoint, "transactional.id": "t"}
    )
    began_s = time.monotonic()
    with pytest.raises(KafkaException) as refused:
        producer.init_transactions(WAIT_S)
    assert refused.value.args[0].code() == KafkaError.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
    assert time.monotonic() - began_s < WAIT_S / 2


def test_transactions_are_refused_so_that_kafka_python_says_so(gateway):
    producer = kafka.KafkaProducer(bootstrap_servers=gateway.endpoint, transactional_id="t")
    try:
        with pytest.raises(PythonKafkaError, match=r"(?i)transactional"):
            producer.init_transactions()
    finally:
        producer.close()


def test_a_record_that_is_too_large_is_refused(gateway):
    gateway.create("orders", max_message_bytes="1000")
    producer = confluent_kafka.Producer({"bootstrap.servers": gateway.endpoint})
    failed = []
    producer.produce("orders", b"x" * 2_000, on_delivery=lambda error, _: failed.append(error))
    assert producer.flush(WAIT_S) == 0
    assert [one.code() for one in failed] == [KafkaError.MSG_SIZE_TOO_LARGE]


def test_a_consumer_behind_the_log_start_is_told_where_it_is(gateway):
    gateway.create("orders", retention_bytes="0")
    for value in (b"a", b"b", b"c"):
        Librdkafka.produce(gateway.endpoint, "orders", [value])
    consumer = kafka.KafkaConsumer(
        bootstrap_servers=gateway.endpoint,
        group_id=None,
        auto_offset_reset="earliest",
        consumer_timeout_ms=WAIT_S * 1_000,
    )
    partition = kafka.TopicPartition("orders", 0)
    try:
        consumer.assign([partition])
        consumer.seek(partition, 0)
        first = next(consumer)
        assert (first.offset, first.value) == (2, b"c")
    finally:
        consumer.close()


def kcat(*options, lines=b""):
    """Run kcat; returns what it says."""
    done = subprocess.run(
        ["kcat", *options], input=lines, capture_output=True, check=True, timeout=WAIT_S
    )
    return done.stdout


@needs_kcat
@pytest.mark.parametrize("codec", CODECS)
def test_kcat_writes_and_reads(gateway, codec):
    """A line is long enough to shrink by itself: what does not is sent as it is."""
    gateway.create("orders")
    lines = b"".join(b"%s %d;" % (codec.encode(), one) * 50 + b"\n" for one in range(RECORDS))
    there = ["-b", gateway.endpoint, "-t", "orders", "-p", "0"]
    kcat(*there, "-P", "-z", codec, lines=lines)
    # Its librdkafka compresses only where Produce 0 is told of.
    assert codecs_of(gateway, "orders") == {CODECS.index(codec)}
    assert kcat(*there, "-C", "-e", "-q") == lines


@needs_kcat
def test_an_idempotent_producer_writes_each_record_once_as_kcat(gateway):
    gateway.create("orders")
    lines = b"".join(b"%d\n" % number for number in range(RECORDS))
    kcat("-b", gateway.endpoint, "-t", "orders", "-P", "-X", "enable.idempotence=true", lines=lines)
    assert -1 not in {one.producer_id for one in headers_of(gateway, "orders")}
    found = Librdkafka.consume(gateway.endpoint, "orders", RECORDS)
    assert found == [(number, b"%d" % number) for number in range(RECORDS)]


@needs_kcat
def test_kcat_as_a_consumer_begins_at_any_offset(gateway):
    gateway.create("orders")
    Librdkafka.produce(gateway.endpoint, "orders", values_of("o"))
    at = ["-t", "orders", "-p", "0", "-o", str(RECORDS // 2)]
    told = kcat("-b", gateway.endpoint, *at, "-C", "-e", "-q", "-f", "%o %s\n")
    wanted = list(enumerate(values_of("o")))[RECORDS // 2 :]
    assert told.splitlines() == [b"%d %s" % one for one in wanted]


@needs_kcat
def test_kcat_finds_offsets_by_time(gateway):
    gateway.create("orders")
    Librdkafka.produce(gateway.endpoint, "orders", values_of("t"))
    told = kcat("-b", gateway.endpoint, "-Q", "-t", f"orders:0:{BEGAN_MS + 123}")
    assert b"offset 123" in told


def test_librdkafka_finds_offsets_by_time(gateway):
    gateway.create("orders")
    Librdkafka.produce(gateway.endpoint, "orders", values_of("t"))
    consumer = confluent_kafka.Consumer({"bootstrap.servers": gateway.endpoint, "group.id": "g"})
    asked = confluent_kafka.TopicPartition("orders", 0, BEGAN_MS + 123)
    (found,) = consumer.offsets_for_times([asked], WAIT_S)
    consumer.close()
    assert (found.error, found.offset) == (None, 123)


def test_aiokafka_finds_offsets_by_time(gateway):
    async def run():
        consumer = aiokafka.AIOKafkaConsumer(bootstrap_servers=gateway.endpoint)
        await consumer.start()
        try:
            place = aiokafka.TopicPartition("orders", 0)
            return (await consumer.offsets_for_times({place: BEGAN_MS + 123}))[place]
        finally:
            await consumer.stop()

    gateway.create("orders")
    Librdkafka.produce(gateway.endpoint, "orders", values_of("t"))
    found = asyncio.run(asyncio.wait_for(run(), WAIT_S))
    assert (found.offset, found.timestamp) == (123, BEGAN_MS + 123)


def test_other_versions_are_not_served_and_said_so(gateway):
    with gateway.client() as client:
        client.send_frame(b"\0\x12\0\x63\0\0\0\5\0\1a")
        told = client.receive(Api.API_VERSIONS, 0)
        assert told.error_code == 35
        assert {one.api_key for one in told.api_keys} == set(Api)
    with gateway.client() as client:
        client.send_frame(b"\0\0\0\2\0\0\0\5\xff\xff")
        assert client.is_closed()
