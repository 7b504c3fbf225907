from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st
from jsonschema import Draft7Validator

from dafka.schemas.json_schema import check, obstacles

OPEN = {"type": "object", "properties": {"id": {"type": "integer"}}, "required": ["id"]}
CLOSED = {**OPEN, "additionalProperties": False}
WIDER = {**CLOSED, "properties": {"id": {"type": "number"}, "note": {"type": "string"}}}


def dumped(schema):
    return json.dumps(schema), ()


@pytest.mark.parametrize(
    "schema", [{"type": "nothing"}, {"required": 3}, {"$ref": "#/definitions/a"}, 3, "a", None]
)
def test_what_is_no_schema_is_refused(schema):
    with pytest.raises(ValueError):  # noqa: PT011 - the words are the library's
        check(*dumped(schema))


def test_references_lead_to_what_is_used():
    check('{"$ref": "item.json"}', (("item.json", json.dumps(OPEN)),))
    with pytest.raises(ValueError, match=r"item\.json"):
        check('{"$ref": "item.json"}', ())


@pytest.mark.parametrize(
    ("reader", "writer", "reads"),
    [
        (WIDER, CLOSED, True),
        (CLOSED, WIDER, False),
        (OPEN, CLOSED, True),
        (CLOSED, OPEN, False),
        ({"type": "number"}, {"type": "integer"}, True),
        ({"type": "integer"}, {"type": "number"}, False),
        ({"enum": ["a", "b"]}, {"const": "a"}, True),
        ({"maximum": 3}, {"maximum": 4}, False),
        ({"minLength": 3}, {"minLength": 4}, True),
        ({"anyOf": [{"type": "null"}, {"type": "string"}]}, {"type": "string"}, True),
        ({"type": "string"}, {"anyOf": [{"type": "null"}, {"type": "string"}]}, False),
        ({"items": {"type": "string"}}, {"type": "array", "items": {"type": "integer"}}, False),
        ({"pattern": "a"}, {"pattern": "b"}, False),
        (True, OPEN, True),
        (False, OPEN, False),
    ],
)
def test_who_reads_what(reader, writer, reads):
    assert bool(obstacles(dumped(reader), dumped(writer))) is not reads


def test_a_schema_that_contains_itself_is_compared_once():
    tree = {"type": "object", "properties": {"next": {"$ref": "#"}}}
    assert not obstacles(dumped(tree), dumped({**tree, "title": "tree"}))


LEAVES = st.sampled_from(
    [
        *({}, {"type": "integer"}, {"type": "number", "maximum": 3}, {"type": "string"}),
        *({"enum": [1, "a"]}, {"const": 1}, {"type": ["null", "integer"], "minimum": 1}),
        *({"type": "string", "maxLength": 1}, True),
    ]
)
SCHEMAS = st.recursive(
    LEAVES,
    lambda inner: st.one_of(
        st.builds(lambda choices: {"anyOf": choices}, st.lists(inner, min_size=1, max_size=2)),
        st.builds(lambda item: {"type": "array", "items": item}, inner),
        st.fixed_dictionaries(
            {
                "type": st.just("object"),
                "properties": st.dictionaries(st.sampled_from("xy"), inner),
            },
            optional={
                "required": st.just(["x"]),
                "additionalProperties": st.booleans(),
            },
        ),
    ),
    max_leaves=4,
)
VALUES = st.sampled_from(
    [None, 1, 2, 5, 1.5, "", "a", "ab", True, {}, {"x": 1}, {"x": "a", "y": 5}, {"z": 1}, [], [1]]
)


@given(SCHEMAS, SCHEMAS, VALUES)
def test_what_is_called_readable_admits_whatever_the_writer_admits(reader, writer, value):
    if not obstacles(dumped(reader), dumped(writer)) and Draft7Validator(writer).is_valid(value):
        assert Draft7Validator(reader).is_valid(value)
