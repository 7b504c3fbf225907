"""JSON Schema, with the clients that Confluent ships on the other side."""

from __future__ import annotations

import json

import pytest
from confluent_kafka.schema_registry import Schema, SchemaReference, SchemaRegistryClient
from confluent_kafka.schema_registry import json_schema as confluent
from confluent_kafka.serialization import MessageField, SerializationContext
from jsonschema import ValidationError

from dafka.errors import MisuseError
from dafka.serializers import JsonSchemaDeserializer, JsonSchemaSerializer

pytestmark = pytest.mark.net

SUBJECT = "notes-value"
CONTEXT = SerializationContext("notes", MessageField.VALUE)
NOTE = json.dumps(
    {
        "$schema": "http://json-schema.org/draft-07/schema#",
        "title": "Note",
        "type": "object",
        "properties": {"text": {"type": "string"}},
        "required": ["text"],
    }
)


def test_confluent_s_clients_read_what_is_written_and_write_what_is_read(url):
    written = JsonSchemaSerializer(url, SUBJECT, NOTE)({"text": "caf\xe9"})
    with SchemaRegistryClient({"url": url}) as client:
        theirs = confluent.JSONDeserializer(NOTE, schema_registry_client=client)
        assert theirs(written, CONTEXT) == {"text": "caf\xe9"}
        octets = confluent.JSONSerializer(NOTE, client)({"text": "x"}, CONTEXT)
        assert client.get_subjects() == [SUBJECT]
    assert JsonSchemaDeserializer()(octets) == {"text": "x"}


@pytest.mark.parametrize("value", [{}, {"text": 1}, []])
def test_what_the_schema_does_not_admit_is_not_written(url, value):
    serializer = JsonSchemaSerializer(url, SUBJECT, NOTE)
    with pytest.raises(ValidationError):
        serializer(value)


def test_a_schema_that_refers_to_others_is_refused(url):
    with SchemaRegistryClient({"url": url}) as client:
        client.register_schema("used", Schema(NOTE, "JSON"))
        user = json.dumps({"type": "array", "items": {"$ref": "note.json"}})
        references = [SchemaReference("note.json", "used", 1)]
        client.register_schema(SUBJECT, Schema(user, "JSON", references))
    with pytest.raises(MisuseError, match="refers to other schemas"):
        JsonSchemaSerializer(url, SUBJECT)
