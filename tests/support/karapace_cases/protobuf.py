"""Schemas of Protobuf."""

from __future__ import annotations

from tests.support.confluent_cases.case import ANY, Case, reference, schema
from tests.support.confluent_cases.protobuf import NORMALIZE, SENT, UNRESOLVED, proto

A, CHECK = "POST /subjects/a/versions", "POST /compatibility/subjects/a/versions/latest"
YES, NO = {"is_compatible": True}, {"is_compatible": False}

BOX = proto("package shop; message Box { message Lid { string colour = 1; } }")
OTHER_BOX = proto("package shop; message Box { message Lid { int32 colour = 1; } }")
TIN = proto("package shop; message Tin { string label = 1; }")
CRATE = 'package shop; import "{}"; message Crate {{ Box.Lid lid = 1; int32 n = 2; }}'
OF_BOX, OF_TIN = reference("box.proto", "box", 1), reference("tin.proto", "tin", 1)
IN_USE = Case("DELETE /subjects/box/versions/1", None, 42206)

NESTED = proto(
    "package shop; message Shop { message Till { string name = 1; int32 n = 2; }"
    " string name = 1; .shop.Shop.Till till = 2; }"
)
SPACED = {**NESTED, "schema": NESTED["schema"].replace(" ", "  \n")}
WITH_STATE = proto(
    "package shop; message Shop { message Till { string name = 1; State n = 2; }"
    " string name = 1; Till till = 2; enum State { OPEN = 0; SHUT = 1; } }"
)
PLAIN = proto(
    "message Key { int32 id = 1; }\nmessage Cat { string name = 1; repeated int32 n = 4; }"
)
DESCRIPTOR = (
    "CgljYXQucHJvdG8iEQoDS2V5EgoKAmlkGAEgASgFIh4KA0NhdBIMCgRuYW1lGAEgASgJ"
    "EgkKAW4YBCADKAViBnByb3RvMw=="
)
OPTIONS = [
    'option java_package = "a";',
    "option java_multiple_files = true;",
    'option java_outer_classname = "B";',
]
FIRST = "message A { E e = 1; }"
POSTAL = 'package shop; import "google/type/postal_address.proto";'
ADDRESSED = f"{POSTAL} message Crate {{ google.type.PostalAddress lid = 1; int32 n = 2; }}"

