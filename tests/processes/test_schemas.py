"""Schemas on every cluster, as real processes, with the clients that Confluent ships."""

from __future__ import annotations

import json
import socket
import subprocess
import sys
from contextlib import ExitStack
from typing import TYPE_CHECKING

import pytest
from confluent_kafka.schema_registry import Schema, SchemaRegistryClient, SchemaRegistryError
from confluent_kafka.schema_registry.avro import AvroDeserializer, AvroSerializer
from confluent_kafka.schema_registry.json_schema import JSONDeserializer, JSONSerializer
from confluent_kafka.schema_registry.protobuf import ProtobufDeserializer, ProtobufSerializer
from confluent_kafka.serialization import MessageField, SerializationContext
from google.protobuf.descriptor_pb2 import FileDescriptorProto
from google.protobuf.descriptor_pool import DescriptorPool
from google.protobuf.message_factory import GetMessageClass

from dafka import Consumer, Producer
from topology import Names, load
from topology.model import host_and_port

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = [pytest.mark.net, pytest.mark.slow]

ORDER = {"type": "record", "name": "Order", "fields": [{"name": "id", "type": "long"}]}
NOTE = {"type": "object", "title": "Note", "properties": {"text": {"type": "string"}}}
ITEM = {"name": "item.proto", "syntax": "proto3", "message_type": [{"name": "Item"}]}
PARCEL = {
    "name": "parcel.proto",
    "syntax": "proto3",
    "dependency": ["item.proto"],
    "message_type": [
        {
            "name": "Parcel",
            "field": [
                {"name": "item", "number": 1, "type": 11, "type_name": ".Item", "label": 1},
                {"name": "weight", "number": 2, "type": 5, "label": 1},
            ],
        }
    ],
}
FORMATS = {
    "c1": "{tenant}-{instance}-{environment}-{topic}",
    "c4": "{tenant}-{environment}/{topic}",
}


@pytest.fixture
def topology_file(topology_file: Path) -> Path:
    """The topology with registries on c1 and c4, which spell subjects differently."""
    text = topology_file.read_text()
    # Behind the ports that the fixture gives to nodes and metrics.
    port = load(topology_file).metrics.first_port + 30
    for name, form in FORMATS.items():
        registry = f'    registry: http://127.0.0.1:{port}\n    subject_format: "{form}"\n'
        text = text.replace(f"    id: {name[1:]}\n", f"    id: {name[1:]}\n{registry}")
        port += 1
    text += f"""
fields: {{tenant: acme, instance: prod}}
topic_format: "{FORMATS["c1"]}"
schemas: {{primary: c1}}
"""
    topology_file.write_text(text)
    return topology_file


@pytest.fixture
def client_of(topology_file):
    """A function that returns Confluent's client of a cluster's registry."""
    topology = load(topology_file)
    with ExitStack() as opened:

        def client_of(name):
            client = SchemaRegistryClient({"url": topology.cluster(name).registry})
            opened.callback(client.close)
            return client

        yield client_of


def schemas(*words: str | Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "distributor", "schemas", *map(str, words)],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


def parcel_class():
    """A message that uses one of another file."""
    pool = DescriptorPool()
    for file in (ITEM, PARCEL):
        pool.Add(FileDescriptorProto(**file))
    return GetMessageClass(pool.FindMessageTypeByName("Parcel"))


def code_of(call, *arguments):
    """The error code with which a request is refused."""
    with pytest.raises(SchemaRegistryError) as refused:
        call(*arguments)
    return refused.value.error_code


def answers(call, *arguments):
    """What a request is answered; None if it is refused by now."""
    try:
        return call(*arguments)
    except SchemaRegistryError:
        return None


def listens(registry: str) -> bool:
    """Whether a registry takes connections."""
    with socket.socket() as probe:
        return probe.connect_ex(host_and_port(registry)) == 0


