"""A whole gateway in this process, and a client of Kafka's."""

from __future__ import annotations

import socket
from contextlib import closing

import confluent_kafka
import pytest
from confluent_kafka.admin import AdminClient
from prometheus_client import REGISTRY

from dafka.errors import MisuseError
from dafka.node.kafka_server import KafkaServer
from tests.support.small_cluster import SmallCluster

pytestmark = [pytest.mark.net, pytest.mark.slow]

WAIT_S = 120
ORDERS = {"topic": "orders", "partition": "0"}


def sample(name, **labels):
    labels = {"cluster": "dafka", **labels}
    return REGISTRY.get_sample_value(f"dafka_gateway_{name}", labels)


@pytest.fixture
def place(tmp_path, free_ports, reopened):
    cluster = SmallCluster(tmp_path, free_ports, reopened)
    cluster.start_tower()
    cluster.store()
    yield cluster.place(None, {"stores": cluster.queries})[0]
    cluster.close()


def test_a_topic_is_made_when_it_is_first_written_to(place, free_ports, until):
    port = free_ports(1)
    with KafkaServer(place, "127.0.0.1", port) as server:
        until(lambda: not server.unready())
        placed = []
        producer = confluent_kafka.Producer({"bootstrap.servers": f"127.0.0.1:{port}"})
        producer.produce("orders", b"a", on_delivery=lambda *done: placed.append(done))
        assert producer.flush(WAIT_S) == 0
        ((error, message),) = placed
        assert (error, message.offset()) == (None, 0)
        until(lambda: sample("partition_records_total", direction="in", **ORDERS) == 1)
        until(lambda: sample("partition_high_watermark", **ORDERS) == 1)
        assert sample("partitions", state="beginning") == 0
        assert sample("partitions", state="serving") == sample("cluster_partitions") == 3
        assert not server.unwell()
        assert not server.join(0)


def test_nobody_is_let_in_before_it_has_joined(tmp_path, free_ports, reopened, until):
    cluster = SmallCluster(tmp_path, free_ports, reopened)
    cluster.start_tower()
    way = cluster.place(None, {"stores": cluster.queries})[0]
    port = free_ports(1)
    address = "127.0.0.1", port
    with closing(cluster), KafkaServer(way, *address) as server:
        until(lambda: server.node.stores_away)
        with pytest.raises(ConnectionRefusedError):
            socket.create_connection(address)
        assert server.unready()
        cluster.store()
        until(lambda: not server.unready())
        bootstrap = {"bootstrap.servers": f"127.0.0.1:{port}"}
        found = AdminClient(bootstrap).list_topics(timeout=WAIT_S)
        assert found.controller_id == server.node.node
        assert not server.unwell()


def test_a_port_that_another_took_while_it_joined_is_said(tmp_path, free_ports, reopened, until):
    cluster = SmallCluster(tmp_path, free_ports, reopened)
    cluster.start_tower()
    way = cluster.place(None, {"stores": cluster.queries})[0]
    address = "127.0.0.1", free_ports(1)
    with closing(cluster), KafkaServer(way, *address) as server:
        with socket.create_server(address):
            cluster.store()
            until(server.unwell)
        assert "Kafka clients cannot come" in server.unwell()


def test_a_port_that_is_taken_is_said(place):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(MisuseError, match="cannot listen for Kafka clients"):
            KafkaServer(place, "127.0.0.1", port)
