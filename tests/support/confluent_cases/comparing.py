"""Whether a schema would do."""

from __future__ import annotations

from tests.support.confluent_cases.case import (
    ANY,
    F_AND_G,
    F_AND_NEW,
    INT,
    LONG,
    NOTE,
    TEXT,
    Case,
    F,
    record,
    schema,
)

A = "POST /subjects/a/versions"
CHECK = "POST /compatibility/subjects/a/versions"
YES, NO = {"is_compatible": True}, {"is_compatible": False}
ONLY_G = record(("g", "string", "x"))
OLD, WITH_DEFAULT, WITHOUT = schema(F), schema(F_AND_G), schema(F_AND_NEW)


def under(level: str, *answers: tuple[dict[str, object], dict[str, bool]]) -> list[Case]:
    """A subject with one schema, and which others may follow under a level."""
    return [
        Case(A, OLD, 200, {"id": 1}),
        Case("PUT /config/a", {"compatibility": level}),
        *(Case(f"{CHECK}/latest", new, 200, answer) for new, answer in answers),
        *(Case(CHECK, new, 200, answer) for new, answer in answers),
    ]


def transitively(level: str, compatible: dict[str, bool], code: int, answer: object) -> list[Case]:
    """Three schemas of which the third follows the second, but not the first."""
    is_backward = level.startswith("BACKWARD")
    # Of an own record type each, so that only the presence of fields counts.
    first = record(("f", "string")) if is_backward else record(("f", "string"), ("g", "string"))
    second = record(("f", "string"), ("g", "string", "x")) if is_backward else F
    third = (
        record(("f", "string"), ("g", "string"))
        if is_backward
        else record(("f", "string"), ("g", "int"))
    )
    return [
        Case("PUT /config/a", {"compatibility": "NONE"}),
        Case(A, schema(first), 200, {"id": 1}),
        Case(A, schema(second), 200, {"id": 2}),
        Case("PUT /config/a", {"compatibility": level}),
        Case(f"{CHECK}/latest", schema(third), 200, YES),
        Case(CHECK, schema(third), 200, compatible),
        Case(A, schema(third), code, answer),
    ]


SEQUENCES = {
    "backward": under(
        "BACKWARD", (WITH_DEFAULT, YES), (WITHOUT, NO), (schema(ONLY_G), YES), (TEXT, NO)
    ),
    "forward": under("FORWARD", (WITH_DEFAULT, YES), (WITHOUT, YES), (schema(ONLY_G), NO)),
    "full": under("FULL", (WITH_DEFAULT, YES), (WITHOUT, NO), (schema(ONLY_G), NO)),
    "none": under("NONE", (TEXT, YES), (WITHOUT, YES), (NOTE, YES)),
    "backward looks at the last one": transitively("BACKWARD", YES, 200, {"id": 3}),
    "backward transitive looks at all": transitively("BACKWARD_TRANSITIVE", NO, 409, ANY),
    "forward looks at the last one": transitively("FORWARD", YES, 200, {"id": 3}),
    "forward transitive looks at all": transitively("FORWARD_TRANSITIVE", NO, 409, ANY),
    "a version is compared with": [
        Case("PUT /config", {"compatibility": "NONE"}),
        Case(A, INT, 200, {"id": 1}),
        Case(A, TEXT, 200, {"id": 2}),
        Case("PUT /config", {"compatibility": "BACKWARD"}),
        Case(f"{CHECK}/1", LONG, 200, YES),
        Case(f"{CHECK}/2", LONG, 200, NO),
        Case(f"{CHECK}/latest", LONG, 200, NO),
        Case(f"{CHECK}/-1", LONG, 200, NO),
        Case(f"{CHECK}/3", LONG, 40402, "Version 3 not found."),
        Case(f"{CHECK}/earliest", LONG, 42202, ANY),
        Case(f"{CHECK}/0", LONG, 42202, ANY),
    ],
    "what is not there hinders nothing": [
        Case(f"{CHECK}/latest", INT, 200, YES),
        Case(CHECK, INT, 200, YES),
        Case(f"{CHECK}/5", INT, 40402, "Version 5 not found."),
        Case(f"{CHECK}?verbose=true", INT, 200, {**YES, "messages": []}),
    ],
    "what is no schema": [
        Case(f"{CHECK}/latest", schema('"unheard"'), 42201, ANY),
        Case(CHECK, schema(""), 42201, ANY),
        Case(f"{CHECK}?verbose=true", schema('"unheard"'), 200, ANY),
    ],
    "another language": [
        Case(A, INT, 200, {"id": 1}),
        Case(CHECK, NOTE, 200, NO),
        Case(A, NOTE, 409, ANY),
    ],
}