def test_what_is_written_on_one_cluster_is_read_on_another_that_spells_subjects_differently(
    up, topology_file, client_of, wait_until
):
    topology = load(topology_file)
    for name in FORMATS:
        registry = topology.cluster(name).registry
        wait_until(lambda url=registry: listens(url), f"the registry of {name} listens")
    here, there = client_of("c1"), client_of("c4")
    names = Names(topology, "c1")
    seen = ("orders", "notes", "parcels", "items")
    orders, notes, parcels, items = (names.topic(one, environment="dev") for one in seen)
    context = SerializationContext(orders, MessageField.VALUE)
    noted = SerializationContext(notes, MessageField.VALUE)
    sent = SerializationContext(parcels, MessageField.VALUE)

    def subject(where, _record):
        return names.subject(where.topic, where.field)

    conf = {"subject.name.strategy": subject}
    avro = AvroSerializer(here, json.dumps(ORDER), conf=conf)
    wait_until(lambda: answers(avro, {"id": 0}, context), "the first primary registers")
    note = JSONSerializer(json.dumps(NOTE), here, conf=conf)
    parcel_of = parcel_class()
    item = {"reference.subject.name.strategy": lambda *_: names.subject(items, MessageField.VALUE)}
    parcel = ProtobufSerializer(parcel_of, here, {**conf, **item})
    with Producer(topology.cluster("c1").towers[0]) as producer:
        for number in range(100):
            producer.send(orders, avro({"id": number}, context))
        producer.send(notes, note({"text": "hello"}, noted))
        producer.send(parcels, parcel(parcel_of(item={}, weight=3), sent))
        producer.flush(30)
    kinds = ("items", "notes", "orders", "parcels")
    wait_until(
        lambda: answers(there.get_subjects) == [f"acme-dev/{kind}-value" for kind in kinds],
        "schemas are on c4",
    )
    read_avro = AvroDeserializer(there)
    read_note = JSONDeserializer(None, schema_registry_client=there)
    read_parcel = ProtobufDeserializer(parcel_of, {}, there)
    reading = {
        orders: lambda value: read_avro(value, context),
        notes: lambda value: read_note(value, noted),
        parcels: lambda value: {"weight": read_parcel(value, sent).weight},
    }
    read = []
    with Consumer(topology.cluster("c4").towers[0], [*reading], start="earliest") as consumer:
        for record in consumer:
            read.append(reading[record.topic](record.value))
            if len(read) == 102:
                break
    assert [one for one in read if "id" in one] == [{"id": number} for number in range(100)]
    assert {"text": "hello"} in read
    assert {"weight": 3} in read
    for kind in kinds:
        ours = here.get_latest_version(f"acme-prod-dev-{kind}-value")
        assert ours.schema_id == there.get_latest_version(f"acme-dev/{kind}-value").schema_id
    (used,) = there.get_latest_version("acme-dev/parcels-value").schema.references
    assert (used.name, used.subject, used.version) == ("item.proto", "acme-dev/items-value", 1)
    done = schemas("diff", topology_file, "--json")
    assert done.returncode == 0, done.stdout + done.stderr
    assert json.loads(done.stdout)["primary"] == "c1"

    # Whoever dies goes on where it was.
    up.kill_one("distributor schemas", "c1")
    here.set_compatibility("acme-prod-dev-orders-value", "NONE")
    wait_until(
        lambda: answers(there.get_compatibility, "acme-dev/orders-value") == "NONE",
        "the level is on c4",
    )
    text = Schema('"string"', "AVRO")
    assert code_of(there.register_schema, "acme-dev/new-value", text) == 42205

    # Another cluster becomes the primary; the old one is fenced at once.
    done = schemas("promote", topology_file, "--cluster", "c4")
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("c4 is the primary since epoch 1028, instead of c1")
    assert code_of(here.register_schema, "acme-prod-dev-new-value", text) == 42205
    id_ = there.register_schema("acme-dev/new-value", text)
    wait_until(
        lambda: answers(here.get_latest_version, "acme-prod-dev-new-value"), "the schema is on c1"
    )
    assert here.get_latest_version("acme-prod-dev-new-value").schema_id == id_
    done = schemas("diff", topology_file)
    assert done.returncode == 0, done.stdout + done.stderr
    assert up.stop() == 0
