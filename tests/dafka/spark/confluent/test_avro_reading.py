from __future__ import annotations

import json

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dafka.errors import RecordError
from dafka.spark.confluent import avro_values
from dafka.spark.confluent.avro_reading import AvroOctets, UnevenError, reading
from dafka.spark.confluent.avro_types import NoSuchValueError, arrow_of, plain
from dafka.spark.confluent.avro_values import schema_of
from tests.support.avro_schemas import followers, records


def read(octets, writer, reader=None):
    """Values as a column, all at once."""
    reader = reader or writer
    step = reading(writer.kind, reader.kind)
    joined = b"".join(octets)
    ends = np.cumsum([len(one) for one in octets]).astype(np.int64)
    begins = ends - np.array([len(one) for one in octets], np.int64)
    column, behind = step(AvroOctets(joined, np.frombuffer(joined, np.uint8)), begins, ends)
    assert (behind <= ends).all()
    assert column.type == arrow_of(reader.kind)
    return column


def schema(*fields, **more):
    described = [
        {"name": name, "type": kind, **(rest[0] if rest else {})} for name, kind, *rest in fields
    ]
    return schema_of(json.dumps({"type": "record", "name": "R", "fields": described, **more}))


@given(st.data())
def test_what_fastavro_wrote_is_read_as_fastavro_reads_it(data):
    described, values = data.draw(records())
    found = schema_of(json.dumps(described))
    rows = data.draw(st.lists(values, min_size=1, max_size=8))
    octets = [avro_values.written(row, found) for row in rows]
    expected = pa.array([plain(found.kind, row) for row in rows], arrow_of(found.kind))
    assert read(octets, found).equals(expected)


@given(st.data())
def test_what_was_written_with_an_earlier_schema_is_resolved_as_fastavro_does(data):
    described, values = data.draw(records())
    writer = schema_of(json.dumps(described))
    reader = schema_of(json.dumps(data.draw(followers(described))))
    rows = data.draw(st.lists(values, min_size=1, max_size=8))
    octets = [avro_values.written(row, writer) for row in rows]
    alone = [avro_values.read(one, writer, reader) for one in octets]
    expected = pa.array([plain(reader.kind, row) for row in alone], arrow_of(reader.kind))
    assert read(octets, writer, reader).equals(expected)


@given(st.data())
def test_what_is_none_is_said_to_be_and_nothing_is_read_behind_its_end(data):
    described, values = data.draw(records())
    found = schema_of(json.dumps(described))
    whole = avro_values.written(data.draw(values), found)
    broken = (
        data.draw(st.binary(max_size=12))
        if not whole
        else whole[: data.draw(st.integers(0, len(whole) - 1))]
    )
    try:
        column = read([whole, broken, whole], found)
    except (NoSuchValueError, RecordError, pa.ArrowInvalid):
        return
    assert column[0] == column[2]


LONG = schema(("n", "long"))


@pytest.mark.parametrize(
    ("kinds", "octets"),
    [
        (("boolean",), b"\2"),
        (("boolean",), b""),
        (("int",), b"\x80\x80\x80\x80\x20"),
        (("long",), b"\x80"),
        ((["null", "long"],), b"\4\2"),
        (("string",), b"\4a"),
        (("string",), b"\1"),
        (("string",), b"\2\xff"),
        (("double",), b"\0" * 7),
        (({"type": "fixed", "name": "F", "size": 2},), b"a"),
        (({"type": "enum", "name": "E", "symbols": ["A"]},), b"\2"),
        (({"type": "long", "logicalType": "timestamp-millis"},), b"\xfe" + b"\xff" * 8 + b"\1"),
    ],
)
def test_such_octets_are_no_value(kinds, octets):
    described = schema(*((f"f{number}", kind) for number, kind in enumerate(kinds)))
    with pytest.raises((NoSuchValueError, RecordError, pa.ArrowInvalid)):
        read([octets], described)


def test_null_where_the_reader_has_none_is_no_value():
    writer, reader = schema(("n", ["null", "long"])), LONG
    assert read([b"\2\4"], writer, reader).to_pylist() == [{"n": 2}]
    with pytest.raises(NoSuchValueError, match="null"):
        read([b"\0"], writer, reader)


def test_a_symbol_that_the_reader_has_not_is_its_default():
    writer = schema(("e", {"type": "enum", "name": "E", "symbols": ["A", "B"]}))
    with_default = {"type": "enum", "name": "E", "symbols": ["B", "C"], "default": "C"}
    assert read([b"\0", b"\2"], writer, schema(("e", with_default))).to_pylist() == [
        {"e": "C"},
        {"e": "B"},
    ]
    without = schema(("e", {"type": "enum", "name": "E", "symbols": ["B"]}))
    with pytest.raises(NoSuchValueError, match="symbol"):
        read([b"\0"], writer, without)


@pytest.mark.parametrize(
    ("writer", "reader"),
    [
        (schema(("a", {"type": "array", "items": "int"})), LONG),
        (schema(("n", "string")), LONG),
        (schema(("n", "double")), LONG),
        (schema(("other", "long")), LONG),
        (schema(("n", "long"), name="Other"), LONG),
        (schema(("n", {"type": "enum", "name": "E", "symbols": ["A"]})), schema(("n", "string"))),
    ],
)
def test_what_else_there_is_is_left_to_fastavro(writer, reader):
    with pytest.raises(UnevenError):
        reading(writer.kind, reader.kind)
