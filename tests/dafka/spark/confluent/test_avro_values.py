from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dafka.errors import MisuseError
from dafka.spark.confluent.avro_types import NoSuchValueError
from dafka.spark.confluent.avro_values import read, schema_of, written
from tests.support.avro_schemas import records

LONG = schema_of('{"type": "record", "name": "R", "fields": [{"name": "n", "type": "long"}]}')


@given(st.data())
def test_what_is_written_is_read_again(data):
    described, values = data.draw(records(even=False))
    schema = schema_of(json.dumps(described))
    value = data.draw(values)
    assert read(written(value, schema), schema, schema) == value


@given(st.data())
def test_octets_are_a_value_or_none(data):
    described, _ = data.draw(records(even=False))
    schema = schema_of(json.dumps(described))
    octets = data.draw(st.binary(max_size=30))
    try:
        value = read(octets, schema, schema)
    except NoSuchValueError:
        return
    assert read(written(value, schema), schema, schema) == value


def test_a_value_that_does_not_fit_is_named():
    with pytest.raises(MisuseError, match="'many'"):
        written({"n": "many"}, LONG)


def test_schemas_use_others():
    used = '{"type": "record", "name": "a.Used", "fields": [{"name": "n", "type": "int"}]}'
    user = '{"type": "record", "name": "b.User", "fields": [{"name": "u", "type": "a.Used"}]}'
    schema = schema_of(user, (used,))
    assert read(written({"u": {"n": 1}}, schema), schema, schema) == {"u": {"n": 1}}


@pytest.mark.parametrize("text", ["", "7", '"a.Used"', '{"type": "record"}', "[[]]"])
def test_what_is_no_schema_is_said_to_be_none(text):
    with pytest.raises(MisuseError):
        schema_of(text)
