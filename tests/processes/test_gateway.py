"""Gateways in processes of their own, before real stores, and Kafka's real clients."""

from __future__ import annotations

import json
import time
import urllib.error
import urllib.request
from contextlib import closing
from functools import partial

import confluent_kafka
import kafka
import pytest
from confluent_kafka.admin import AdminClient, AlterConfigOpType, ConfigEntry, ConfigResource

from tests.support.commands import run_dafka
from tests.support.gateway_processes import (
    WAIT_S,
    KafkaCluster,
    Producing,
    create,
    owner_of,
)
from tests.support.json_outputs import rows_of

pytestmark = [pytest.mark.net, pytest.mark.slow]

TAKEOVER_S = 5.0


def consume(endpoint, topic, records, number=0):
    """Offsets and values from the beginning on, until there are so many."""
    consumer = confluent_kafka.Consumer(
        {"bootstrap.servers": endpoint, "group.id": "none", "enable.auto.commit": False}
    )
    place = confluent_kafka.TopicPartition(topic, number, confluent_kafka.OFFSET_BEGINNING)
    consumer.assign([place])
    found, deadline = [], time.monotonic() + WAIT_S
    while len(found) < records:
        assert time.monotonic() < deadline, f"{len(found)} of {records} records"
        message = consumer.poll(0.5)
        if message is not None and not message.error():
            found.append((message.offset(), message.value()))
    consumer.close()
    return found


def test_kafka_clients_and_dafka_nodes_read_each_other(make_cluster, free_ports):
    cluster = make_cluster()
    endpoint = cluster.gateway(free_ports(1))
    create(endpoint, "orders")
    native = cluster.consumer("orders")
    client = kafka.KafkaProducer(bootstrap_servers=endpoint)
    assert client.send("orders", b"from kafka").get(WAIT_S).offset == 0
    client.close()
    assert native.poll(WAIT_S).value == b"from kafka"
    producer = cluster.producer()
    producer.send("orders", b"from dafka")
    producer.flush(WAIT_S)
    assert consume(endpoint, "orders", 2) == [(0, b"from kafka"), (1, b"from dafka")]


def page(port, path):
    """The status and text of what a process says of itself."""
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}{path}", timeout=60) as answer:
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as error:
        with error:
            return error.code, error.read().decode()


def test_a_gateway_says_how_it_is(tmp_path, free_ports, reopened, until):
    cluster = KafkaCluster(tmp_path, free_ports, reopened, until=until)
    with closing(cluster):
        cluster.start_tower()
        store = cluster.store()
        metrics = free_ports(1)
        endpoint = cluster.gateway(free_ports(1), "--metrics", f"127.0.0.1:{metrics}")
        until(lambda: page(metrics, "/ready") == (200, "ok\n"), WAIT_S)
        create(endpoint, "orders", 3)
        served = 'dafka_gateway_partitions{cluster="c1",state="serving"} 5.0'
        until(lambda: served in page(metrics, "/metrics")[1], WAIT_S)
        assert json.loads(page(metrics, "/topics")[1]) == {"orders": 3}
        until(lambda: json.loads(page(metrics, "/connections")[1]) == [], WAIT_S)
        store.close()
        until(lambda: page(metrics, "/ready")[0] == 503, WAIT_S)
        assert "no lease yet" in page(metrics, "/ready")[1]
        assert page(metrics, "/health") == (200, "ok\n"), "to start it again would not help"
        away = 'dafka_gateway_stores_away{cluster="c1"} 1.0'
        until(lambda: away in page(metrics, "/metrics")[1], WAIT_S)


def test_what_a_client_deleted_stays_so_when_the_owner_is_killed(make_cluster, free_ports, until):
    cluster = make_cluster(stores=3)
    first = free_ports(2)
    endpoints = [cluster.gateway(first), cluster.gateway(first + 1)]
    bootstrap = ",".join(endpoints)
    create(bootstrap, "orders")
    producing = Producing(bootstrap, "orders")
    producing.start()
    until(lambda: len(producing.placed) > 100, WAIT_S)
    producing.stop()
    admin = AdminClient({"bootstrap.servers": bootstrap})
    place = confluent_kafka.TopicPartition("orders", 0, 70)
    (begun,) = admin.delete_records([place]).values()
    assert begun.result(WAIT_S).low_watermark == 70
    owner = until(partial(owner_of, bootstrap, "orders"), WAIT_S)
    cluster.kill(owner)
    (other,) = set(endpoints) - {owner}
    there = consume(other, "orders", producing.sent - 70)
    assert there[0] == (70, b"70")
    native = cluster.consumer("orders")
    assert native.poll(WAIT_S).value == b"0", "no store has forgotten anything"


def configs_of(endpoint, topic):
    """What a topic is set to, of what can be set."""
    asked = ConfigResource(ConfigResource.Type.TOPIC, topic)
    admin = AdminClient({"bootstrap.servers": endpoint})
    configs = admin.describe_configs([asked])[asked].result(WAIT_S).values()
    return {one.name: one.value for one in configs if not one.is_default}


