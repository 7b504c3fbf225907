"""Requests, ids, versions and settings."""

from __future__ import annotations

import json

from tests.support.confluent_cases.case import ANY, INT, LONG, TEXT, Case, record, schema

A, CHECK = "POST /subjects/a/versions", "POST /compatibility/subjects/a/versions/latest"
YES, NO = {"is_compatible": True}, {"is_compatible": False}

SHAPE = "a body of another"
MESSAGES = "a check tells its messages"
SUBJECTS = "`includeSubjects`"
GONE = "a schema that is deleted for good"
ACCEPT = "`Accept` other than JSON"
UNKNOWN_MODE = "the mode of a subject"

ONE, OTHER = ({"schema": json.dumps({"type": "string", "is": n})} for n in ("one", "other"))
TWO, THREE = (record(("f", "string"), (name, "string")) for name in ("g", "h"))
F = record(("f", "string"))
NAMED = {"schema": '{"type": "int", "name": "Named"}'}
COLOUR = schema({"type": "enum", "name": "Colour", "symbols": ["red", "blue"]})
UTF_16 = (("content-type", "application/vnd.schemaregistry.v1+json; charset=utf-16"),)
HTML = (("content-type", "text/html"),)
NO_A = "Subject 'a' not found."


def accepting(kinds: str) -> tuple[tuple[str, str], ...]:
    return (("accept", kinds),)


