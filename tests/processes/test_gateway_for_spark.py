"""Spark jobs that were written for Kafka, at gateways: nothing is changed but the format's name."""

from __future__ import annotations

import confluent_kafka
import pytest
from pyspark.errors import AnalysisException

from dafka.spark import register
from tests.support.gateway_processes import WAIT_S, KafkaCluster, create

pytestmark = [pytest.mark.net, pytest.mark.slow]

ROWS = 500


@pytest.fixture
def cluster(tmp_path, free_ports, reopened, until):
    cluster = KafkaCluster(tmp_path, free_ports, reopened, until=until)
    cluster.start_tower()
    cluster.store()
    yield cluster
    cluster.close()


def produce(bootstrap, topic, values):
    # As Kafka's own client and Spark partition; librdkafka has another hash by default.
    settings = {"bootstrap.servers": bootstrap, "partitioner": "murmur2"}
    producer = confluent_kafka.Producer(settings)
    for value in values:
        producer.produce(topic, value, key=value)
    assert producer.flush(WAIT_S) == 0


def consumed(bootstrap, topic, count):
    """The values of so many records, by the number of their Kafka partition."""
    reading = {"bootstrap.servers": bootstrap, "group.id": topic, "auto.offset.reset": "earliest"}
    consumer = confluent_kafka.Consumer(reading)
    consumer.subscribe([topic])
    found = {}
    while sum(map(len, found.values())) < count:
        message = consumer.poll(WAIT_S)
        assert message is not None, f"{found} of {count}"
        assert message.error() is None
        found.setdefault(message.partition(), []).append(message.value())
    consumer.close()
    return found


def test_a_job_of_kafka_s_runs_with_another_format(spark, cluster, free_ports, tmp_path):
    """It reads what clients of Kafka wrote, and they read what it writes, under the same keys."""
    register(spark)
    dead, port = f"127.0.0.1:{free_ports(1)}", free_ports(1)
    gateway = cluster.gateway(port)
    bootstrap = f"{dead},{gateway}"
    for topic in ("orders", "shouted"):
        create(gateway, topic, 3)
    produce(gateway, "orders", [b"order %d" % number for number in range(ROWS)])

    def options(way):
        return way.format("dafka").option("kafka.bootstrap.servers", bootstrap)

    orders = options(spark.read).option("subscribe", "orders").load()
    assert orders.count() == ROWS
    stream = options(spark.readStream).option("subscribe", "orders")
    shouted = (
        stream.option("startingOffsets", "earliest")
        .load()
        .selectExpr("key", "upper(CAST(value AS STRING)) AS value")
    )
    query = (
        options(shouted.writeStream)
        .option("topic", "shouted")
        .option("checkpointLocation", str(tmp_path / "checkpoint"))
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()
    before, after = (consumed(gateway, topic, ROWS) for topic in ("orders", "shouted"))
    assert len(before) == 3
    assert {number: sorted(map(bytes.upper, values)) for number, values in before.items()} == {
        number: sorted(values) for number, values in after.items()
    }


def test_where_nobody_answers_the_address_is_named(spark, free_ports):
    register(spark)
    place = f"127.0.0.1:{free_ports(1)}"
    kafka = spark.read.format("dafka").option("kafka.bootstrap.servers", place)
    with pytest.raises(AnalysisException, match=f"{place} does not answer .* say 'topology'"):
        kafka.option("subscribe", "orders").load()