def written(endpoint, topic, value):
    """Where it is; the name of the error if it is refused."""
    told = []
    producer = confluent_kafka.Producer({"bootstrap.servers": endpoint})
    producer.produce(topic, value, partition=0, on_delivery=lambda *one: told.append(one))
    assert producer.flush(WAIT_S) == 0
    ((error, message),) = told
    return error.name() if error else message.offset()


def test_a_topic_is_altered_by_one_gateway_and_heeded_by_all(make_cluster, free_ports, until):
    cluster = make_cluster()
    first = free_ports(2)
    asked, other = endpoints = [cluster.gateway(first), cluster.gateway(first + 1)]
    create(asked, "orders", 2)
    admin = AdminClient({"bootstrap.servers": asked})
    kind = ConfigResource.Type.TOPIC

    def told_of(configs):
        return lambda: [configs_of(one, "orders") for one in endpoints] == [configs] * 2

    def altered(name, value):
        entry = ConfigEntry(name, value, incremental_operation=AlterConfigOpType.SET)
        resource = ConfigResource(kind, "orders", incremental_configs=[entry])
        return admin.incremental_alter_configs([resource])[resource].result(WAIT_S)

    altered("max.message.bytes", "1000")
    altered("retention.ms", "3600000")
    until(told_of({"max.message.bytes": "1000", "retention.ms": "3600000"}), WAIT_S)
    assert written(asked, "orders", b"x" * 2_000) == "MSG_SIZE_TOO_LARGE"
    with pytest.raises(confluent_kafka.KafkaException, match="is a number"):
        altered("retention.ms", "soon")
    resource = ConfigResource(kind, "orders", set_config={"retention.ms": "7200000"})
    with pytest.warns(DeprecationWarning, match="incremental"):  # it says all that is to be set
        admin.alter_configs([resource])[resource].result(WAIT_S)
    until(told_of({"retention.ms": "7200000"}), WAIT_S)
    assert written(other, "orders", b"x" * 2_000) == 0


def test_a_topic_is_deleted_and_made_again_and_its_offsets_go_on(make_cluster, free_ports, until):
    cluster = make_cluster()
    first = free_ports(2)
    asked, other = cluster.gateway(first), cluster.gateway(first + 1)
    create(asked, "orders", 2)
    assert [written(asked, "orders", b"old"), written(asked, "orders", b"older")] == [0, 1]
    admin = AdminClient({"bootstrap.servers": asked})
    admin.delete_topics(["orders"])["orders"].result(WAIT_S)
    listing = AdminClient({"bootstrap.servers": other})
    until(lambda: "orders" not in listing.list_topics(timeout=WAIT_S).topics, WAIT_S)
    create(other, "orders", 2)
    assert written(other, "orders", b"new") == 2
    assert consume(asked, "orders", 1) == [(2, b"new")]
    native = cluster.consumer("orders")
    assert native.poll(WAIT_S).value == b"old", "stores keep what was deleted"


@pytest.mark.parametrize("stores", [1, 3])
def test_another_gateway_goes_on_where_the_owner_was_killed(
    make_cluster, free_ports, until, stores
):
    cluster = make_cluster(stores)
    first = free_ports(2)
    endpoints = [cluster.gateway(first), cluster.gateway(first + 1)]
    bootstrap = ",".join(endpoints)
    create(bootstrap, "orders")
    producing = Producing(bootstrap, "orders")
    producing.start()
    until(lambda: len(producing.placed) > 500, WAIT_S)
    owner = until(partial(owner_of, bootstrap, "orders"), WAIT_S)
    cluster.kill(owner)
    killed = len(producing.placed)
    until(lambda: len(producing.placed) > killed + 500, WAIT_S)
    producing.stop()
    (other,) = set(endpoints) - {owner}
    there = consume(other, "orders", producing.sent)
    assert [int(value) for _, value in there] == list(range(producing.sent))
    assert {int(value): offset for offset, value in there} == producing.placed
    assert producing.silent_s() < 6 * TAKEOVER_S, "on a machine with much else to do"


def test_commands_tell_what_a_gateway_shows(make_cluster, free_ports, until):
    cluster = make_cluster()
    looked_at = f"127.0.0.1:{free_ports(1)}"
    endpoint = cluster.gateway(free_ports(1), "--metrics", looked_at)
    until(lambda: run_dafka("gateway", "status", looked_at).returncode == 0, WAIT_S)
    create(endpoint, "orders", 2)
    settings = {"bootstrap.servers": endpoint, "client.id": "me", "group.id": "g"}
    with closing(confluent_kafka.Consumer(settings)) as consumer:
        place = confluent_kafka.TopicPartition("orders", 1, 0)
        consumer.commit(offsets=[place], asynchronous=False)

        def told(*words):
            done = run_dafka("gateway", words[0], looked_at, *words[1:], "--json")
            assert done.returncode == 0, done.stderr
            return rows_of(done.stdout)

        assert told("topics") == [{"topic": "orders", "partitions": 2}]
        assert [row["leader"] for row in told("topics", "orders")] == [endpoint] * 2
        assert [row["group"] for row in told("groups")] == ["g"]
        (commit,) = told("groups", "g")
        assert commit == {"topic": "orders", "partition": 1, "offset": 0, "lag_records": 0}
        assert "me" in {row["client_id"] for row in told("connections")}