SEQUENCES = {
    "karapace: bodies": [
        *(
            Case(request, body, 422, ours=(42201, ANY), why=SHAPE)
            for request in (A, "POST /subjects/a")
            for body in ({}, {"shema": "x"}, "text", -1)
        ),
        Case(A, {"schema": ""}, 42201),
        Case(A, {"schema": '"string"', "more": 1}, 200, {"id": 1}),
        Case("POST /subjects/a", {"schema": '"string"', "more": 1}),
        Case(A, {"schema": '"string"', "schemaType": "AVROO"}, 422, ours=(42201, ANY), why=SHAPE),
        Case(
            CHECK, {"schema": '"string"', "schemaType": "AVROO"}, 422, ours=(42201, ANY), why=SHAPE
        ),
    ],
    "karapace: what is no schema of Avro's": [
        Case(A, {"schema": '{"type": "string"'}, 42201),
        Case(A, schema({"type": "enum", "name": "e"}), 42201),
        Case(A, schema({"type": "enum", "name": "e", "symbols": {}}), 42201),
        Case(A, schema(record(("a", "string"), ("a", "string", "x"))), 42201),
        Case(A, schema({**record(), "namespace": "no-name"}), 42201),
        Case(A, schema({**record(), "namespace": "a_name"}), 200, {"id": 1}),
        Case("GET /schemas/ids/1", None, 200, schema({**record(), "namespace": "a_name"})),
    ],
    "karapace: characters of subjects": [
        Case(f"POST /subjects/a{character}/versions", TEXT, 200, {"id": 1})
        for character in ("%22", "%7B", ":", "%7D", "'", "%2F")
    ],
    "karapace: a schema and its versions": [
        Case(A, ONE, 200, {"id": 1}),
        Case(A, OTHER, 200, {"id": 2}),
        Case("GET /schemas/ids/1/versions", None, 200, [{"subject": "a", "version": 1}]),
        Case("GET /subjects/a/versions", None, 200, [1, 2]),
        Case("DELETE /subjects/a/versions/1", None, 200, 1),
        Case("GET /schemas/ids/1", None, 200, ONE),
        Case("GET /schemas/ids/1/versions", None, 200, []),
        Case("GET /schemas/ids/2/versions", None, 200, [{"subject": "a", "version": 2}]),
        Case("DELETE /subjects/a", None, 200, [2]),
        Case("GET /subjects", None, 200, []),
        Case("GET /schemas/ids/2/versions", None, 200, []),
        Case(A, LONG, 200, {"id": 3}),
        Case("GET /subjects/a/versions", None, 200, [3]),
        Case("DELETE /subjects/a/versions/3", None, 200, 3),
        Case("GET /subjects/a/versions", None, 40401, NO_A),
        Case("GET /subjects/a/versions/latest", None, 40401, NO_A),
        Case(A, INT, 200, {"id": 4}),
        Case("GET /subjects/a/versions", None, 200, [4]),
    ],
    "karapace: the latest version is deleted, and the next": [
        Case(A, schema(TWO), 200, {"id": 1}),
        Case(A, schema(F), 200, {"id": 2}),
        Case("DELETE /subjects/a/versions/latest", None, 200, 2),
        Case("GET /schemas/ids/1/versions", None, 200, [{"subject": "a", "version": 1}]),
        Case("GET /schemas/ids/2/versions", None, 200, []),
        Case("DELETE /subjects/a/versions/latest", None, 200, 1),
        Case("GET /schemas/ids/1/versions", None, 200, []),
    ],
    "karapace: one schema under several subjects": [
        Case(A, schema(TWO), 200, {"id": 1}),
        Case("POST /subjects/b/versions", schema(TWO), 200, {"id": 1}),
        Case("PUT /config/c", {"compatibility": "NONE"}),
        Case("POST /subjects/c/versions", TEXT, 200, {"id": 2}),
        Case("POST /subjects/c/versions", schema(TWO), 200, {"id": 1}),
        Case("POST /subjects/c/versions", schema(THREE), 200, {"id": 3}),
        Case(
            "GET /schemas/ids/1/versions",
            None,
            200,
            [{"subject": subject, "version": n} for subject, n in (("a", 1), ("b", 1), ("c", 2))],
        ),
        Case("GET /subjects", None, 200, ["a", "b", "c"]),
        Case("GET /schemas/ids/1", None, 200, schema(TWO)),
        Case(
            "GET /schemas/ids/1?includeSubjects=True",
            None,
            200,
            {**schema(TWO), "subjects": ["a", "b", "c"]},
            ours=(200, schema(TWO)),
            why=SUBJECTS,
        ),
    ],
    "karapace: lists leave out what is deleted": [
        Case(A, schema(F)),
        Case("POST /subjects/b/versions", schema(F)),
        Case("GET /schemas", None, 200),
        Case("DELETE /subjects/b/versions/1", None, 200, 1),
        Case("GET /subjects", None, 200, ["a"]),
        Case("GET /subjects?deleted=true", None, 200, ["a", "b"]),
        Case("GET /schemas", None, 200, [{"subject": "a", "version": 1, "id": 1, **schema(F)}]),
    ],
    "karapace: what makes no other schema": [
        Case(A, NAMED, 200, {"id": 1}),
        Case("POST /subjects/a", INT, 200, {"subject": "a", "version": 1, "id": 1, **NAMED}),
        Case("POST /subjects/b/versions", schema('{"type": "string", "x": 1}', "JSON")),
        Case("POST /subjects/b", schema('{"x": 1, "type": "string"}', "JSON")),
    ],
    "karapace: versions": [
        Case(A, TEXT, 200, {"id": 1}),
        *(
            Case(f"GET /subjects/a/versions/{version}{more}", None, code)
            for more in ("", "/schema")
            for version, code in (("1", 200), ("latest", 200), ("-1", 200), ("2", 40402))
        ),
        *(
            Case(f"GET /subjects/a/versions/{version}{more}", None, 42202)
            for more in ("", "/schema")
            for version in ("0", "invalid")
        ),
        Case("GET /subjects/b/versions/1/schema", None, 40401),
        Case("POST /subjects/a", schema({"type": "nothing"}), 42201),
        Case("POST /subjects/b", TEXT, 40401),
        Case("POST /subjects/a", INT, 40403, "Schema not found"),
        Case("GET /schemas/ids/123456789", None, 40403),
        Case("GET /schemas/ids/invalid", None, 404),
    ],
    "karapace: a subject is deleted for good and comes again": [
        Case("DELETE /subjects/a", None, 40401, NO_A),
        Case("DELETE /subjects/a/versions/1", None, 40401, NO_A),
        Case(A, COLOUR, 200, {"id": 1}),
        Case("DELETE /subjects/a", None, 200, [1]),
        Case(A, COLOUR, 200, {"id": 1}),
        Case("DELETE /subjects/a", None, 200),
        Case("DELETE /subjects/a?permanent=true", None, 200),
        Case("DELETE /subjects/a", None, 40401, NO_A),
        Case("DELETE /subjects/a/versions/1", None, 40401, NO_A),
        Case("GET /subjects/a/versions", None, 40401, NO_A),
        Case(A, COLOUR, 200, {"id": 1}, ours=(200, {"id": 2}), why=GONE),
        Case("GET /subjects", None, 200, ["a"]),
    ],
    "karapace: a check and what it says": [
        Case(CHECK, TEXT, 40402, ours=(200, YES), why="a check against the latest version"),
        Case("POST /compatibility/subjects/a/versions/1", TEXT, 40402),
        Case(A, INT, 200, {"id": 1}),
        Case(CHECK, LONG, 200, YES),
        Case(
            CHECK,
            TEXT,
            200,
            {**NO, "messages": ["reader type: string not compatible with writer type: int"]},
            ours=(200, NO),
            why=MESSAGES,
        ),
        Case("DELETE /subjects/a/versions/1", None, 200, 1),
        Case("POST /compatibility/subjects/a/versions/1", TEXT, 40402),
        Case("DELETE /subjects/a/versions/1?permanent=true", None, 200, 1),
        Case("POST /compatibility/subjects/a/versions/1", TEXT, 40402),
    ],
    "karapace: levels": [
        Case("PUT /config", {"compatibility": "FULL"}, 200, {"compatibility": "FULL"}),
        Case("GET /config", None, 200, {"compatibilityLevel": "FULL"}),
        Case("GET /config/a", None, 40408),
        Case("PUT /config", {"compatibility": "NONE"}),
        Case("PUT /config", {"compatibility": "no"}, 42203),
        Case(A, TEXT),
        Case("GET /config/a", None, 40408),
        Case("GET /config/a?defaultToGlobal=false", None, 40408),
        Case("GET /config/a?defaultToGlobal=true", None, 200, {"compatibilityLevel": "NONE"}),
        Case("PUT /config/a", {"compatibility": "FULL"}, 200, {"compatibility": "FULL"}),
        Case("GET /config/a", None, 200, {"compatibilityLevel": "FULL"}),
        Case(
            "DELETE /config/a",
            None,
            200,
            {"compatibility": "NONE"},
            ours=(200, {"compatibilityLevel": "FULL"}),
            why="`DELETE /config/{subject}`",
        ),
        Case("GET /config/a", None, 40408),
        Case("PUT /config/b", {"compatibility": "FULL"}),
        Case("GET /subjects/b/versions", None, 40401),
        Case("GET /config/b", None, 200, {"compatibilityLevel": "FULL"}),
    ],
    "karapace: modes": [
        Case(A, TEXT),
        Case("GET /mode", None, 200, {"mode": "READWRITE"}),
        Case("GET /mode/a", None, 200, {"mode": "READWRITE"}, ours=(40409, ANY), why=UNKNOWN_MODE),
        Case("GET /mode/b", None, 40401, ours=(40409, ANY), why=UNKNOWN_MODE),
    ],
    "karapace: types of contents": [
        Case("PUT /config", {"compatibility": "NONE"}, 415, headers=HTML),
        Case("PUT /config", '{"compatibility": "FULL"}'.encode("utf-16"), 200, headers=UTF_16),
        *(
            Case("GET /subjects", None, 200, [], headers=accepting(kinds))
            for kinds in ("*", "*/*", "application/*", "*/any", "text/html, */*; q=.2")
        ),
        *(
            Case("GET /subjects", None, 406, ours=(200, []), why=ACCEPT, headers=accepting(kinds))
            for kinds in ("application/vnd.schemaregistry.v2+json", "text/*")
        ),
    ],
}
