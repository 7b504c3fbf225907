"""Levels and modes, of all and of one subject."""

from __future__ import annotations

from tests.support.confluent_cases.case import ANY, INT, LONG, TEXT, Case

A = "POST /subjects/a/versions"
LEVELS = (
    "Invalid compatibility level. Valid values are none, backward, forward, full,"
    " backward_transitive, forward_transitive, and full_transitive"
)


def level(word: str) -> dict[str, str]:
    return {"compatibility": word}


def is_level(word: str) -> dict[str, str]:
    return {"compatibilityLevel": word}


def mode(word: str) -> dict[str, str]:
    return {"mode": word}


SEQUENCES = {
    "the level of all": [
        Case("GET /config", None, 200, is_level("BACKWARD")),
        *(
            case
            for word in (
                *("NONE", "BACKWARD", "BACKWARD_TRANSITIVE", "FORWARD", "FORWARD_TRANSITIVE"),
                *("FULL", "FULL_TRANSITIVE"),
            )
            for case in (
                Case("PUT /config", level(word), 200, level(word)),
                Case("GET /config", None, 200, is_level(word)),
            )
        ),
        Case("PUT /config", level("SOME"), 42203, LEVELS),
        Case("PUT /config", level(""), 42203, LEVELS),
        Case("DELETE /config", None, 200, is_level("FULL_TRANSITIVE")),
        Case("GET /config", None, 200, is_level("BACKWARD")),
    ],
    "the level of a subject": [
        Case(
            "GET /config/a",
            None,
            40408,
            "Subject 'a' does not have subject-level compatibility configured",
        ),
        Case("GET /config/a?defaultToGlobal=true", None, 200, is_level("BACKWARD")),
        Case("PUT /config/a", level("FORWARD"), 200, level("FORWARD")),
        Case("GET /config/a", None, 200, is_level("FORWARD")),
        Case("GET /config", None, 200, is_level("BACKWARD")),
        Case("GET /config/a?defaultToGlobal=true", None, 200, is_level("FORWARD")),
        Case("PUT /config/a", level("SOME"), 42203, LEVELS),
        Case("DELETE /config/a", None, 200, is_level("FORWARD")),
        Case("DELETE /config/a", None, 40401, "Subject 'a' not found."),
        Case("GET /config/a", None, 40408, ANY),
        Case("PUT /config", level("FULL"), 200, level("FULL")),
        Case("GET /config/a?defaultToGlobal=true", None, 200, is_level("FULL")),
        Case("PUT /config/__GLOBAL", level("FULL"), 42208, ANY),
        Case("PUT /config/a%0A", level("FULL"), 42208, ANY),
    ],
    "a subject's level goes before that of all": [
        Case("PUT /config", level("NONE")),
        Case(A, INT, 200, {"id": 1}),
        Case("PUT /config/a", level("BACKWARD")),
        Case(A, TEXT, 409, ANY),
        Case("DELETE /config/a", None, 200, is_level("BACKWARD")),
        Case(A, TEXT, 200, {"id": 2}),
    ],
    "other settings": [
        Case(
            "PUT /config",
            {"compatibility": "FULL", "normalize": True},
            200,
            {"compatibility": "FULL", "normalize": True},
        ),
        Case(
            "GET /config",
            None,
            200,
            {"compatibilityLevel": "FULL", "normalize": True},
            ours=(200, is_level("FULL")),
            why="`normalize`",
        ),
        Case("PUT /config", {"normalize": True}, 200, {"normalize": True}),
        Case(
            "PUT /config",
            {"normalize": False},
            200,
            {"normalize": False},
            ours=(42203, ANY),
            why="`normalize`",
        ),
        Case(
            "PUT /config/a",
            {"alias": "b"},
            200,
            {"alias": "b"},
            ours=(42203, ANY),
            why="`metadata`, `ruleSet`",
        ),
        Case(
            "PUT /config/a",
            {"compatibilityGroup": "g"},
            200,
            {"compatibilityGroup": "g"},
            ours=(42203, ANY),
            why="`metadata`, `ruleSet`",
        ),
        Case("PUT /config/a", {}, 200, {}, ours=(42203, LEVELS), why="a setting that sets nothing"),
    ],
    "the mode of all": [
        Case("GET /mode", None, 200, mode("READWRITE")),
        Case("PUT /mode", mode("READONLY"), 200, mode("READONLY")),
        Case("GET /mode", None, 200, mode("READONLY")),
        Case(A, INT, 42205, ANY),
        Case("PUT /mode", mode("SOME"), 42204, ANY),
        Case(
            "PUT /mode",
            mode("FORWARD"),
            200,
            mode("FORWARD"),
            ours=(42204, ANY),
            why="modes `FORWARD`, `READONLY_OVERRIDE`",
        ),
        Case("DELETE /mode", None, 200, ANY),
        Case("GET /mode", None, 200, mode("READWRITE")),
        Case(A, INT, 200, {"id": 1}),
        Case("PUT /mode", {}, 200, {}, ours=(42204, ANY), why="a setting that sets nothing"),
    ],
    "the mode of a subject": [
        Case(
            "GET /mode/a",
            None,
            40409,
            "Subject 'a' does not have subject-level mode configured",
        ),
        Case("GET /mode/a?defaultToGlobal=true", None, 200, mode("READWRITE")),
        Case("PUT /mode/a", mode("READONLY"), 200, mode("READONLY")),
        Case("GET /mode/a", None, 200, mode("READONLY")),
        Case("GET /mode", None, 200, mode("READWRITE")),
        Case(A, INT, 42205, ANY),
        Case("POST /subjects/b/versions", INT, 200, {"id": 1}),
        Case("DELETE /mode/a", None, 200, mode("READONLY")),
        Case("DELETE /mode/a", None, 40401, "Subject 'a' not found."),
        Case(A, INT, 200, {"id": 1}),
        Case("PUT /mode/__EMPTY", mode("READONLY"), 42208, ANY),
    ],
    "a subject's mode goes before that of all": [
        Case("PUT /mode", mode("READONLY")),
        Case("PUT /mode/a", mode("READWRITE")),
        Case(A, INT, 200, {"id": 1}),
        Case("POST /subjects/b/versions", INT, 42205, ANY),
        Case("GET /mode/b?defaultToGlobal=true", None, 200, mode("READONLY")),
    ],
    "what is read-only stays as it is": [
        Case(A, INT, 200, {"id": 1}),
        Case("PUT /config/a", level("FULL")),
        Case("PUT /mode/a", mode("READONLY")),
        Case(A, LONG, 42205, ANY),
        Case(A, INT, 42205, ANY),
        Case("DELETE /subjects/a", None, 42205, ANY),
        Case("DELETE /subjects/a/versions/1", None, 42205, ANY),
        Case("PUT /config/a", level("NONE"), 42205, ANY),
        Case("DELETE /config/a", None, 42205, ANY),
        Case("GET /subjects/a/versions", None, 200, [1]),
        Case("POST /subjects/a", INT, 200, ANY),
        Case("PUT /config", level("FULL"), 200, level("FULL")),
        Case("PUT /mode", mode("READONLY")),
        Case("PUT /config", level("NONE"), 42205, ANY),
        Case("DELETE /config", None, 42205, ANY),
        Case("PUT /mode", mode("READWRITE"), 200, mode("READWRITE")),
    ],
}
