"""Avro, with the clients that Confluent ships on the other side."""

from __future__ import annotations

import json
from datetime import UTC, date, datetime
from decimal import Decimal

import pytest
from confluent_kafka.schema_registry import SchemaRegistryClient, avro
from confluent_kafka.serialization import MessageField, SerializationContext

from dafka.errors import MisuseError
from dafka.serializers import AvroDeserializer, AvroSerializer, SchemaRegistry

pytestmark = pytest.mark.net

SUBJECT = "orders-value"
CONTEXT = SerializationContext("orders", MessageField.VALUE)
FIELDS = [
    {"name": "id", "type": "long"},
    {"name": "note", "type": ["null", "string"], "default": None},
    {"name": "at", "type": {"type": "long", "logicalType": "timestamp-millis"}},
    {"name": "on", "type": {"type": "int", "logicalType": "date"}},
    {
        "name": "price",
        "type": {"type": "bytes", "logicalType": "decimal", "precision": 9, "scale": 2},
    },
]
ORDER = json.dumps({"type": "record", "name": "Order", "fields": FIELDS})
FEWER = json.dumps(
    {
        "type": "record",
        "name": "Order",
        "fields": [FIELDS[0], {"name": "new", "type": "int", "default": 7}],
    }
)
VALUE = {
    "id": 3,
    "note": None,
    "at": datetime(2026, 1, 2, tzinfo=UTC),
    "on": date(2026, 1, 2),
    "price": Decimal("1.50"),
}


def test_confluent_s_clients_read_what_is_written_and_write_what_is_read(url):
    written = AvroSerializer(url, SUBJECT, ORDER)(VALUE)
    with SchemaRegistryClient({"url": url}) as client:
        assert avro.AvroDeserializer(client)(written, CONTEXT) == VALUE
        theirs = avro.AvroSerializer(client, ORDER)(VALUE, CONTEXT)
        assert client.get_subjects() == [SUBJECT]
    assert theirs == written
    assert AvroDeserializer(SchemaRegistry.at(url))(theirs) == VALUE


def test_without_a_schema_the_latest_of_the_subject_is_written_with(url):
    first = AvroSerializer(url, SUBJECT, ORDER)
    assert AvroSerializer(url, SUBJECT)(VALUE) == first(VALUE)


def test_values_are_resolved_to_a_schema_of_the_reader(url):
    written = AvroSerializer(url, SUBJECT, ORDER)(VALUE)
    assert AvroDeserializer(url, FEWER)(written) == {"id": 3, "new": 7}


@pytest.mark.parametrize("value", [VALUE | {"id": "three"}, {"id": 3}, VALUE | {"more": 1}])
def test_what_does_not_fit_is_not_written(url, value):
    serializer = AvroSerializer(url, SUBJECT, ORDER)
    with pytest.raises((ValueError, TypeError)):
        serializer(value)


def test_a_subject_of_another_language_is_refused(url):
    SchemaRegistry.at(url).registered(SUBJECT, '{"type": "object"}', "JSON")
    with pytest.raises(MisuseError, match="is of JSON, not AVRO"):
        AvroSerializer(url, SUBJECT)
    found = SchemaRegistry.at(url).latest(SUBJECT)
    with pytest.raises(MisuseError, match="is JSON, not AVRO"):
        AvroDeserializer(url)(b"\0" + found.id.to_bytes(4, "big") + b"{}")


def test_a_schema_that_is_none_is_refused(url):
    with pytest.raises(MisuseError, match="this is no Avro schema"):
        AvroDeserializer(url, '{"type": "nothing"}')
