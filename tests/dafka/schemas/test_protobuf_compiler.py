from __future__ import annotations

import base64
from pathlib import Path

import pytest
from google.protobuf.descriptor_pb2 import FileDescriptorProto

from dafka.limits import SCHEMA_BYTES_MAX
from dafka.schemas.protobuf_compiler import compiled, known

ORDER = """syntax = "proto3";
package shop;
message Order { int64 id = 1; optional string note = 2; oneof how { int32 a = 4; int32 b = 3; } }
"""


def descriptor(text, *uses):
    return FileDescriptorProto.FromString(base64.b64decode(compiled(text, uses)))


def sent(text, *uses, name="order.proto"):
    """A schema as clients send it that have no text: a descriptor with its name."""
    file = descriptor(text, *uses)
    file.name = name
    return base64.b64encode(file.SerializeToString()).decode()


def refused(text, *uses):
    with pytest.raises(ValueError) as error:  # noqa: PT011 - the words are the compiler's
        compiled(text, uses)
    return str(error.value)


def test_a_schema_becomes_a_descriptor_without_a_name():
    file = descriptor(ORDER)
    assert (file.name, file.package, file.syntax) == ("", "shop", "proto3")
    assert [field.number for field in file.message_type[0].field] == [1, 2, 3, 4]


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (ORDER, ORDER.replace("\n", "\n\n// a comment\n")),
        ("message A { optional A a = 1; }", "message A { optional .A a = 1; }"),
        ('syntax = "proto2"; message A {}', "message A {}"),
        (
            'import "google/protobuf/any.proto"; import "google/type/date.proto";',
            'import "google/type/date.proto"; import "google/protobuf/any.proto";',
        ),
        (
            'import public "google/protobuf/any.proto"; import "google/type/date.proto";',
            'import "google/type/date.proto"; import public "google/protobuf/any.proto";',
        ),
        (
            'option java_package = "a"; option java_multiple_files = true;',
            'option java_multiple_files = true; option java_package = "a";',
        ),
        (
            "message A { optional int32 a = 1; optional int32 b = 2; }",
            "message A { optional int32 b = 2; optional int32 a = 1; }",
        ),
        (ORDER, sent(ORDER)),
        (ORDER, f"\n{sent(ORDER, name='schema.proto')}\n"),
    ],
)
def test_what_makes_no_difference(one, other):
    assert compiled(one, ()) == compiled(other, ())


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (ORDER, ORDER.replace("int64", "int32")),
        (ORDER, ORDER.replace("id", "number")),
        ("message A {} message B {}", "message B {} message A {}"),
        (
            'import public "google/protobuf/any.proto"; import "google/type/date.proto";',
            'import "google/protobuf/any.proto"; import public "google/type/date.proto";',
        ),
        ("enum E { A = 0; B = 1; }", "enum E { B = 1; A = 0; }"),
    ],
)
def test_what_makes_one(one, other):
    assert compiled(one, ()) != compiled(other, ())


def test_what_a_schema_uses_is_found_by_the_names_of_its_references():
    item = ("shop/item.proto", compiled('syntax = "proto3"; package shop; message Item {}', ()))
    cart = """syntax = "proto3"; package shop; import "shop/item.proto";
              message Cart { repeated Item items = 1; }"""
    basket = ("basket.proto", compiled(cart, (item,)))
    text = 'syntax = "proto3"; import "basket.proto"; message Shop { shop.Cart cart = 1; }'
    assert descriptor(text, item, basket).dependency == ["basket.proto"]
    assert compiled(sent(cart, item), (item,)) == basket[1]
    assert "shop/item.proto" in refused(cart)
    assert "shop/item.proto" in refused(text, basket), "what it uses is given as well"
    assert compiled(cart, (item, ("unused.proto", item[1]))), "or else Item were there twice"


def test_a_reference_may_have_the_name_that_the_compiler_gives():
    used = compiled("message A {}", ())
    text = 'import "schema.proto"; message B { optional A a = 1; }'
    assert compiled(text, (("schema.proto", used),))


@pytest.mark.parametrize("name", known())
def test_known_files_need_no_reference(name):
    assert compiled(f'import "{name}";', ())


def test_options_of_confluents_are_known():
    text = """syntax = "proto3"; import "confluent/meta.proto";
              import "confluent/types/decimal.proto";
              message A { confluent.type.Decimal price = 1 [(confluent.field_meta) = {
                params: [{key: "precision", value: "4"}] }]; }"""
    (field,) = descriptor(text).message_type[0].field
    assert field.type_name == ".confluent.type.Decimal"
    assert b"precision" in field.options.SerializeToString()


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ('syntax = "proto3";\nmessage A {\n  int32 = 1;\n}', "3:9: Expected field name."),
        ('syntax = "proto3"; message A { B b = 1; }', '1:32: "B" is not defined.'),
        (
            'syntax = "proto3"; message A { int32 a = 1; int32 b = 1; }',
            "Field number 1 has already",
        ),
        ('syntax = "proto4";', "proto4"),
        ("message A {" * 200, "recursion limit"),
        ("{}", "1:1: Expected"),
        ("", "it is empty"),
        (" \n", "it is empty"),
        ("// nothing", "it is empty"),
        ('syntax = "proto2";', "it is empty"),
        (base64.b64encode(b"\n\x01a").decode(), "it is empty"),
        ('"int"', "1:1: Expected"),
        ("message A {}\x00", "control characters"),
        ("message \u00e9 {}", "non ascii"),
        ("aGVsbG8=", "neither a .proto nor a descriptor"),
        ("aGVsbG", "neither a .proto nor a descriptor"),
        ('import "schema.proto";', "recursively imports itself"),
        ('option (mine) = "a";', '"(mine)" unknown'),
    ],
)
def test_what_is_no_schema_is_refused_with_line_column_and_cause(text, why):
    said = refused(text)
    assert why in said
    assert "/tmp" not in said
    assert "absl" not in said


def test_a_descriptor_that_does_not_hold_together_is_refused():
    file = descriptor(ORDER)
    file.message_type[0].field[0].type_name = ".shop.Nothing"
    assert "shop.Nothing" in refused(base64.b64encode(file.SerializeToString()).decode())


@pytest.mark.parametrize("up", ["", "../" * 12])
def test_no_file_of_the_machine_can_be_imported(tmp_path, up):
    secret = tmp_path / "secret.proto"
    secret.write_text("message Secret {}")
    path = f"{up}{secret if not up else str(secret).removeprefix('/')}"
    assert Path("/", path).resolve() == secret.resolve()
    text = f'import "{path}"; message A {{ optional Secret secret = 1; }}'
    assert "was not found" in refused(text)
    assert refused(text, (path, compiled("message Other {}", ())))
    file = FileDescriptorProto(message_type=[{"name": "A"}], dependency=[path])
    assert refused(base64.b64encode(file.SerializeToString()).decode())


def test_a_descriptor_longer_than_a_schema_may_be_is_refused():
    package = "p" * 500
    fields = "".join(f"A a{at} = {at};" for at in range(1, 2500))
    text = f'syntax = "proto3"; package {package}; message A {{ {fields} }}'
    assert len(text) < SCHEMA_BYTES_MAX // 20
    assert "longer than" in refused(text)


def test_what_the_compiler_prints_is_not_lost_nor_shown(capfd):
    refused("{}")
    compiled('import "google/protobuf/any.proto";', ())
    assert capfd.readouterr() == ("", "")
