"""Which schema of Protobuf may follow which; the list of cases is Confluent's, the schemas ours."""

from __future__ import annotations

import base64

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dafka.schemas.protobuf_compiler import compiled
from dafka.schemas.protobuf_schema import obstacles


def proto3(text, *uses):
    imports = "".join(f'import "{name}";' for name, _ in uses)
    used = tuple((name, compiled(source, ())) for name, source in uses)
    return compiled(f'syntax = "proto3";{imports}{text}', used), used


def proto2(text):
    return compiled(f'syntax = "proto2";{text}', ()), ()


def order(fields, proto=proto3):
    return proto(f"message Order {{ {fields} }}")


SAME = [
    ("", "int32 a = 1;"),
    ("int32 a = 1;", ""),
    ("int32 a = 1;", "int32 b = 1;"),
    ("int32 a = 1;", "bool a = 1;"),
    ("uint32 a = 1;", "int64 a = 1;"),
    ("int32 a = 1;", "State a = 1; enum State { NEW = 0; }"),
    ("sint32 a = 1;", "sint64 a = 1;"),
    ("fixed32 a = 1;", "sfixed32 a = 1;"),
    ("fixed64 a = 1;", "sfixed64 a = 1;"),
    ("string a = 1;", "bytes a = 1;"),
    ("string a = 1;", "repeated string a = 1;"),
    ("int32 a = 1;", "optional int32 a = 1;"),
    ("repeated int32 a = 1;", "repeated int64 a = 1;"),
    ("State a = 1; enum State { NEW = 0; }", "State a = 1; enum State { OLD = 0; GONE = 1; }"),
    ("Item a = 1; message Item {}", "repeated Item a = 1; message Item { int32 n = 1; }"),
    ("map<string, int32> a = 1;", "map<string, int64> a = 1;"),
    ("int32 a = 1;", "oneof one { int32 a = 1; string b = 2; }"),
    (
        "oneof one { int32 a = 1; string b = 2; }",
        "oneof one { int32 a = 1; string b = 2; int32 c = 3; }",
    ),
    ("oneof one { int32 a = 1; string b = 2; }", "oneof other { int32 a = 1; string b = 2; }"),
    ("oneof one { int32 a = 1; string b = 2; }", "int32 a = 1; string b = 2;"),
    ("oneof one { int32 a = 1; string b = 2; }", ""),
    ("int32 a = 1; string b = 2;", "string b = 2; int32 a = 1;"),
    ("int32 a = 1;", "reserved 1;"),
]
"""Fields of a writer's message, and of a reader's that reads them."""


@pytest.mark.parametrize(("writer", "reader"), SAME)
def test_what_reads_what_is_written(writer, reader):
    assert not obstacles(order(reader), order(writer))


@pytest.mark.parametrize(
    ("writer", "reader", "why"),
    [
        ("int32 a = 1;", "string a = 1;", "field 1 of Order is text or bytes, not a whole number"),
        ("int32 a = 1;", "sint32 a = 1;", "zigzag"),
        ("float a = 1;", "double a = 1;", "double"),
        ("fixed32 a = 1;", "fixed64 a = 1;", "eight bytes"),
        ("int32 a = 1;", "repeated int32 a = 1;", "is repeated"),
        ("repeated float a = 1;", "float a = 1;", "is not repeated"),
        ("string a = 1;", "Item a = 1; message Item {}", "a message"),
        ("map<string, int32> a = 1;", "map<string, string> a = 1;", "AEntry"),
        ("map<string, int32> a = 1;", "repeated Item a = 1; message Item {}", "not a map"),
        (
            "Item a = 1; message Item {}",
            "Other a = 1; message Item {} message Other {}",
            "field 1 of Order is the message Order.Other, not Order.Item",
        ),
        ("message Item {}", "", "message Order.Item is missing"),
        (
            "int32 a = 1; string b = 2;",
            "oneof one { int32 a = 1; string b = 2; }",
            "oneof one of Order joins fields that were apart",
        ),
        (
            "oneof one { int32 a = 1; } oneof two { int32 b = 2; }",
            "oneof two { int32 a = 1; int32 b = 2; }",
            "joins",
        ),
        (
            "oneof one { int32 a = 1; string b = 2; }",
            "oneof one { int32 a = 1; }",
            "field 2 of Order is missing in oneof one",
        ),
        (
            "oneof one { int32 a = 1; string b = 2; }",
            "oneof other { int32 a = 1; }",
            "missing in oneof one",
        ),
    ],
)
def test_what_does_not(writer, reader, why):
    (found,) = obstacles(order(reader), order(writer))
    assert why in found


