"""Protobuf, with the clients that Confluent ships on the other side."""

from __future__ import annotations

import base64

import pytest
from confluent_kafka.schema_registry import SchemaRegistryClient, protobuf
from confluent_kafka.serialization import MessageField, SerializationContext
from google.protobuf.descriptor_pb2 import FileDescriptorProto
from google.protobuf.descriptor_pool import DescriptorPool
from google.protobuf.message import DecodeError
from google.protobuf.message_factory import GetMessageClass

from dafka.errors import MisuseError
from dafka.schemas.protobuf_compiler import compiled, known
from dafka.serializers import ProtobufDeserializer, ProtobufSerializer

pytestmark = pytest.mark.net

SUBJECT = "orders-value"
CONTEXT = SerializationContext("orders", MessageField.VALUE)
CONF = {"skip.known.types": True}
ORDER = """
syntax = "proto3";
package shop;
import "google/protobuf/timestamp.proto";
message Customer { string name = 1; }
message Order {
  message Mark {}
  message Line { string item = 1; }
  repeated Line lines = 1;
  google.protobuf.Timestamp at = 2;
}
"""
ITEM = 'syntax = "proto3"; package shop; message Item { string name = 1; }'
BOX = """
syntax = "proto3";
package shop;
import "shop/item.proto";
message Box { Item item = 1; }
"""


def classes(**files):
    """Of all messages of files, by path, as protoc's output has them."""
    pool, used = DescriptorPool(), {}
    name = "google/protobuf/timestamp.proto"
    pool.AddSerializedFile(known()[name].SerializeToString())
    for name, text in files.items():
        used[name] = compiled(text, tuple(used.items()))
        file = FileDescriptorProto.FromString(base64.b64decode(used[name]))
        file.name = name
        pool.AddSerializedFile(file.SerializeToString())
    return lambda name: GetMessageClass(pool.FindMessageTypeByName(name))


@pytest.mark.parametrize(
    ("name", "fields"),
    [
        ("shop.Customer", {"name": "anna"}),
        ("shop.Order", {"lines": [{"item": "pen"}]}),
        ("shop.Order.Line", {"item": "pen"}),
    ],
)
def test_confluent_s_clients_read_what_is_written_and_write_what_is_read(url, name, fields):
    kind = classes(**{"shop/order.proto": ORDER})(name)
    message = kind(**fields)
    written = ProtobufSerializer(url, SUBJECT, kind)(message)
    with SchemaRegistryClient({"url": url}) as client:
        assert protobuf.ProtobufDeserializer(kind, {}, client)(written, CONTEXT) == message
        theirs = protobuf.ProtobufSerializer(kind, client, CONF)(message, CONTEXT)
        assert client.get_subjects() == [SUBJECT]
    assert theirs == written
    assert ProtobufDeserializer(kind)(theirs) == message


def test_a_message_of_another_class_is_not_written(url):
    of = classes(**{"shop/order.proto": ORDER})
    with pytest.raises(TypeError, match="Customer is no Order"):
        ProtobufSerializer(url, SUBJECT, of("shop.Order"))(of("shop.Customer")())


def test_a_file_that_imports_others_is_refused(url):
    kind = classes(**{"shop/item.proto": ITEM, "shop/box.proto": BOX})("shop.Box")
    with pytest.raises(MisuseError, match=r"shop/box.proto imports shop/item.proto"):
        ProtobufSerializer(url, SUBJECT, kind)


@pytest.mark.parametrize(
    ("octets", "error"),
    [
        (b"\1\0\0\0\1\0", ValueError),
        (b"\0\0\0\0\1", ValueError),
        (b"\0\0\0\0\1" + b"\xff" * 11, ValueError),
        (b"\0\0\0\0\1\0\x0a\xff", DecodeError),
    ],
)
def test_octets_that_are_no_message_are_refused(octets, error):
    kind = classes(**{"shop/order.proto": ORDER})("shop.Customer")
    with pytest.raises(error):
        ProtobufDeserializer(kind)(octets)
