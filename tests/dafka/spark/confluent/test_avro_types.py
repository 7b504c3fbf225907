from __future__ import annotations

import json
from datetime import UTC, date, datetime
from decimal import Decimal

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dafka.errors import MisuseError
from dafka.spark.confluent.avro_types import aligned, arrow_of, plain, raw
from dafka.spark.confluent.avro_types import given as given_value
from dafka.spark.confluent.avro_values import schema_of
from tests.support.avro_schemas import records


def kind_of(described):
    return schema_of(json.dumps(described)).kind


def record(*fields):
    return kind_of({"type": "record", "name": "R", "fields": list(fields)})


@pytest.mark.parametrize(
    ("described", "kind"),
    [
        ("int", pa.int32()),
        (["null", "string"], pa.string()),
        ({"type": "array", "items": ["long", "null"]}, pa.list_(pa.int64())),
        ({"type": "map", "values": "bytes"}, pa.map_(pa.string(), pa.binary())),
        ({"type": "enum", "name": "E", "symbols": ["A"]}, pa.string()),
        ({"type": "fixed", "name": "F", "size": 3}, pa.binary()),
        ({"type": "int", "logicalType": "date"}, pa.date32()),
        ({"type": "long", "logicalType": "timestamp-millis"}, pa.timestamp("us", "UTC")),
        ({"type": "long", "logicalType": "local-timestamp-micros"}, pa.timestamp("us")),
        ({"type": "long", "logicalType": "date"}, pa.int64()),
        ({"type": "string", "logicalType": "uuid"}, pa.string()),
        (
            {"type": "bytes", "logicalType": "decimal", "precision": 9, "scale": 2},
            pa.decimal128(9, 2),
        ),
        ({"type": "bytes", "logicalType": "decimal", "precision": 39}, pa.binary()),
    ],
)
def test_types_are_those_of_the_table(described, kind):
    assert arrow_of(kind_of(described)) == kind


@pytest.mark.parametrize(
    ("described", "said"),
    [
        (["int", "string"], "value is one of int, string"),
        (["int"], "a union of one type"),
        ({"type": "array", "items": "null"}, "items that have no octets"),
        (
            {
                "type": "record",
                "name": "N",
                "fields": [{"name": "next", "type": ["null", "N"]}],
            },
            r"value\.next is of type 'N', which contains itself",
        ),
    ],
)
def test_what_is_no_column_is_named(described, said):
    with pytest.raises(MisuseError, match=said):
        kind_of(described)


def test_types_are_found_by_their_names():
    inner = {"type": "record", "name": "I", "fields": [{"name": "n", "type": "int"}]}
    outer = record({"name": "a", "type": inner}, {"name": "b", "type": "I"})
    assert arrow_of(outer.fields[0].kind) == arrow_of(outer.fields[1].kind)


def test_defaults_are_what_json_says():
    kind = record(
        {"name": "bytes", "type": "bytes", "default": "\u00ff"},
        {"name": "none", "type": ["null", "long"], "default": None},
        {"name": "one", "type": ["long", "null"], "default": 1},
        {"name": "at", "type": {"type": "long", "logicalType": "timestamp-millis"}, "default": 1},
        {"name": "list", "type": {"type": "array", "items": "bytes"}, "default": ["a"]},
        {"name": "map", "type": {"type": "map", "values": "int"}, "default": {"a": 1}},
        {
            "name": "record",
            "type": {
                "type": "record",
                "name": "I",
                "fields": [{"name": "n", "type": "int", "default": 3}],
            },
            "default": {},
        },
    )
    assert [given_value(field).as_py() for field in kind.fields] == [
        *(b"\xff", None, 1, datetime(1970, 1, 1, 0, 0, 0, 1_000, UTC)),
        *([b"a"], [("a", 1)], {"n": 3}),
    ]


@given(st.data())
def test_what_arrow_gives_back_is_what_avro_had(data):
    described, values = data.draw(records(even=False))
    kind = kind_of(described)
    value = data.draw(values)
    there = pa.array([plain(kind, value)], arrow_of(kind)).to_pylist()[0]
    assert plain(kind, raw(kind, there)) == plain(kind, value)


def test_times_and_decimals_are_cut_to_what_a_schema_has():
    millis = kind_of({"type": "long", "logicalType": "timestamp-millis"})
    assert raw(millis, datetime(1970, 1, 1, 0, 0, 1, 1_999, UTC)) == 1_001
    assert raw(kind_of({"type": "int", "logicalType": "date"}), date(1970, 1, 3)) == 2
    money = kind_of({"type": "bytes", "logicalType": "decimal", "precision": 5, "scale": 2})
    assert raw(money, Decimal("-1.28")) == b"\x80"


TWO = record({"name": "a", "type": "long"}, {"name": "b", "type": "string", "default": "x"})


def test_fields_are_brought_into_the_schemas_order_and_width():
    there = pa.array([{"b": "y", "a": 1}, None])
    assert aligned(there, TWO, "value").to_pylist() == [{"a": 1, "b": "y"}, None]
    narrow = pa.array([{"a": 1}], pa.struct([("a", pa.int8())]))
    assert aligned(narrow, TWO, "value").to_pylist() == [{"a": 1, "b": "x"}]


@pytest.mark.parametrize(
    ("column", "said"),
    [
        (pa.array([{"b": "y"}]), "value has no field 'a'"),
        (pa.array([{"a": 1, "c": 2}]), "value has a field 'c'"),
        (pa.array([{"a": "many"}]), r"value\.a is string, which is not int64"),
        (pa.array([1]), "value is int64"),
    ],
)
def test_a_column_that_does_not_fit_is_named(column, said):
    with pytest.raises(MisuseError, match=said):
        aligned(column, TWO, "value")
