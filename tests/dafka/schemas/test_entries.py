from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dafka.schemas.entries import (
    ConfigKey,
    ModeKey,
    Primary,
    PrimaryKey,
    Reference,
    Schema,
    SchemaEntry,
    SchemaKey,
    Stamp,
    Version,
    VersionKey,
    decode,
    encode,
)

ENTRIES = [
    (SchemaKey(7), Schema("AVRO", '"int"', (Reference("a", "b", 1),))),
    (SchemaKey(8), Schema("PROTOBUF", "message A {}", (), "EgMKAUE=")),
    (VersionKey("a-value", 1), Version(7, deleted=True)),
    (ConfigKey(None), "FULL"),
    (ModeKey("a-value"), "READONLY"),
    (PrimaryKey(), Primary("cluster-1", "AB")),
]


@pytest.mark.parametrize(("key", "value"), [*ENTRIES, *((key, None) for key, _ in ENTRIES)])
def test_what_is_written_is_read_back(key, value):
    entry = SchemaEntry(key, Stamp(2, 3), value)
    assert decode(*encode(entry)) == entry


@given(st.binary() | st.none(), st.binary() | st.none())
def test_what_is_no_record_of_a_registry_is_refused(key, value):
    with pytest.raises(ValueError):  # noqa: PT011 - whatever the reason
        decode(key, value)


@pytest.mark.parametrize("key", [b"[]", b'{"keytype": "NO"}', b'{"keytype": "SCHEMA", "id": ""}'])
def test_another_key_is_refused(key):
    with pytest.raises(ValueError, match="not a record of _schemas"):
        decode(key, b'{"stamp": [1, 1], "id": 1}')


def test_schemas_that_differ_in_white_space_and_order_of_keys_are_the_same():
    one = Schema("JSON", '{"a": 1,  "b": [1, 2]}')
    assert one.identity() == Schema("JSON", '{"b":[1,2],"a":1}').identity()
    assert one.identity() != Schema("JSON", '{"b":[2,1],"a":1}').identity()


def test_schemas_of_protobuf_are_the_same_if_they_are_compiled_to_the_same():
    one = Schema("PROTOBUF", "message A {}", (), "EgMKAUE=")
    assert one.identity() == Schema("PROTOBUF", "message  A {}", (), "EgMKAUE=").identity()
    assert one.identity() != Schema("PROTOBUF", "message A {}", (), "EgMKAUI=").identity()


def test_the_order_of_references_and_their_repetition_make_no_other_schema():
    a, b = Reference("a", "a", 1), Reference("b", "b", 1)
    assert Schema("JSON", "{}", (a, b)).identity() == Schema("JSON", "{}", (b, a, b)).identity()
    assert Schema("JSON", "{}", (a, b)).identity() != Schema("JSON", "{}", (a,)).identity()


@pytest.mark.parametrize("compiled", [None, 3, "not base64", "EgMKAUE"])
def test_a_schema_of_protobuf_without_its_descriptor_is_refused(compiled):
    _, value = encode(SchemaEntry(SchemaKey(8), Stamp(2, 3), ENTRIES[1][1]))
    says = {**json.loads(value), "compiled": compiled}
    with pytest.raises(ValueError):  # noqa: PT011 - whatever the reason
        decode(b'{"keytype": "SCHEMA", "id": 8}', json.dumps(says).encode())


def test_text_that_no_answer_could_carry_is_refused():
    key, value = encode(SchemaEntry(VersionKey("a\ud800", 1), Stamp(2, 3), Version(1)))
    with pytest.raises(ValueError, match="surrogates"):
        decode(key, value)


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        ('"int"', '{"type": "int"}', True),
        ('"int"', '{"type": {"type": "int"}}', True),
        ('{"type": "array", "items": "int"}', '{"type": "array", "items": {"type": "int"}}', True),
        ('{"type": "map", "values": "int"}', '{"type": "map", "values": {"type": "int"}}', True),
        ('["null", "int"]', '[{"type": "null"}, "int"]', True),
        ('"int"', '{"type": "int", "logicalType": "date"}', False),
        ('"int"', '{"type": "int", "name": "a", "doc": "b"}', True),
        ('{"type": "map", "values": "int"}', '{"type": "map", "values": "int", "doc": ""}', True),
        (
            '{"type": "enum", "name": "a", "symbols": []}',
            '{"type": "enum", "name": "b", "symbols": []}',
            False,
        ),
        (
            '{"type": "record", "name": "R", "fields": [{"name": "a", "type": "int"}]}',
            '{"type": "record", "name": "R", "fields": [{"name": "a", "type": {"type": "int"}}]}',
            True,
        ),
        (
            '{"name": "a", "default": {"type": "int"}}',
            '{"name": "a", "default": "int"}',
            False,
        ),
    ],
)
def test_which_ways_of_writing_mean_one_schema_of_avros(one, other, same):
    assert (Schema("AVRO", one).identity() == Schema("AVRO", other).identity()) == same
    assert Schema("JSON", one).identity() != Schema("JSON", other).identity()
