"""Reading schemas, versions and lists of them."""

from __future__ import annotations

from tests.support.confluent_cases.case import ANY, INT, LONG, TEXT, Case

A, B, C = (f"POST /subjects/{name}/versions" for name in "abc")
INVALID = (
    "The specified version '{}' is not a valid version id."
    ' Allowed values are between [1, 2^31-1] and the string "latest"'
)
THREE = [
    Case("PUT /config", {"compatibility": "NONE"}),
    Case(A, INT, 200, {"id": 1}),
    Case(A, LONG, 200, {"id": 2}),
    Case(B, INT, 200, {"id": 1}),
    Case(C, TEXT, 200, {"id": 3}),
]
A1, A2 = ({"subject": "a", "version": n, "id": n, **text} for n, text in ((1, INT), (2, LONG)))
B1 = {"subject": "b", "version": 1, "id": 1, **INT}
C1 = {"subject": "c", "version": 1, "id": 3, **TEXT}

SEQUENCES = {
    "a version is read by its number or as the latest": [
        *THREE,
        Case("GET /subjects/a/versions/1", None, 200, A1),
        Case("GET /subjects/a/versions/2", None, 200, A2),
        Case("GET /subjects/a/versions/latest", None, 200, A2),
        Case("GET /subjects/a/versions/LATEST", None, 200, A2),
        Case("GET /subjects/a/versions/-1", None, 200, A2),
        Case("GET /subjects/a/versions/1/schema", None, 200, "int"),
        Case("GET /subjects/a/versions/latest/schema", None, 200, "long"),
        Case("GET /subjects/a/versions/3", None, 40402, "Version 3 not found."),
        Case("GET /subjects/a/versions/3/schema", None, 40402, "Version 3 not found."),
        Case("GET /subjects/z/versions/1", None, 40401, "Subject 'z' not found."),
        Case("GET /subjects/z/versions/latest", None, 40401, "Subject 'z' not found."),
        Case("GET /subjects/z/versions", None, 40401, "Subject 'z' not found."),
        Case("GET /subjects/a/versions/0", None, 42202, INVALID.format(0)),
        Case("GET /subjects/a/versions/-2", None, 42202, INVALID.format(-2)),
        Case("GET /subjects/a/versions/first", None, 42202, INVALID.format("first")),
        Case("GET /subjects/a/versions/2147483648", None, 42202, INVALID.format(2147483648)),
        Case("GET /subjects/z/versions/earliest", None, 42202, INVALID.format("earliest")),
    ],
    "a schema is read by its id": [
        *THREE,
        Case("GET /schemas/ids/1", None, 200, INT),
        Case("GET /schemas/ids/1?subject=a", None, 200, ANY),
        Case("GET /schemas/ids/1/schema", None, 200, "int"),
        Case("GET /schemas/ids/9", None, 40403, "Schema 9 not found"),
        Case("GET /schemas/ids/9/schema", None, 40403, "Schema 9 not found"),
        Case("GET /schemas/ids/9/subjects", None, 40403, ANY),
        Case("GET /schemas/ids/9/versions", None, 40403, ANY),
        Case("GET /schemas/ids/one", None, 404, "HTTP 404 Not Found"),
        Case("GET /schemas/ids/1?fetchMaxId=true", None, 200, {**INT, "maxId": 3}),
        Case("GET /schemas/ids/1?format=unheard", None, 200, INT),
    ],
    "subjects and versions of an id": [
        *THREE,
        Case("GET /schemas/ids/1/subjects", None, 200, ["a", "b"]),
        Case("GET /schemas/ids/1/subjects?limit=1", None, 200, ["a"]),
        Case("GET /schemas/ids/1/subjects?offset=1", None, 200, ["b"]),
        Case(
            "GET /schemas/ids/1/versions",
            None,
            200,
            [{"subject": "a", "version": 1}, {"subject": "b", "version": 1}],
        ),
        Case("DELETE /subjects/a", None, 200, [1, 2]),
        Case("GET /schemas/ids/1/subjects", None, 200, ["b"]),
        Case("GET /schemas/ids/1/subjects?deleted=true", None, 200, ["a", "b"]),
        Case("GET /schemas/ids/2/subjects", None, 200, []),
        Case("GET /schemas/ids/2/versions", None, 200, []),
        Case(
            "GET /schemas/ids/2/versions?deleted=true", None, 200, [{"subject": "a", "version": 2}]
        ),
        Case("GET /schemas/ids/2", None, 200, LONG),
    ],
    "subjects are listed in parts": [
        *THREE,
        Case("DELETE /subjects/b", None, 200, [1]),
        Case("GET /subjects", None, 200, ["a", "c"]),
        Case("GET /subjects?deleted=true", None, 200, ["a", "b", "c"]),
        Case("GET /subjects?deletedOnly=true", None, 200, ["b"]),
        Case("GET /subjects?deletedOnly=true&deleted=true", None, 200, ["b"]),
        Case("GET /subjects?subjectPrefix=c", None, 200, ["c"]),
        Case("GET /subjects?subjectPrefix=z", None, 200, []),
        Case("GET /subjects?subjectPrefix=:*:", None, 200, ["a", "c"]),
        Case("GET /subjects?limit=1", None, 200, ["a"]),
        Case("GET /subjects?offset=1&limit=1", None, 200, ["c"]),
        Case("GET /subjects?offset=5", None, 200, []),
        Case("GET /subjects?limit=-1", None, 200, ["a", "c"]),
        Case("GET /subjects?limit=x", None, 404, ANY),
    ],
    "versions are listed in parts": [
        *THREE,
        Case("DELETE /subjects/a/versions/1", None, 200, 1),
        Case("GET /subjects/a/versions", None, 200, [2]),
        Case("GET /subjects/a/versions?deleted=true", None, 200, [1, 2]),
        Case("GET /subjects/a/versions?deletedOnly=true", None, 200, [1]),
        Case("GET /subjects/a/versions?deleted=true&offset=1", None, 200, [2]),
        Case("GET /subjects/a/versions?deleted=true&limit=1", None, 200, [1]),
        Case("GET /subjects/b/versions?deletedOnly=true", None, 200, []),
        Case("GET /subjects/z/versions?deleted=true", None, 40401, "Subject 'z' not found."),
        Case("GET /subjects/a/versions/1?deleted=true", None, 200, A1),
        Case("GET /subjects/a/versions/1", None, 40402, "Version 1 not found."),
    ],
    "the latest version is one that is there": [
        *THREE,
        Case("DELETE /subjects/a/versions/2", None, 200, 2),
        Case("GET /subjects/a/versions/latest", None, 200, A1),
        Case("GET /subjects/a/versions/latest?deleted=true", None, 200, A1),
        Case("DELETE /subjects/a/versions/1", None, 200, 1),
        Case("GET /subjects/a/versions/latest", None, 40401, "Subject 'a' not found."),
        Case("GET /subjects/a/versions/latest?deleted=true", None, 40402, "Version -1 not found."),
    ],
    "all schemas are listed in parts": [
        *THREE,
        Case("GET /schemas", None, 200, [A1, A2, B1, C1]),
        Case("GET /schemas?latestOnly=true", None, 200, [A2, B1, C1]),
        Case("GET /schemas?subjectPrefix=a", None, 200, [A1, A2]),
        Case("GET /schemas?subjectPrefix=:*:b", None, 200, [B1]),
        Case("GET /schemas?offset=1&limit=2", None, 200, [A2, B1]),
        Case("DELETE /subjects/a/versions/2", None, 200, 2),
        Case("GET /schemas", None, 200, [A1, B1, C1]),
        Case("GET /schemas?latestOnly=true", None, 200, [A1, B1, C1]),
        Case("GET /schemas?deleted=true", None, 200, [A1, A2, B1, C1]),
        Case("GET /schemas?deleted=true&latestOnly=true", None, 200, [A2, B1, C1]),
    ],
    "what there is besides": [
        Case("GET /", None, 200, {}),
        Case("GET /schemas/types", None, 200, ["AVRO", "JSON", "PROTOBUF"]),
        Case("GET /contexts", None, 200, ["."]),
    ],
}
