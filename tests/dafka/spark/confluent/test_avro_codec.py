from __future__ import annotations

import json

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dafka.errors import MisuseError
from dafka.serializers.framing import head_of
from dafka.serializers.registry import RegisteredSchema, UnknownSchemaError
from dafka.spark.confluent.avro_codec import decoded, encoded
from dafka.spark.confluent.avro_types import NoSuchValueError, arrow_of, plain
from dafka.spark.confluent.avro_values import schema_of, written
from tests.support.avro_schemas import followers, records


def found(id_, described, language="AVRO"):
    return RegisteredSchema(id_, language, json.dumps(described), ())


def record(*fields):
    named = [
        {"name": name, "type": kind, **(rest[0] if rest else {})} for name, kind, *rest in fields
    ]
    return {"type": "record", "name": "R", "fields": named}


OLD = found(1, record(("n", "int")))
NEW = found(2, record(("n", "long"), ("text", "string", {"default": "none"})))
LISTS = found(3, record(("n", "int"), ("more", {"type": "array", "items": "int"})))


def find(id_):
    known = {1: OLD, 2: NEW, 3: LISTS, 4: found(4, {}, "JSON")}
    if id_ not in known:
        raise UnknownSchemaError(f"schema {id_} is not there")
    return known[id_]


def value(schema, row):
    return head_of(schema.id) + written(row, schema_of(schema.text))


@given(st.data())
def test_rows_of_many_schemas_come_in_their_order(data):
    described, values = data.draw(records(even=False))
    first = found(1, described)
    second = found(2, data.draw(followers(described)))
    kind = schema_of(second.text).kind
    rows = data.draw(st.lists(st.none() | values, max_size=8))
    octets = [row and value(first, row) for row in rows]
    column = decoded(
        pa.array(octets, pa.binary()), {1: first, 2: second}.get, second, permissive=False
    )
    assert column.type == arrow_of(kind)
    again = encoded(column, second)
    both = pa.concat_arrays([again, pa.array(octets, pa.binary())])
    twice = decoded(both, {1: first, 2: second}.get, second, permissive=False)
    assert twice.equals(pa.concat_arrays([column, column]))
    assert [one is None for one in column.to_pylist()] == [row is None for row in rows]


@given(st.data())
def test_a_column_is_written_as_its_rows_are_one_by_one(data):
    described, values = data.draw(records(even=False))
    schema = found(1, described)
    kind = schema_of(schema.text).kind
    rows = data.draw(st.lists(st.none() | values, max_size=8))
    column = pa.array([plain(kind, row) for row in rows], arrow_of(kind))
    alone = decoded(encoded(column, schema), {1: schema}.get, schema, permissive=False)
    assert alone.equals(column)


def test_each_value_is_read_with_its_own_schema_as_one():
    values = [value(OLD, {"n": 1}), None, value(NEW, {"n": 2, "text": "x"})]
    values += [value(LISTS, {"n": 3, "more": [1, 2]}), value(OLD, {"n": 4})]
    column = decoded(pa.array(values).slice(1), find, NEW, permissive=False)
    assert column.to_pylist() == [
        None,
        *({"n": 2, "text": "x"}, {"n": 3, "text": "none"}, {"n": 4, "text": "none"}),
    ]


WRONG = {
    "an empty one": (b"", "begins with nothing"),
    "without its id": (b"\0\0\0", "begins with 000000"),
    "not framed": (b'{"n": 1}', "begins with 7b226e22"),
    "of an unknown schema": (head_of(9) + b"\2", "schema 9 is not there"),
    "of another language": (head_of(4) + b"{}", "schema 4 is JSON, not AVRO"),
    "cut off": (head_of(2) + b"\2\10ab", "a value of schema 2 cannot be read"),
    "of a list without an end": (head_of(3) + b"\2\2", "a value of schema 3 cannot be read"),
}


@pytest.mark.parametrize(("octets", "said"), WRONG.values(), ids=WRONG)
def test_a_value_that_cannot_be_read_fails_or_is_null(octets, said):
    values = pa.array(
        [value(NEW, {"n": 1, "text": "a"}), octets, value(NEW, {"n": 2, "text": "b"})]
    )
    with pytest.raises(NoSuchValueError, match=said):
        decoded(values, find, NEW, permissive=False)
    column = decoded(values, find, NEW, permissive=True)
    assert column.to_pylist() == [{"n": 1, "text": "a"}, None, {"n": 2, "text": "b"}]


def test_a_registry_that_refuses_is_no_value_that_cannot_be_read():
    def refuse(_id):
        raise MisuseError("401: say who you are")

    for permissive in (False, True):
        with pytest.raises(MisuseError, match="say who you are"):
            decoded(
                pa.array([value(NEW, {"n": 1, "text": "a"})]), refuse, NEW, permissive=permissive
            )


def test_an_integer_too_wide_for_its_column_fails_or_is_null():
    values = pa.array([value(OLD, {"n": 1}), head_of(1) + b"\x80\x80\x80\x80\x20"])
    with pytest.raises(NoSuchValueError, match="a value of schema 1 cannot be read"):
        decoded(values, find, OLD, permissive=False)
    assert decoded(values, find, OLD, permissive=True).to_pylist() == [{"n": 1}, None]


def test_a_column_that_does_not_fit_its_schema_is_refused():
    with pytest.raises(MisuseError, match="no field 'n'"):
        encoded(pa.array([{"text": "a"}]), NEW)
    with pytest.raises(MisuseError, match=r"value\.n is null"):
        encoded(pa.array([{"n": None}], pa.struct([("n", pa.int64())])), NEW)
    with pytest.raises(MisuseError, match="does not fit"):
        encoded(
            pa.array(
                [{"n": None, "more": [1]}],
                pa.struct([("n", pa.int32()), ("more", pa.list_(pa.int32()))]),
            ),
            LISTS,
        )


def test_no_rows_are_no_rows():
    assert decoded(pa.array([], pa.binary()), find, NEW, permissive=False).to_pylist() == []
    assert encoded(pa.array([], arrow_of(schema_of(NEW.text).kind)), NEW).to_pylist() == []
