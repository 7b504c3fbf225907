"""Which schema of JSON may follow which, by the level BACKWARD: the new one reads."""

from __future__ import annotations

import json

from tests.support.confluent_cases.case import Case, schema

ALL = "JSON Schema: what admits everything"
UNSHOWN = "JSON Schema: `oneOf`"

WHOLE, NUMBER, TEXT = ({"type": kind} for kind in ("integer", "number", "string"))
TEXT_OR_WHOLE = {"type": ["string", "integer"]}


def held(*, is_open: bool = True, required: tuple[str, ...] = (), **properties: object) -> object:
    """An object; open to properties that it does not name, or not."""
    described: dict[str, object] = {"type": "object", "properties": properties}
    if not is_open:
        described["additionalProperties"] = False
    if required:
        described["required"] = [*required]
    return described


def array(items: object, **others: object) -> object:
    return {"type": "array", "items": items, **others}


def pairs(compatible: bool, *both: tuple[object, object], why: str = "") -> list[Case]:
    """Old schemas and new ones, each pair under a subject of its own."""
    name = f"{why or 'same'}-{compatible}".replace(" ", "").replace("`", "")[-12:]
    cases = [Case("PUT /config", {"compatibility": "BACKWARD"})]
    for at, (old, new) in enumerate(both):
        check = f"POST /compatibility/subjects/{name}{at}/versions/latest"
        answers = [{"is_compatible": compatible}, {"is_compatible": not compatible}]
        ours = (200, answers[1]) if why else None
        cases += [
            Case(f"POST /subjects/{name}{at}/versions", schema(json.dumps(old), "JSON")),
            Case(check, schema(json.dumps(new), "JSON"), 200, answers[0], ours, why),
        ]
    return cases


SEQUENCES = {
    "karapace: JSON, what reads": pairs(
        True,
        (held(a=WHOLE), {"type": "object"}),
        (held(a=WHOLE), True),
        (held(a=WHOLE), {}),
        (held(a=WHOLE, is_open=False), held(a=WHOLE, b=WHOLE, is_open=False)),
        (held(a=WHOLE, is_open=False), held(a=WHOLE, b={"type": "integer", "default": 1})),
        (held(a=WHOLE, required=("a",)), held(a=WHOLE)),
        (WHOLE, NUMBER),
        (WHOLE, TEXT_OR_WHOLE),
        (array(WHOLE), array(NUMBER)),
        (array(WHOLE), {"type": "array"}),
        ({"enum": ["a", "b"]}, {"enum": ["a", "b", "c"]}),
        ({"type": "string", "maxLength": 2}, {"type": "string", "maxLength": 3}),
        ({"type": "string", "minLength": 7}, {"type": "string", "minLength": 5}),
        ({"type": "number", "maximum": 11}, {"type": "number", "maximum": 13}),
        ({"type": "integer", "exclusiveMinimum": 37}, {"type": "integer", "exclusiveMinimum": 31}),
        (array(WHOLE, maxItems=2), array(WHOLE, maxItems=3)),
        ({"type": "object", "maxProperties": 2}, {"type": "object", "maxProperties": 3}),
        ({"type": "string", "pattern": "a+"}, {"type": "string"}),
    ),
    "karapace: JSON, what does not": pairs(
        False,
        (held(a=WHOLE, b=WHOLE, is_open=False), held(a=WHOLE, is_open=False)),
        (held(a=WHOLE), held(a=WHOLE, is_open=False)),
        (held(a=WHOLE), held(a=WHOLE, b=WHOLE, required=("b",))),
        (held(a=WHOLE), held(a=TEXT)),
        (NUMBER, WHOLE),
        (TEXT_OR_WHOLE, TEXT),
        (TEXT, WHOLE),
        (array(NUMBER), array(WHOLE)),
        (array(WHOLE), {"type": "object"}),
        ({"enum": ["a", "b", "c"]}, {"enum": ["a", "b"]}),
        ({"enum": ["a", "b"]}, {"enum": ["b", "c"]}),
        ({"type": "string", "maxLength": 3}, {"type": "string", "maxLength": 2}),
        ({"type": "string"}, {"type": "string", "minLength": 5}),
        ({"type": "number", "minimum": 17}, {"type": "number", "minimum": 19}),
        (array(WHOLE, minItems=2), array(WHOLE, minItems=3)),
        ({"type": "string", "pattern": "a*"}, {"type": "string", "pattern": "a+"}),
        ({"type": "object"}, {"type": "object", "propertyNames": {"pattern": "a+"}}),
        ({"type": "object"}, {"type": "object", "patternProperties": {"^s_": TEXT}}),
        (array(WHOLE), array([WHOLE])),
        ({"not": WHOLE}, {"not": TEXT}),
    ),
    "karapace: JSON, what it takes for unreadable": [
        Case("PUT /config", {"compatibility": "BACKWARD"}),
        *(
            case
            for at, old in enumerate([WHOLE, array(WHOLE), {"enum": ["a"]}, {"not": TEXT}])
            for case in (
                Case(f"POST /subjects/all{at}/versions", schema(old, "JSON")),
                Case(
                    f"POST /subjects/all{at}/versions",
                    schema("true", "JSON"),
                    409,
                    ours=(200, ...),
                    why=ALL,
                ),
            )
        ),
    ],
    "karapace: JSON, what it takes for readable": pairs(
        True,
        ({"oneOf": [TEXT]}, {"oneOf": [TEXT, WHOLE]}),
        (TEXT, {"oneOf": [TEXT, WHOLE]}),
        (array([WHOLE, WHOLE]), array([WHOLE])),
        ({"not": {}}, {"not": True}),
        (held(a={}), {"type": "object", "patternProperties": {"^a*": {}}}),
        (held(a={}), {"type": "object", "propertyNames": {"pattern": "a*"}}),
        why=UNSHOWN,
    ),
}
