"""Which schema of Avro's may follow which."""

from __future__ import annotations

import json

from tests.support.confluent_cases.case import ANY, Case, record, reference, schema

A, CHECK = "POST /subjects/a/versions", "POST /compatibility/subjects/a/versions/latest"
LEVELS = ("BACKWARD", "FORWARD", "FULL")
YES, NO = {"is_compatible": True}, {"is_compatible": False}
LATEST = "a check against the latest version"

PAIRS = [
    *(("int", wider, True, False) for wider in ("long", "float", "double")),
    *((kind, kind, True, True) for kind in ("int", "bytes", "boolean")),
    ("bytes", "string", True, True),
    *(
        (number, other, False, False)
        for number in ("int", "long", "float", "double")
        for other in ("boolean", "string", "bytes")
    ),
]
"""Two types, whether the second reads the first, and the other way round."""


def follows(level: str, old: object, *steps: tuple[object, bool]) -> list[Case]:
    """A schema, and what is registered behind it: whether it may be."""
    return [
        Case("PUT /config/a", {"compatibility": level}),
        Case(A, schema(json.dumps(old))),
        *(Case(A, schema(json.dumps(new)), *((200,) if may else (409, ANY))) for new, may in steps),
    ]


def in_three(name: str, old: object, new: object, may: tuple[bool, bool, bool]):
    """The same step under each level."""
    return {
        f"karapace: {name}, {level}": follows(level, old, (new, allowed))
        for level, allowed in zip(LEVELS, may, strict=True)
    }


def of_types(level: str) -> list[Case]:
    """Types of a field followed by others, both ways."""
    cases = [Case("PUT /config", {"compatibility": level})]
    ways = [(old, new, reads, read) for old, new, reads, read in PAIRS]
    ways += [(new, old, read, reads) for old, new, reads, read in PAIRS]
    for at, (old, new, backward, forward) in enumerate(ways):
        may = {"BACKWARD": backward, "FORWARD": forward, "FULL": backward and forward}[level]
        check = f"POST /compatibility/subjects/t{at}/versions/latest"
        cases += [
            Case(f"POST /subjects/t{at}/versions", schema(held(old))),
            Case(check, schema(held(new)), 200, YES if may else NO),
        ]
    return cases


def array(items: object) -> object:
    return {"type": "array", "items": items}


def colours(*names: str, name: str = "Colour") -> object:
    return {"type": "enum", "name": name, "symbols": [*names]}


def fixed(size: int, name: str = "Hash", **others: object) -> object:
    return {"type": "fixed", "name": name, "size": size, **others}


def held(inner: object) -> object:
    """A type as that of a record's field."""
    return record(("f", inner))


INNER = record(("x", "string"), name="Inner")
LOOSE, TIGHT = (True, False, False), (False, True, False)
CITY = record(("name", "string"), name="City")
HOUSE = record(("street", "string"), ("city", "City"), name="House")
CITY_OF_HOUSE = [reference("city.avsc", "city", 1)]