@pytest.mark.parametrize(
    ("writer", "reader", "reads"),
    [
        ("", "required int32 a = 1;", False),
        ("required int32 a = 1;", "", False),
        ("optional int32 a = 1;", "required int32 a = 1;", False),
        ("required int32 a = 1;", "optional int32 a = 1;", True),
        ("", "optional int32 a = 1;", True),
        ("optional group G = 1 {}", "optional G g = 1; message G {}", False),
        ("optional group G = 1 {}", "optional group G = 1 { optional int32 n = 1; }", True),
    ],
)
def test_required_fields_and_groups(writer, reader, reads):
    assert bool(obstacles(order(reader, proto2), order(writer, proto2))) is not reads


def test_features_of_editions_count():
    def edition(features):
        return compiled(
            f'edition = "2023"; message Order {{ Order a = 1 [features.{features}]; }}', ()
        ), ()

    plain = edition("field_presence = EXPLICIT")
    assert obstacles(edition("message_encoding = DELIMITED"), plain)
    assert obstacles(edition("field_presence = LEGACY_REQUIRED"), plain)
    assert not obstacles(plain, plain)


def test_messages_may_come_and_change_their_order_but_not_their_package():
    a, b = "message A {}", "message B {}"
    assert not obstacles(proto3(b + a), proto3(a))
    assert not obstacles(proto3(b + a), proto3(a + b))
    assert obstacles(proto3(a), proto3(a + b)) == ["message B is missing"]
    assert obstacles(proto3(f"package p; {a}"), proto3(a)) == ["the package is 'p', not ''"]


def test_messages_of_other_files_are_compared_too():
    text = "message Order { shop.Item item = 1; }"

    def using(package, fields):
        item = f'syntax = "proto3"; package {package}; message Item {{ {fields} }}'
        return proto3(text.replace("shop", package), ("item.proto", item))

    number = using("shop", "int32 n = 1;")
    assert not obstacles(using("shop", "int64 n = 1;"), number)
    assert not obstacles(using("store", "int32 n = 1;"), number), "the name is what counts"
    (found,) = obstacles(using("shop", "string n = 1;"), number)
    assert "field 1 of shop.Item is text" in found


def test_messages_that_hold_one_another_are_compared_once():
    text = "message A { B b = 1; A a = 2; %s n = 3; } message B { A a = 1; }"
    assert not obstacles(proto3(text % "int32"), proto3(text % "int64"))
    assert len(obstacles(proto3(text % "int32"), proto3(text % "string"))) == 1


@pytest.mark.slow
def test_messages_that_all_hold_one_another_are_compared_in_pairs():
    names = [f"M{number}" for number in range(60)]
    fields = " ".join(f"{name} f{at} = {at};" for at, name in enumerate(names, 1))
    text = " ".join(f"message {name} {{ {fields} }}" for name in names)
    assert not obstacles(proto3(text), proto3(text))


EMPTY = order("")


@pytest.mark.slow
@given(st.binary(max_size=200))
def test_descriptors_that_are_none_are_no_schema_to_read(octets):
    found = obstacles((base64.b64encode(octets).decode(), ()), EMPTY)
    assert all(isinstance(one, str) for one in found)
