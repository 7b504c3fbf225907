from __future__ import annotations

import json

import pytest

from dafka.schemas.avro_schema import check, obstacles


def record(*fields):
    return json.dumps({"type": "record", "name": "Order", "fields": list(fields)})


ID = {"name": "id", "type": "long"}
NOTE = {"name": "note", "type": "string"}
NOTE_OR_NOT = {"name": "note", "type": ["null", "string"], "default": None}


def test_good_schemas_pass():
    check(record(ID, NOTE_OR_NOT), ())
    check('"string"', ())
    check(record({"name": "next", "type": ["null", "Order"], "default": None}), ())
    used = json.dumps({"type": "record", "name": "Item", "fields": [ID]})
    check(record({"name": "item", "type": "Item"}), (("Item", used),))


@pytest.mark.parametrize(
    "text",
    [
        *("{}", "[1]", "3", '"nothing"', '{"type": "record"}', record({"name": "item"})),
        record({"name": "item", "type": "Item"}),
        "[" * 5_000 + "]" * 5_000,
    ],
)
def test_what_is_no_schema_is_refused(text):
    with pytest.raises(ValueError):  # noqa: PT011 - the words are the libraries'
        check(text, ())


@pytest.mark.parametrize(
    ("reader", "writer", "reads"),
    [
        (record(ID), record(ID, NOTE), True),
        (record(ID, NOTE_OR_NOT), record(ID), True),
        (record(ID, NOTE), record(ID), False),
        ('"long"', '"int"', True),
        ('"int"', '"long"', False),
        ('["null", "int"]', '"int"', True),
        ('"int"', '["null", "int"]', False),
        (
            '{"type": "enum", "name": "E", "symbols": ["A"]}',
            '{"type": "enum", "name": "E", "symbols": ["A", "B"]}',
            False,
        ),
    ],
)
def test_who_reads_what(reader, writer, reads):
    assert bool(obstacles((reader, ()), (writer, ()))) is not reads
