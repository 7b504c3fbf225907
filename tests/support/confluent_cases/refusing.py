"""What HTTP says: types, methods, paths, and what is no JSON."""

from __future__ import annotations

from tests.support.confluent_cases.case import ANY, INT, Case

A = "POST /subjects/a/versions"
JSON = b'{"schema": "\\"int\\""}'


def typed(content_type: str) -> tuple[tuple[str, str], ...]:
    return (("content-type", content_type),)


SEQUENCES = {
    "types of what is sent": [
        Case(A, JSON, 200, {"id": 1}, headers=typed("application/vnd.schemaregistry.v1+json")),
        Case(A, JSON, 200, {"id": 1}, headers=typed("application/vnd.schemaregistry+json")),
        Case(A, JSON, 200, {"id": 1}, headers=typed("application/json")),
        Case(A, JSON, 200, {"id": 1}, headers=typed("application/json; charset=utf-8")),
        Case(A, JSON, 200, {"id": 1}, headers=typed("application/octet-stream")),
        Case(A, JSON, 415, ANY, headers=typed("text/html")),
        Case(A, JSON, 415, ANY, headers=typed("application/xml")),
    ],
    "types of what is answered": [
        Case("GET /subjects", None, 200, [], headers=(("accept", "*/*"),)),
        Case("GET /subjects", None, 200, [], headers=(("accept", "application/json"),)),
        Case(
            "GET /subjects",
            None,
            406,
            "HTTP 406 Not Acceptable",
            ours=(200, []),
            why="`Accept`",
            headers=(("accept", "text/html"),),
        ),
    ],
    "what is no JSON": [
        Case(A, b"{", 400, ANY),
        Case(A, b"schema", 400, ANY),
        Case("PUT /config", b"NONE", 400, ANY),
    ],
    "paths and methods": [
        Case("GET /unheard", None, 404, "HTTP 404 Not Found"),
        Case("GET /subjects/a/unheard", None, 404, "HTTP 404 Not Found"),
        Case("GET /schemas/ids", None, 404, "HTTP 404 Not Found"),
        Case("PUT /subjects", INT, 405, "HTTP 405 Method Not Allowed"),
        Case("DELETE /subjects", None, 405, "HTTP 405 Method Not Allowed"),
        Case("POST /schemas/ids/1", INT, 405, "HTTP 405 Method Not Allowed"),
        Case("POST /config", {"compatibility": "NONE"}, 405, "HTTP 405 Method Not Allowed"),
        Case("GET /compatibility/subjects/a/versions", None, 405, ANY),
    ],
    "contexts": [
        Case(
            "POST /subjects/:.other:a/versions",
            INT,
            200,
            {"id": 1},
            ours=(42208, ANY),
            why="contexts",
        ),
        Case(
            "PUT /config/:.other:",
            {"compatibility": "FULL"},
            200,
            {"compatibility": "FULL"},
            ours=(42208, ANY),
            why="contexts",
        ),
        Case(
            "PUT /mode/:.other:a",
            {"mode": "READONLY"},
            200,
            {"mode": "READONLY"},
            ours=(42208, ANY),
            why="contexts",
        ),
        Case("GET /subjects/:.other:b/versions", None, 40401, ANY),
        Case("GET /subjects?subjectPrefix=:.other:", None, 200, ANY),
    ],
    "what the registry of Confluent Platform has besides": [
        Case("GET /v1/metadata/id", None, 200, ANY, ours=(404, ANY), why="unknown paths"),
        Case("GET /v1/metadata/version", None, 200, ANY, ours=(404, ANY), why="unknown paths"),
        Case("GET /subjects/a/metadata", None, 40401, ANY, ours=(404, ANY), why="unknown paths"),
    ],
}
