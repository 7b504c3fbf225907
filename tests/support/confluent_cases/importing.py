"""The mode in which another registry is copied."""

from __future__ import annotations

from tests.support.confluent_cases.case import ANY, INT, ITEM, LONG, ORDER, TEXT, Case

A, B = (f"POST /subjects/{name}/versions" for name in "ab")
IMPORT, READWRITE = {"mode": "IMPORT"}, {"mode": "READWRITE"}

SEQUENCES = {
    "ids and versions are those that are said": [
        Case("PUT /mode", IMPORT, 200, IMPORT),
        Case(A, {**INT, "id": 100, "version": 4}, 200, {"id": 100}),
        Case(A, {**TEXT, "id": 200, "version": 2}, 200, {"id": 200}),
        Case("GET /subjects/a/versions", None, 200, [2, 4]),
        Case("GET /subjects/a/versions/latest", None, 200, ANY),
        Case("GET /schemas/ids/200", None, 200, TEXT),
        Case(A, {**INT, "id": 100, "version": 4}, 200, {"id": 100}),
        Case(A, {**LONG, "id": 300}, 200, {"id": 300}),
        Case("GET /subjects/a/versions", None, 200, [2, 4, 5]),
        Case(B, {**INT, "id": 100, "version": 1}, 200, {"id": 100}),
    ],
    "without an id nothing is registered": [
        Case("PUT /mode", IMPORT, 200, IMPORT),
        Case(A, INT, 42205, ANY),
        Case(A, {**INT, "version": 1}, 42205, ANY),
        Case("GET /subjects", None, 200, []),
    ],
    "an id keeps its meaning": [
        Case("PUT /mode", IMPORT, 200, IMPORT),
        Case(A, {**INT, "id": 100, "version": 1}, 200, {"id": 100}),
        Case(A, {**TEXT, "id": 100, "version": 2}, 42205, ANY),
        Case(
            A,
            {**TEXT, "id": 101, "version": 1},
            200,
            {"id": 101},
            ours=(42205, ANY),
            why="an import gives a version another schema",
        ),
    ],
    "one schema may come with two ids": [
        Case("PUT /mode", IMPORT, 200, IMPORT),
        Case(A, {**INT, "id": 100, "version": 1}, 200, {"id": 100}),
        Case(A, {**INT, "id": 101, "version": 2}, 200, {"id": 101}),
        Case(B, {**INT, "id": 102, "version": 1}, 200, {"id": 102}),
        Case("GET /schemas/ids/101", None, 200, INT),
        Case("GET /subjects/a/versions", None, 200, [1, 2]),
    ],
    "what is there hinders an import": [
        Case(A, INT, 200, {"id": 1}),
        Case("PUT /mode", IMPORT, 42205, "Cannot import since found existing subjects"),
        Case("PUT /mode/a", IMPORT, 42205, "Cannot import since found existing subjects"),
        Case("PUT /mode/b", IMPORT, 200, IMPORT),
        Case("PUT /mode/a?force=true", IMPORT, 200, IMPORT),
        Case("PUT /mode?force=true", IMPORT, 200, IMPORT),
        Case("GET /subjects", None, 200, ["a"]),
    ],
    "within an import a subject may be imported": [
        Case(A, INT, 200, {"id": 1}),
        Case("PUT /mode?force=true", IMPORT, 200, IMPORT),
        Case("PUT /mode/a", IMPORT, 200, IMPORT),
    ],
    "an import does away with what was deleted softly": [
        Case(A, INT, 200, {"id": 1}),
        Case("DELETE /subjects/a", None, 200, [1]),
        Case("PUT /mode", IMPORT, 200, IMPORT),
        Case("GET /subjects?deleted=true", None, 200, []),
        Case(A, {**INT, "id": 100, "version": 1}, 200, {"id": 100}),
    ],
    "it does so for one subject": [
        Case(A, INT, 200, {"id": 1}),
        Case(B, INT, 200, {"id": 1}),
        Case("DELETE /subjects/a", None, 200, [1]),
        Case("PUT /mode/a", IMPORT, 200, IMPORT),
        Case("GET /subjects?deleted=true", None, 200, ["b"]),
    ],
    "unless somebody uses it": [
        Case("POST /subjects/item/versions", ITEM, 200, {"id": 1}),
        Case("POST /subjects/order/versions", ORDER, 200, {"id": 2}),
        Case("DELETE /subjects/order", None, 200, [1]),
        Case("DELETE /subjects/item", None, 200, [1]),
        Case("PUT /mode/item", IMPORT, 42206, ANY),
    ],
    "afterwards clients register as ever": [
        Case("PUT /mode", IMPORT, 200, IMPORT),
        Case(A, {**INT, "id": 100, "version": 1}, 200, {"id": 100}),
        Case("PUT /mode", READWRITE, 200, READWRITE),
        Case(A, INT, 200, {"id": 100}),
        Case(A, {**LONG, "id": 7}, 42205, ANY),
        Case(A, LONG, 200, ANY),
        Case("GET /subjects/a/versions", None, 200, [1, 2]),
    ],
    "incompatible schemas are taken in": [
        Case("PUT /mode", IMPORT, 200, IMPORT),
        Case(A, {**INT, "id": 1, "version": 1}, 200, {"id": 1}),
        Case(A, {**TEXT, "id": 2, "version": 2}, 200, {"id": 2}),
    ],
}
