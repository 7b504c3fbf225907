"""Protobuf with the clients that Confluent ships: what they register, find and read."""

from __future__ import annotations

import base64

import pytest
from confluent_kafka.schema_registry import Schema, SchemaReference, SchemaRegistryClient
from confluent_kafka.schema_registry.error import SchemaRegistryError
from confluent_kafka.schema_registry.protobuf import ProtobufDeserializer, ProtobufSerializer
from confluent_kafka.serialization import MessageField, SerializationContext
from google.protobuf.descriptor_pb2 import FileDescriptorProto
from google.protobuf.descriptor_pool import DescriptorPool
from google.protobuf.message_factory import GetMessageClass

from dafka.schemas.protobuf_compiler import compiled, known
from tests.support.served_registry import served_registry

pytestmark = [pytest.mark.net, pytest.mark.slow]

ITEM = 'syntax = "proto3"; package shop; message Item { string name = 1; }'
ORDER = """
syntax = "proto3";
package shop;
import "shop/item.proto";
import "google/protobuf/timestamp.proto";
import "google/type/money.proto";
message Customer { string name = 1; }
message Order {
  message Line { Item item = 1; int32 count = 2; }
  repeated Line lines = 1;
  google.protobuf.Timestamp at = 2;
  google.type.Money price = 3;
  map<string, Item> gifts = 4;
}
"""
TOPIC = SerializationContext("orders", MessageField.VALUE)


@pytest.fixture
def url(free_ports):
    """Where a registry is that judges in processes, as the real one does."""
    with served_registry(free_ports(1)) as url:
        yield url


@pytest.fixture
def client(url):
    """Confluent's client."""
    with SchemaRegistryClient({"url": url}) as client:
        yield client


@pytest.fixture
def other(url):
    """One that has what it knows from the registry: they remember what they have registered."""
    with SchemaRegistryClient({"url": url}) as client:
        yield client


def pool_of(**files):
    """Generated classes come from such a pool; `files` are given by path, in their order."""
    pool = DescriptorPool()
    for name in ("google/protobuf/timestamp.proto", "google/type/money.proto"):
        pool.AddSerializedFile(known()[name].SerializeToString())
    used = {}
    for name, text in files.items():
        used[name] = compiled(text, tuple(used.items()))
        file = FileDescriptorProto.FromString(base64.b64decode(used[name]))
        file.name = name
        pool.AddSerializedFile(file.SerializeToString())
    return pool


def classes_of(item=ITEM, order=ORDER):
    pool = pool_of(**{"shop/item.proto": item, "shop/order.proto": order})
    names = ("shop.Order", "shop.Order.Line", "shop.Item")
    return [GetMessageClass(pool.FindMessageTypeByName(name)) for name in names]


def filled(order_class):
    order = order_class(price={"currency_code": "EUR", "units": 3})
    order.lines.add(item={"name": "pen"}, count=2)
    order.at.FromSeconds(1_000)
    order.gifts["anna"].name = "book"
    return order


@pytest.mark.parametrize("conf", [{}, {"skip.known.types": True}, {"normalize.schemas": True}])
def test_a_message_that_uses_other_files_is_written_and_read(client, other, conf):
    order_class, _, _ = classes_of()
    octets = ProtobufSerializer(order_class, client, conf)(filled(order_class), TOPIC)
    assert ProtobufDeserializer(order_class, {}, other)(octets, TOPIC) == filled(order_class)
    assert {"orders-value", "shop/item.proto"} <= set(client.get_subjects())
    references = {one.name for one in client.get_latest_version("orders-value").schema.references}
    assert "shop/item.proto" in references
    assert ("google/type/money.proto" in references) is not conf.get("skip.known.types", True)


def test_a_nested_message_is_named_by_its_number_and_found_by_the_text_as_well(client):
    _, line_class, item_class = classes_of()
    written = ProtobufSerializer(line_class, client, {"skip.known.types": True})
    line = line_class(item={"name": "pen"}, count=7)
    octets = written(line, TOPIC)
    assert ProtobufDeserializer(line_class, {}, client)(octets, TOPIC) == line
    item = item_class(name="pen")
    context = SerializationContext("items", MessageField.VALUE)
    octets = ProtobufSerializer(item_class, client, {})(item, context)
    assert ProtobufDeserializer(item_class, {}, client)(octets, context) == item
    # Who has the text gets the same ids: nothing is registered twice.
    here = client.get_latest_version("orders-value")
    reference = SchemaReference("shop/item.proto", "shop/item.proto", 1)
    by_text = Schema(ORDER, "PROTOBUF", [reference])
    assert client.register_schema("orders-value", by_text) == here.schema_id
    assert client.lookup_schema("orders-value", by_text).version == 1


def test_a_schema_that_was_registered_as_text_is_used_by_its_latest_version(client, other):
    order_class, _, _ = classes_of()
    client.register_schema("item", Schema(ITEM, "PROTOBUF"))
    schema = Schema(ORDER, "PROTOBUF", [SchemaReference("shop/item.proto", "item", 1)])
    id_ = client.register_schema("orders-value", schema)
    conf = {"auto.register.schemas": False, "use.latest.version": True}
    octets = ProtobufSerializer(order_class, other, conf)(filled(order_class), TOPIC)
    assert int.from_bytes(octets[1:5], "big") == id_
    assert ProtobufDeserializer(order_class, {}, other)(octets, TOPIC) == filled(order_class)
    assert client.get_schema(id_).schema_str == ORDER


def test_a_newer_class_reads_what_an_older_one_wrote_and_another_is_refused(client):
    conf = {"skip.known.types": True}
    order_class, _, _ = classes_of()
    octets = ProtobufSerializer(order_class, client, conf)(filled(order_class), TOPIC)
    newer, _, _ = classes_of(order=ORDER.replace("int32 count = 2;", "int64 n = 2; bool big = 3;"))
    read = ProtobufDeserializer(newer, {}, client)(octets, TOPIC)
    assert (read.lines[0].n, read.lines[0].big) == (2, False)
    ProtobufSerializer(newer, client, conf)(newer(), TOPIC)
    assert client.get_versions("orders-value") == [1, 2]
    another, _, _ = classes_of(order=ORDER.replace("int32 count", "string count"))
    with pytest.raises(SchemaRegistryError, match="text or bytes, not a whole number") as refused:
        ProtobufSerializer(another, client, conf)(another(), TOPIC)
    assert refused.value.http_status_code == 409
    # A change in another file counts as well, with the version that is referred to.
    another, _, _ = classes_of(item=ITEM.replace("string name", "double name"))
    with pytest.raises(SchemaRegistryError) as refused:
        ProtobufSerializer(another, client, conf)(another(), TOPIC)
    assert refused.value.http_status_code == 409
