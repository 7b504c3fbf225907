"""Schemas of Protobuf."""

from __future__ import annotations

from tests.support.confluent_cases.case import ANY, Case, reference, schema

A, LOOK = "POST /subjects/a/versions", "POST /subjects/a"
YES, NO = {"is_compatible": True}, {"is_compatible": False}

SENT = "Protobuf that was sent as a descriptor"
UNRESOLVED = "Protobuf that names what is not there"
STRICTER = "Protobuf: a number may become repeated"
ALONE = "Protobuf: the last field of a oneof"
NORMALIZE = "`normalize`"


def proto(text: str, *references: dict[str, object], syntax: str = "proto3") -> dict[str, object]:
    """The body of a registration."""
    others = {"references": [*references]} if references else {}
    return schema(f'syntax = "{syntax}";\n{text}', "PROTOBUF", **others)


def after(
    old: str, new: str, answer: dict[str, bool], *, syntax: str = "proto3", why: str = ""
) -> list[Case]:
    """Whether the fields of a message may become others, by the level BACKWARD."""
    bodies = [proto(f"message M {{ {fields} }}", syntax=syntax) for fields in (old, new)]
    ours = (200, NO if answer == YES else YES) if why else None
    return [
        Case(A, bodies[0], 200, {"id": 1}),
        Case("POST /compatibility/subjects/a/versions/latest", bodies[1], 200, answer, ours, why),
    ]


PART = proto("package shop; message Part { string name = 1; }")
TOOL = proto("package shop; message Tool { string name = 1; }")
USES = reference("shop/part.proto", "part", 1), reference("shop/tool.proto", "tool", 1)
KIT = """package shop; option java_package = "shop"; option go_package = "kit";
import "shop/part.proto"; import "shop/tool.proto";
message Kit { map<string, Part> parts = 1; Part spare = 2; Tool tool = 3; }"""
OTHER_KIT = """package shop; option go_package = "kit"; option java_package = "shop";
import "shop/tool.proto"; import "shop/part.proto";
message Kit { Tool tool = 3; Part spare = 2; map<string, Part> parts = 1; }"""
USED = [
    Case("POST /subjects/part/versions", PART, 200, {"id": 1}),
    Case("POST /subjects/tool/versions", TOOL, 200, {"id": 2}),
]
DESCRIPTOR = schema("CgdhLnByb3RvIgMKAUFiBnByb3RvMw==", "PROTOBUF")

SEQUENCES = {
    "protobuf, ids and versions": [
        *(
            Case(A, proto(f"message M {{ string f{n} = 1; bool is_active = 2; }}"), 200, {"id": n})
            for n in (1, 2, 3, 2, 1)
        ),
        Case("GET /subjects/a/versions", None, 200, [1, 2, 3]),
        Case(
            "GET /schemas/ids/1",
            None,
            200,
            proto("message M { string f1 = 1; bool is_active = 2; }"),
        ),
        Case(
            "POST /subjects/b/versions",
            proto("message M { string f2 = 1; bool is_active = 2; }"),
            200,
            {"id": 2},
        ),
    ],
    "protobuf, references": [
        *USED,
        Case(A, proto(KIT), 42201),
        Case(A, proto(KIT, USES[0]), 42201),
        Case(A, proto(KIT, *USES), 200, {"id": 3}),
        Case("GET /schemas/ids/3", None, 200, proto(KIT, *USES)),
        Case(
            LOOK,
            proto(KIT, *USES),
            200,
            {"subject": "a", "version": 1, "id": 3, **proto(KIT, *USES)},
        ),
        Case("GET /subjects/part/versions/1/referencedby", None, 200, [3]),
        Case("GET /subjects/a/versions/latest?format=serialized"),
        Case("POST /subjects/b/versions", proto("message A {}", reference("b", "b", 100)), 42201),
        Case("GET /subjects", None, 200, ["a", "part", "tool"]),
    ],
    "protobuf, normalized": [
        *USED,
        Case(f"{A}?normalize=true", proto(KIT, *USES), 200, {"id": 3}),
        Case(f"{LOOK}?normalize=true", proto(OTHER_KIT, *reversed(USES))),
        Case(LOOK, proto(OTHER_KIT, *reversed(USES)), 40403, ours=(200, ANY), why=NORMALIZE),
        Case(f"{A}?normalize=true", proto(OTHER_KIT, *reversed(USES)), 200, {"id": 3}),
    ],
    "protobuf, known files": [
        Case(A, proto(f'import "{name}";'), 200, {"id": at})
        for at, name in enumerate(
            (
                *("google/protobuf/timestamp.proto", "google/protobuf/descriptor.proto"),
                *("google/type/money.proto", "confluent/meta.proto"),
                *("confluent/type/decimal.proto", "confluent/type/variant.proto"),
            ),
            1,
        )
    ],
    "protobuf, what is no schema": [
        Case(A, proto("bad-message M { string f = 1; }"), 42201),
        Case(
            A, proto('message M { option (some) = "a"; }'), 200, ours=(42201, ANY), why=UNRESOLVED
        ),
        Case("GET /subjects", None, 200, []),
    ],
    "protobuf, a descriptor": [
        Case(A, DESCRIPTOR, 200, {"id": 1}),
        Case(A, proto("message A {}"), 200, {"id": 1}),
        Case(
            "GET /schemas/ids/1",
            None,
            200,
            proto("\nmessage A {}\n"),
            ours=(200, DESCRIPTOR),
            why=SENT,
        ),
    ],
    "protobuf, an incompatible schema": [
        Case("PUT /config/a", {"compatibility": "FULL"}),
        Case(A, proto("message M { string f = 1; string g = 2; }"), 200, {"id": 1}),
        Case(A, proto("message M { string f = 1; int32 g = 2; }"), 409),
        Case(
            "POST /compatibility/subjects/a/versions/1",
            proto("message M { string f = 1; int32 g = 2; }"),
            200,
            NO,
        ),
    ],
    "protobuf, a number becomes repeated, by its label": after(
        "optional int32 n = 1;", "repeated int32 n = 1;", NO
    ),
    "protobuf, a number becomes repeated without one": after(
        "int32 n = 1;", "repeated int32 n = 1;", YES, why=STRICTER
    ),
    "protobuf, text becomes required": after(
        "optional string s = 1;", "required string s = 1;", YES, syntax="proto2", why=STRICTER
    ),
    "protobuf, text becomes repeated": after(
        "optional string s = 1;", "repeated string s = 1;", YES
    ),
    "protobuf, one field of a oneof goes": after(
        "oneof o { int32 a = 1; int32 b = 2; }", "oneof o { int32 a = 1; }", NO
    ),
    "protobuf, the only field of a oneof goes": after(
        "oneof o { int32 a = 1; }", "oneof o { int32 b = 2; }", NO, why=ALONE
    ),
    "protobuf, a oneof goes": after("oneof o { int32 a = 1; int32 b = 2; }", "", YES),
    "protobuf, messages in another order": [
        Case(A, proto("message A {} message B {}"), 200, {"id": 1}),
        Case(A, proto("message B {} message A {}"), 200, {"id": 2}),
        Case(A, proto("message B {}"), 409),
    ],
    "protobuf, another package": [
        Case(A, proto("package p; message A {}"), 200, {"id": 1}),
        Case(A, proto("package q; message A {}"), 409),
    ],
}