SEQUENCES = {
    **{f"karapace: types of fields, {level}": of_types(level) for level in LEVELS},
    "karapace: a union may be read by one that has all of its types": [
        *follows(
            "BACKWARD",
            held(["string", "int"]),
            (held(["null", "string"]), False),
            (held(["int", "string", INNER]), True),
        ),
    ],
    "karapace: a union may be written by one with fewer types": [
        *follows(
            "FORWARD",
            held(["int", "string", INNER]),
            (held(["null", "string"]), False),
            (held(["string", "int"]), True),
        ),
    ],
    "karapace: a field comes to a record in an array in a union, and goes": follows(
        "BACKWARD",
        held([array(INNER)]),
        (held([array(record(("x", "string"), ("y", ["null", "int"], None), name="Inner"))]), True),
        (held([array(INNER)]), True),
    ),
    "karapace: a type changes in a nested record": follows(
        "BACKWARD", held(INNER), (held(record(("x", "int"), name="Inner")), False)
    ),
    "karapace: fields come and go, forward": follows(
        "FORWARD",
        record(("a", "string")),
        (record(("a", "string"), ("b", "string"), ("n", "int")), True),
        (record(("b", "string"), ("c", "string", "x"), ("n", "int")), False),
        (record(("a", "string"), ("b", "string"), ("n", "long")), False),
        (record(("a", "string"), ("b", "string"), ("c", "string", "x"), ("n", "int")), True),
    ),
    "karapace: fields come and go, backward": follows(
        "BACKWARD",
        record(("a", "string"), ("n", "int")),
        (record(("a", "string"), ("b", "string"), ("n", "int")), False),
        (record(("a", "string"), ("b", "string", "x"), ("n", "int")), True),
        (record(("a", "string"), ("b", "int", 2), ("n", "int")), False),
    ),
    **in_three("a symbol more", colours("red"), colours("red", "blue"), LOOSE),
    **in_three("a symbol less", colours("red", "blue"), colours("red"), TIGHT),
    **in_three("another name", colours("red"), colours("red", name="Hue"), (False,) * 3),
    **in_three("a symbol more in a field", held(colours("a")), held(colours("a", "b")), LOOSE),
    **in_three("a symbol less in a field", held(colours("a", "b")), held(colours("a")), TIGHT),
    **in_three(
        "another name in a field", held(colours("a")), held(colours("a", name="Hue")), (False,) * 3
    ),
    **in_three("items of an array", array("int"), array("long"), LOOSE),
    **in_three("items in a field", held(array("int")), held(array("long")), LOOSE),
    **in_three(
        "a field more in an array",
        array(INNER),
        array(record(("x", "string"), ("y", "string"), name="Inner")),
        TIGHT,
    ),
    **in_three(
        "values of a map",
        {"type": "map", "values": "int"},
        {"type": "map", "values": "long"},
        LOOSE,
    ),
    **in_three("an alias", fixed(16), fixed(16, aliases=["Sum"]), (True,) * 3),
    **in_three("another size", fixed(16), fixed(32), (False,) * 3),
    **in_three("another name of fixed", fixed(16), fixed(16, name="Sum"), (False,) * 3),
    **in_three("an alias in a field", held(fixed(4)), held(fixed(4, aliases=["S"])), (True,) * 3),
    **in_three("another size in a field", held(fixed(16)), held(fixed(32)), (False,) * 3),
    **in_three("text to octets", "string", "bytes", (True,) * 3),
    **in_three("text to a number", "string", "int", (False,) * 3),
    **in_three("one type of a union", [array("string"), "string"], "string", TIGHT),
    **in_three("a union of a type", array("string"), [array("string"), "string"], LOOSE),
    **in_three("a type that a union lacks", [array("string"), "string"], "int", (False,) * 3),
    **in_three("a doc", held("int"), {**record(("f", "int")), "doc": "of it"}, (True,) * 3),
    **in_three(
        "a logical type", held("long"), held({"type": "long", "logicalType": "date"}), (True,) * 3
    ),
    **{
        f"karapace: a field without a default in a union, {level}": follows(
            level,
            held(["null", INNER]),
            (held(["null", record(("x", "string"), ("n", "int"), name="Inner")]), False),
        )
        for level in ("FULL", "FULL_TRANSITIVE")
    },
    "karapace: versions that are deleted are not compared with": [
        Case("PUT /config/a", {"compatibility": "NONE"}),
        *(Case(A, schema(held(kind))) for kind in ("string", "double", "int")),
        Case("DELETE /subjects/a/versions/latest", None, 200, 3),
        Case("PUT /config/a", {"compatibility": "BACKWARD"}),
        Case(CHECK, schema(held("int")), 200, NO),
        Case("PUT /config/a", {"compatibility": "FORWARD_TRANSITIVE"}),
        Case(CHECK, schema(held("long")), 200, NO, ours=(200, YES), why=LATEST),
        Case(CHECK.removesuffix("/latest"), schema(held("long")), 200, NO),
    ],
    "karapace: of a transitive level one of all is enough": [
        Case("PUT /config/a", {"compatibility": "BACKWARD_TRANSITIVE"}),
        Case(A, schema(record(("n", "int")))),
        Case(A, schema(record(("n", "int"), ("a", "string", "x")))),
        Case(A, schema(record(("n", "int"), ("a", "string"), ("b", "string", "y"))), 409),
    ],
    "karapace: references of references": [
        Case("POST /subjects/city/versions", schema(CITY), 200, {"id": 1}),
        Case("POST /subjects/a/versions", schema(HOUSE, references=CITY_OF_HOUSE), 200, {"id": 2}),
        Case("POST /subjects/a", schema(HOUSE, references=CITY_OF_HOUSE)),
        Case(
            CHECK,
            schema(
                record(("street", "bytes"), ("city", "City"), name="House"),
                references=CITY_OF_HOUSE,
            ),
            200,
            YES,
        ),
        Case(
            CHECK,
            schema(
                record(("street", "int"), ("city", "City"), name="House"), references=CITY_OF_HOUSE
            ),
            200,
            NO,
        ),
        Case(
            A,
            schema(
                record(("street", "string"), ("city", "City"), name="Hut"),
                references=CITY_OF_HOUSE,
            ),
            409,
        ),
        Case(
            "POST /subjects/street/versions",
            schema(
                [record(("houses", array("House")), name="Street"), record(name="Void")],
                references=[reference("house.avsc", "a", 1)],
            ),
            200,
            {"id": 3},
        ),
    ],
}
