from __future__ import annotations

import json

import pytest

from dafka.errors import MisuseError
from dafka.serializers.registry import RegisteredSchema
from dafka.spark.confluent.json_types import spark_type


def kind_of(schema, uses=()):
    return spark_type(RegisteredSchema(1, "JSON", json.dumps(schema), uses)).simpleString()


@pytest.mark.parametrize(
    ("schema", "kind"),
    [
        ({"type": "integer"}, "bigint"),
        ({"type": "number"}, "double"),
        ({"type": "boolean"}, "boolean"),
        ({"type": "string"}, "string"),
        ({"type": "string", "format": "date-time"}, "timestamp"),
        ({"type": "string", "format": "date"}, "date"),
        ({"type": "string", "format": "email"}, "string"),
        ({"type": ["null", "integer"]}, "bigint"),
        ({"oneOf": [{"type": "null"}, {"type": "string"}]}, "string"),
        ({"type": "array", "items": {"type": "integer"}}, "array<bigint>"),
        ({"type": "object", "additionalProperties": {"type": "string"}}, "map<string,string>"),
        (
            {
                "type": "object",
                "properties": {"a": {"type": "string"}, "b": {"$ref": "#/$defs/b"}},
                "$defs": {"b": {"type": "object", "properties": {"c": {"type": "number"}}}},
            },
            "struct<a:string,b:struct<c:double>>",
        ),
    ],
)
def test_types_are_those_of_the_table(schema, kind):
    assert kind_of(schema) == kind


@pytest.mark.parametrize(
    ("schema", "said"),
    [
        (True, "value is no column"),
        ({"type": "null"}, "value is no column"),
        ({"type": "array"}, r"value\[\] is no column"),
        ({"type": "object"}, "has no properties"),
        ({"type": ["integer", "string"]}, "one of several types"),
        ({"type": "object", "properties": {"a": {"$ref": "#/nowhere"}}}, r"value\.a is at '#/now"),
        ({"$ref": "http://other"}, "outside of the schema"),
        ({"$ref": "#"}, "value is no column"),
    ],
)
def test_what_is_no_column_is_named(schema, said):
    with pytest.raises(MisuseError, match=said):
        kind_of(schema)


def test_what_is_no_schema_and_what_uses_others_is_refused():
    with pytest.raises(MisuseError, match="no JSON Schema"):
        spark_type(RegisteredSchema(1, "JSON", "{", ()))
    with pytest.raises(MisuseError, match="other subjects"):
        kind_of({"type": "string"}, ("{}",))
