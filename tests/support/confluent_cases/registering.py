"""Registering and looking up."""

from __future__ import annotations

from tests.support.confluent_cases.case import (
    ANY,
    F_AND_G,
    INT,
    ITEM,
    LONG,
    NOTE,
    ORDER,
    TEXT,
    Case,
    F,
    record,
    reference,
    schema,
)

A, B = "POST /subjects/a/versions", "POST /subjects/b/versions"
LOOK = "POST /subjects/a"
NONE = {"compatibility": "NONE"}

SPACED = '{ "name": "R",  "type": "record",\n "fields": [{"type": "string", "name": "f"}] }'

SEQUENCES = {
    "ids count schemas and versions count registrations": [
        Case("GET /subjects", None, 200, []),
        Case("PUT /config", NONE, 200, NONE),
        Case(A, INT, 200, {"id": 1}),
        Case(A, TEXT, 200, {"id": 2}),
        Case("GET /subjects/a/versions", None, 200, [1, 2]),
        Case(A, INT, 200, {"id": 1}),
        Case("GET /subjects/a/versions", None, 200, [1, 2]),
        Case(B, TEXT, 200, {"id": 2}),
        Case("GET /subjects/b/versions", None, 200, [1]),
        Case("GET /subjects", None, 200, ["a", "b"]),
    ],
    "a schema of another language is another schema": [
        Case("PUT /config", NONE, 200, NONE),
        Case(A, schema('{"type": "string"}'), 200, {"id": 1}),
        Case(A, schema('{"type": "string"}', "JSON"), 200, {"id": 2}),
        Case("GET /subjects/a/versions", None, 200, [1, 2]),
        Case("GET /schemas/ids/2", None, 200, schema('{"type": "string"}', "JSON")),
    ],
    "white space and the order of keys make no other schema": [
        Case(f"{A}?normalize=true", schema(F), 200, {"id": 1}),
        Case(f"{A}?normalize=true", schema(SPACED), 200, {"id": 1}),
        Case(f"{LOOK}?normalize=true", schema(SPACED), 200, ANY),
        Case("GET /subjects/a/versions", None, 200, [1]),
    ],
    "a plain type is its name": [
        Case(A, schema('{"type": "string"}'), 200, {"id": 1}),
        Case(A, TEXT, 200, {"id": 1}),
        Case(B, schema('{"type": "string"}'), 200, {"id": 1}),
    ],
    "a lookup says where a schema is": [
        Case(LOOK, INT, 40401, "Subject 'a' not found."),
        Case(A, INT, 200, {"id": 1}),
        Case(LOOK, INT, 200, {"subject": "a", "version": 1, "id": 1, **INT}),
        Case(LOOK, LONG, 40403, "Schema not found"),
        Case("POST /subjects/b", INT, 40401, "Subject 'b' not found."),
        Case(LOOK, schema('"unheard"'), 42201, ANY),
    ],
    "a lookup finds what is deleted softly if it is to": [
        Case(A, INT, 200, {"id": 1}),
        Case(A, LONG, 200, {"id": 2}),
        Case("DELETE /subjects/a/versions/1", None, 200, 1),
        Case(LOOK, INT, 40403, "Schema not found"),
        Case(f"{LOOK}?deleted=true", INT, 200, {"subject": "a", "version": 1, "id": 1, **INT}),
        Case("PUT /config", NONE, 200, NONE),
        Case(A, INT, 200, {"id": 1}),
        Case(f"{LOOK}?deleted=true", INT, 200, {"subject": "a", "version": 3, "id": 1, **INT}),
        Case(LOOK, INT, 200, {"subject": "a", "version": 3, "id": 1, **INT}),
    ],
    "what is no schema is refused": [
        Case(A, schema('"unheard"'), 42201, ANY),
        Case(A, schema("{"), 42201, ANY),
        Case(A, schema(record(("f", "str"))), 42201, ANY),
        Case(A, schema(record(("f", "int"), ("f", "int"))), 42201, ANY),
        Case(A, schema({"type": "objekt"}, "JSON"), 42201, ANY),
        Case(A, schema("int", "THRIFT"), 42201, ANY),
        Case(A, schema(""), 42201, ANY),
        Case(A, {}, 42201, ANY),
        Case("GET /subjects", None, 200, []),
    ],
    "an empty schema means the latest one": [
        Case(A, INT, 200, {"id": 1}),
        Case(
            A, schema(""), 200, {"id": 1}, ours=(42201, ANY), why="a registration without a schema"
        ),
    ],
    "a schema may use others": [
        Case("POST /subjects/order/versions", ORDER, 42201, ANY),
        Case("POST /subjects/item/versions", ITEM, 200, {"id": 1}),
        Case("POST /subjects/order/versions", ORDER, 200, {"id": 2}),
        Case("GET /schemas/ids/2", None, 200, ORDER),
        Case(
            "GET /subjects/order/versions/1",
            None,
            200,
            {"subject": "order", "version": 1, "id": 2, **ORDER},
        ),
        Case("GET /subjects/item/versions/1/referencedby", None, 200, [2]),
        Case("GET /subjects/item/versions/latest/referencedby", None, 200, [2]),
        Case("GET /subjects/item/versions/2/referencedby", None, 40402, "Version 2 not found."),
        Case("GET /subjects/order/versions/1/referencedby", None, 200, []),
        Case("POST /subjects/order", ORDER, 200, ANY),
        Case("GET /subjects/item/versions/1/referencedby?offset=1", None, 200, []),
        Case("GET /subjects/item/versions/1/referencedby?limit=1", None, 200, [2]),
    ],
    "a reference leads somewhere": [
        Case("POST /subjects/item/versions", ITEM, 200, {"id": 1}),
        Case(A, {**ORDER, "references": [reference("Item", "item", 2)]}, 42201, ANY),
        Case(A, {**ORDER, "references": [reference("Item", "none", 1)]}, 42201, ANY),
        Case(A, {**ORDER, "references": []}, 42201, ANY),
    ],
    "a version may be said if it is the next one": [
        Case(A, {**INT, "version": 2}, 42201, ANY),
        Case(A, {**INT, "version": 1}, 200, {"id": 1}),
        Case(A, {**LONG, "version": 2}, 200, {"id": 2}),
        Case(A, {**schema('"double"'), "version": 2}, 42201, ANY),
        Case("GET /subjects/a/versions", None, 200, [1, 2]),
    ],
    "an id may be said in an import only": [
        Case(A, {**INT, "id": 9}, 42205, ANY),
        Case(A, {**INT, "id": 9, "version": 1}, 42205, ANY),
        Case(A, {**INT, "id": -1}, 200, {"id": 1}),
    ],
    "a subject is no control character and none of two words": [
        Case("POST /subjects/a%0Ab/versions", INT, 42208, ANY),
        Case("POST /subjects/%09/versions", INT, 42208, ANY),
        Case("POST /subjects/__GLOBAL/versions", INT, 42208, ANY),
        Case("POST /subjects/__EMPTY/versions", INT, 42208, ANY),
        Case("POST /subjects/a%2Fb/versions", INT, 200, {"id": 1}),
        Case("POST /subjects/a%20b%25/versions", INT, 200, {"id": 1}),
        Case("GET /subjects", None, 200, ["a b%", "a/b"]),
    ],
    "a schema of JSON Schema has its type in answers": [
        Case(A, NOTE, 200, {"id": 1}),
        Case("GET /schemas/ids/1", None, 200, NOTE),
        Case(LOOK, NOTE, 200, {"subject": "a", "version": 1, "id": 1, **NOTE}),
        Case("GET /subjects/a/versions/1", None, 200, ANY),
    ],
    "metadata and rules": [
        Case(
            A,
            {**INT, "metadata": {"properties": {"owner": "me"}}},
            200,
            {"id": 1},
            ours=(42201, ANY),
            why="`metadata`, `ruleSet`",
        ),
        Case(A, {**INT, "metadata": None, "ruleSet": None}, 200, {"id": 1}),
        Case(A, {**INT, "unheard": 1}, 200, {"id": 1}),
    ],
    "a registration may be forced": [
        Case(A, INT, 200, {"id": 1}),
        Case(f"{A}?force=true", TEXT, 200, {"id": 2}, ours=(409, ANY), why="`force`"),
    ],
    "a field with a default may be added": [
        Case(A, schema(F), 200, {"id": 1}),
        Case(A, schema(F_AND_G), 200, {"id": 2}),
    ],
}