SEQUENCES = {
    "karapace: protobuf, what makes no other schema": [
        Case(A, NESTED, 200, {"id": 1}),
        Case(A, SPACED, 200, {"id": 1}),
        Case("POST /subjects/a", SPACED, 200),
        Case(CHECK, WITH_STATE, 200, YES),
        Case(A, WITH_STATE, 200, {"id": 2}),
        Case(CHECK, NESTED, 200, YES),
        Case(A, NESTED, 200, {"id": 1}),
        Case("POST /subjects/a", WITH_STATE),
    ],
    "karapace: protobuf, options in another order": [
        Case(f"{A}?normalize=true", proto("".join(OPTIONS)), 200, {"id": 1}),
        Case(f"{A}?normalize=true", proto("".join(reversed(OPTIONS))), 200, {"id": 1}),
        Case("POST /subjects/a?normalize=true", proto("".join(reversed(OPTIONS)))),
        Case(
            "POST /subjects/a",
            proto("".join(reversed(OPTIONS))),
            40403,
            ours=(200, ANY),
            why=NORMALIZE,
        ),
    ],
    "karapace: protobuf, an enum before a message, and a field more": [
        Case(A, proto(f"{FIRST} enum E {{ X = 0; }}"), 200, {"id": 1}),
        Case(A, proto("enum E { X = 0; } message A { E e = 1; int32 n = 2; }"), 200, {"id": 2}),
    ],
    "karapace: protobuf as a descriptor": [
        Case(A, schema(DESCRIPTOR, "PROTOBUF"), 200, {"id": 1}),
        Case(A, PLAIN, 200, {"id": 1}),
        Case(
            "GET /schemas/ids/1",
            None,
            200,
            PLAIN,
            ours=(200, schema(DESCRIPTOR, "PROTOBUF")),
            why=SENT,
        ),
        Case("GET /schemas/ids/1?format=serialized"),
    ],
    "karapace: protobuf with references": [
        Case("POST /subjects/box/versions", BOX, 200, {"id": 1}),
        Case(A, proto(CRATE.format("box.proto"), OF_BOX), 200, {"id": 2}),
        Case("POST /subjects/a", proto(CRATE.format("box.proto"), OF_BOX)),
        Case("GET /subjects/box/versions/latest/referencedby", None, 200, [2]),
        Case("GET /schemas/ids/2", None, 200, proto(CRATE.format("box.proto"), OF_BOX)),
        Case("GET /schemas/ids/1", None, 200, BOX),
        IN_USE,
        Case("GET /schemas/ids/1", None, 200, BOX),
        Case("DELETE /subjects/a/versions/1", None, 200, 1),
        Case("DELETE /subjects/a/versions/1", None, 40406),
        Case(
            "DELETE /subjects/box/versions/1",
            None,
            42206,
            ours=(200, 1),
            why="what only something deleted softly uses",
        ),
        Case("DELETE /subjects/a/versions/1?permanent=true", None, 200, 1),
    ],
    "karapace: protobuf with references of references": [
        Case("POST /subjects/box/versions", BOX, 200, {"id": 1}),
        Case(A, proto(CRATE.format("box.proto"), OF_BOX), 200, {"id": 2}),
        Case(
            "POST /subjects/van/versions",
            proto(
                'package shop; import "crate.proto"; message Van { Crate crate = 1; }',
                reference("crate.proto", "a", 1),
            ),
            200,
            {"id": 3},
        ),
        IN_USE,
        Case("DELETE /subjects/a/versions/1", None, 42206),
        Case("DELETE /subjects/van/versions/1", None, 200, 1),
        Case("DELETE /subjects/van/versions/1?permanent=true", None, 200, 1),
        Case("DELETE /subjects/a/versions/1", None, 200, 1),
        Case("DELETE /subjects/a/versions/1?permanent=true", None, 200, 1),
        Case("DELETE /subjects/box/versions/1", None, 200, 1),
        Case("GET /subjects/box/versions/1", None, 40401),
    ],
    "karapace: protobuf, a reference more, one less, and a newer one": [
        Case("POST /subjects/box/versions", BOX, 200, {"id": 1}),
        Case("POST /subjects/tin/versions", TIN, 200, {"id": 2}),
        Case(A, proto(CRATE.format("box.proto"), OF_BOX), 200, {"id": 3}),
        Case(
            A,
            proto(
                'package shop; import "box.proto"; import "tin.proto";'
                " message Crate { Box.Lid lid = 1; int32 n = 2; Tin tin = 3; }",
                OF_BOX,
                OF_TIN,
            ),
            200,
            {"id": 4},
        ),
        Case(A, proto("package shop; message Crate { int32 n = 2; }"), 200, {"id": 5}),
        Case(
            "POST /subjects/tin/versions",
            proto("package shop; message Tin { string label = 1; bool is_open = 2; }"),
            200,
            {"id": 6},
        ),
        Case(
            "POST /subjects/b/versions",
            proto('import "tin.proto"; message B { shop.Tin tin = 1; }', OF_TIN),
            200,
            {"id": 7},
        ),
        Case(
            "POST /subjects/b/versions",
            proto(
                'import "tin.proto"; message B { shop.Tin tin = 1; }',
                reference("tin.proto", "tin", 2),
            ),
            200,
            {"id": 8},
        ),
        Case("GET /subjects/b/versions", None, 200, [1, 2]),
        Case(
            "POST /subjects/b",
            proto('import "tin.proto"; message B { shop.Tin tin = 1; }', OF_TIN),
        ),
    ],
    "karapace: protobuf, what is not there": [
        Case(A, proto(CRATE.format("box.proto"), OF_BOX), 42201),
        Case(A, proto(CRATE.format("box.proto")), 42201),
        Case("POST /subjects/box/versions", BOX, 200, {"id": 1}),
        Case(A, proto(CRATE.format("box.proto"), OF_BOX, OF_TIN), 42201),
        Case(A, proto(CRATE.format("box.proto").rstrip("} "), OF_BOX), 42201),
        Case(A, proto("message A { google.type.PostalAddress at = 1; }"), 42201),
        Case(
            A,
            proto("message A { oneof b { option (mine) = true; int32 c = 1; } }"),
            200,
            ours=(42201, ANY),
            why=UNRESOLVED,
        ),
    ],
    "karapace: protobuf, one of several messages, and a nested one": [
        Case(
            "POST /subjects/two/versions",
            proto("message One { message In { int32 n = 1; } In i = 1; } message Two {}"),
        ),
        Case(
            A,
            proto(
                'import "two.proto"; message A { Two two = 1; One.In in = 2; }',
                reference("two.proto", "two", 1),
            ),
        ),
    ],
    "karapace: protobuf, known files, and a comment that changes": [
        Case(A, proto(f"{ADDRESSED} // one"), 200, {"id": 1}),
        Case(A, proto(f"{ADDRESSED} // two"), 200, {"id": 1}),
        Case("POST /subjects/box/versions", BOX, 200, {"id": 2}),
        Case(CHECK, proto(CRATE.format("box.proto"), OF_BOX), 200, NO),
        Case("POST /subjects/b/versions", proto(CRATE.format("box.proto"), OF_BOX)),
        Case("POST /compatibility/subjects/b/versions/latest", proto(ADDRESSED), 200, NO),
    ],
    "karapace: protobuf, changes in what is used": [
        Case("POST /subjects/box/versions", BOX),
        Case("POST /subjects/same/versions", BOX),
        Case("POST /subjects/other/versions", OTHER_BOX),
        Case(A, proto(CRATE.format("box.proto"), OF_BOX)),
        Case(
            CHECK,
            proto(CRATE.format("same.proto"), reference("same.proto", "same", 1)),
            200,
            YES,
        ),
        Case(
            CHECK,
            proto(CRATE.format("other.proto"), reference("other.proto", "other", 1)),
            200,
            NO,
        ),
    ],
    "karapace: protobuf, references to the latest version": [
        Case("POST /subjects/box/versions", BOX, 200, {"id": 1}),
        Case(A, proto(CRATE.format("box.proto"), reference("box.proto", "box", -1))),
        Case("GET /subjects/box/versions/1/referencedby", None, 200, [2]),
        Case("GET /schemas/ids/2", None, 200, proto(CRATE.format("box.proto"), OF_BOX)),
    ],
    "karapace: protobuf, a version without references is found behind one with them": [
        Case("POST /subjects/tin/versions", TIN, 200, {"id": 1}),
        Case(A, proto("message B { int32 n = 2; }"), 200, {"id": 2}),
        Case(A, proto('import "tin.proto"; message B { shop.Tin tin = 1; int32 n = 2; }', OF_TIN)),
        Case("POST /subjects/a", proto("message B { int32 n = 2; }")),
    ],
    "karapace: protobuf, what references are": [
        *(
            Case(A, {**PLAIN, "references": what}, 422, ours=(42201, ANY), why="a body of another")
            for what in (1, "box", False, {"name": "box"})
        ),
        Case(A, {**PLAIN, "references": None}, 200, {"id": 1}),
        Case(A, {**PLAIN, "references": []}, 200, {"id": 1}),
    ],
}
