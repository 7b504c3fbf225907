from __future__ import annotations

import json

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dafka.errors import MisuseError
from dafka.spark.confluent import avro_values
from dafka.spark.confluent.avro_reading import UnevenError
from dafka.spark.confluent.avro_types import arrow_of, plain
from dafka.spark.confluent.avro_values import schema_of
from dafka.spark.confluent.avro_writing import joined, varints, writing
from tests.support.avro_schemas import LONGS, records


def schema(kind):
    described = {"type": "record", "name": "R", "fields": [{"name": "f", "type": kind}]}
    return schema_of(json.dumps(described))


@given(st.data())
def test_what_is_written_are_fastavros_octets(data):
    described, values = data.draw(records())
    found = schema_of(json.dumps(described))
    rows = data.draw(st.lists(st.none() | values, max_size=8))
    column = pa.array([plain(found.kind, row) for row in rows], arrow_of(found.kind))
    begin = data.draw(st.integers(0, len(rows)))
    valid = np.array([row is not None for row in rows[begin:]], bool)
    pieces = writing(found.kind)(column.slice(begin).drop_null())
    expected = [row and b"head" + avro_values.written(row, found) for row in rows[begin:]]
    assert joined(b"head", pieces, valid).to_pylist() == expected


@given(st.lists(LONGS))
def test_integers_are_those_of_the_specification(numbers):
    piece = varints(np.array(numbers, np.int64))
    expected = [avro_values.written({"f": number}, schema("long")) for number in numbers]
    assert piece.octets.tobytes() == b"".join(expected)
    assert piece.length.tolist() == [len(one) for one in expected]


def test_a_value_that_its_schema_has_not_is_named():
    with pytest.raises(MisuseError, match=r"value\.f is null"):
        writing(schema("long").kind)(pa.array([{"f": None}], arrow_of(schema("long").kind)))
    enum = schema({"type": "enum", "name": "E", "symbols": ["A"]})
    with pytest.raises(MisuseError, match=r"value\.f is 'B'"):
        writing(enum.kind)(pa.array([{"f": "B"}], arrow_of(enum.kind)))
    fixed = schema({"type": "fixed", "name": "F", "size": 2})
    with pytest.raises(MisuseError, match=r"value\.f has not the 2 bytes"):
        writing(fixed.kind)(pa.array([{"f": b"abc"}], arrow_of(fixed.kind)))


def test_arrays_are_left_to_fastavro():
    with pytest.raises(UnevenError):
        writing(schema({"type": "array", "items": "long"}).kind)
