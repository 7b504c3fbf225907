"""Protobuf: from the text of a schema to its descriptor. The only importer of grpc_tools.

The compiler is protoc. It reads and writes files, in a folder that each run has for itself: there
is nothing in it but the schema, so no import leads to another file of the machine.
"""

from __future__ import annotations

import base64
import binascii
import os
import re
from functools import cache
from importlib import import_module
from pathlib import Path
from tempfile import TemporaryDirectory
from threading import Lock
from typing import TYPE_CHECKING

from google.protobuf.descriptor_pb2 import DescriptorProto, FileDescriptorProto, FileDescriptorSet
from google.protobuf.message import DecodeError
from grpc_tools import _protoc_compiler

from dafka.limits import SCHEMA_BYTES_MAX

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

Uses = tuple[tuple[str, str], ...]
"""Name and descriptor of each schema another one uses."""

_GOOGLES = {
    "google.protobuf": (
        *("any", "api", "descriptor", "duration", "empty", "field_mask", "source_context"),
        *("struct", "timestamp", "type", "wrappers"),
    ),
    "google.type": (
        *("calendar_period", "color", "date", "datetime", "dayofweek", "decimal", "expr"),
        *("fraction", "interval", "latlng", "localized_text", "money", "month", "phone_number"),
        *("postal_address", "quaternion", "timeofday"),
    ),
}

_CONFLUENTS = {
    "confluent/meta.proto": """
        syntax = "proto3";
        package confluent;
        import "google/protobuf/descriptor.proto";
        message Meta {
          string doc = 1; map<string, string> params = 2; repeated string tags = 3;
          repeated Rule rules = 4;
        }
        message Rule { string name = 1; string doc = 2; string expr = 3; string sql = 4; }
        extend google.protobuf.FileOptions { Meta file_meta = 1088; }
        extend google.protobuf.MessageOptions { Meta message_meta = 1088; }
        extend google.protobuf.FieldOptions { Meta field_meta = 1088; }
        extend google.protobuf.EnumOptions { Meta enum_meta = 1088; }
        extend google.protobuf.EnumValueOptions { Meta enum_value_meta = 1088; }
    """,
    "confluent/type/decimal.proto": """
        syntax = "proto3";
        package confluent.type;
        message Decimal { bytes value = 1; uint32 precision = 2; int32 scale = 3; }
    """,
    "confluent/type/variant.proto": """
        syntax = "proto3";
        package confluent.type;
        message Variant { bytes metadata = 1; bytes value = 2; }
    """,
    "confluent/types/decimal.proto": """
        syntax = "proto3";
        import public "confluent/type/decimal.proto";
    """,
}
"""Clients of Confluent's take these for known, and refer to none of them."""

_BASE64 = re.compile(r"[A-Za-z0-9+/]+={0,2}")
"""No text of Protobuf looks like that: there is a semicolon or a brace in each."""

_LOGGED = re.compile(r"WARNING: All log messages|[IWEF]\d{4} ")
"""What protoc's libraries print by themselves."""

_PRINTED_BYTES_MAX = 64 * 1024
"""Of what protoc says; it has something to say of every line of some schemas."""

_STDERR = 2

_one_at_a_time = Lock()
"""A process has one standard error, where protoc says what is wrong."""


def compiled(text: str, uses: Uses) -> str:
    """Return the descriptor of a schema in base64, the same for all texts that mean the same.

    Args:
        text: A .proto, or a descriptor in base64 as some clients send it.
        uses: What it refers to; others than these and the known files cannot be imported.

    Raises:
        ValueError: It is no schema; the message names line, column and cause.
    """
    found = _descriptor(text, {**known(), **read(uses)})
    octets = _normal(found).SerializeToString(deterministic=True)
    if not octets:
        raise ValueError("it is empty")
    if len(octets) > SCHEMA_BYTES_MAX:
        raise ValueError(f"its descriptor is longer than {SCHEMA_BYTES_MAX} bytes")
    return base64.b64encode(octets).decode()


@cache
def known() -> Mapping[str, FileDescriptorProto]:
    """Return the files that every schema may import, by name."""
    files: dict[str, FileDescriptorProto] = {}
    for package, names in _GOOGLES.items():
        for name in names:
            file = FileDescriptorProto()
            import_module(f"{package}.{name}_pb2").DESCRIPTOR.CopyToProto(file)
            files[file.name] = file
    for name, text in _CONFLUENTS.items():
        file = _descriptor(text, files)
        file.name = name
        files[name] = file
    return files


def read(uses: Iterable[tuple[str, str]]) -> dict[str, FileDescriptorProto]:
    """Return descriptors by the names that others use for them.

    Raises:
        ValueError: One is none.
    """
    return {name: _parsed(name, descriptor) for name, descriptor in uses}


def _parsed(name: str, text: str) -> FileDescriptorProto:
    try:
        file = FileDescriptorProto.FromString(base64.b64decode(text, validate=True))
    except (binascii.Error, DecodeError) as error:
        raise ValueError("it is neither a .proto nor a descriptor in base64") from error
    file.name = name
    return file


def _descriptor(text: str, files: Mapping[str, FileDescriptorProto]) -> FileDescriptorProto:
    """Compile a schema beside files that it may import."""
    own = "schema.proto"
    while own in files:
        own = f"_{own}"
    beside = FileDescriptorSet()
    given = None
    if _BASE64.fullmatch(text.strip()):
        given = _parsed(own, text.strip())
        beside.file.append(given)
    imported = given.dependency if given is not None else [name for name in files if name in text]
    beside.file.extend(_reachable(imported, files))
    with TemporaryDirectory() as folder:
        ours, others, out = (Path(folder) / name for name in ("own", "others", "out"))
        ours.mkdir()
        options = [f"--descriptor_set_in={others}", f"--descriptor_set_out={out}"]
        if given is None:
            (ours / own).write_text(text)
            options.append(f"-I{ours}")
        others.write_bytes(beside.SerializeToString())
        wrong = _run([*options, own], Path(folder) / "errors")
        if wrong is not None:
            raise ValueError(_causes(wrong.replace(f"{ours}/", ""), own))
        return FileDescriptorSet.FromString(out.read_bytes()).file[0]


def _reachable(
    names: Iterable[str], files: Mapping[str, FileDescriptorProto]
) -> list[FileDescriptorProto]:
    """Those of some files that may be imported, with those they import, and so on.

    Only these are given to the compiler: it refuses any two files that define one name.
    """
    waiting, found = list(names), dict[str, FileDescriptorProto]()
    while waiting:
        name = waiting.pop()
        if name in files and name not in found:
            found[name] = files[name]
            waiting += files[name].dependency
    return list(found.values())


def _run(arguments: Sequence[str], errors: Path) -> str | None:
    """Run protoc; return what it finds wrong, None if nothing."""
    with _one_at_a_time, errors.open("wb") as file:
        before = os.dup(_STDERR)
        os.dup2(file.fileno(), _STDERR)
        try:
            code = _protoc_compiler.run_main([one.encode() for one in ("protoc", *arguments)])
        finally:
            os.dup2(before, _STDERR)
            os.close(before)
    if not code:
        return None
    with errors.open("rb") as file:
        return file.read(_PRINTED_BYTES_MAX).decode(errors="replace")


def _causes(printed: str, own: str) -> str:
    """What is wrong with a schema, in its lines and columns."""
    lines = [
        line.removeprefix(f"{own}:").strip()
        for line in printed.splitlines()
        if not _LOGGED.match(line) and ": warning: " not in line
    ]
    return "; ".join(lines) or "protoc refuses it and does not say why"


def _normal(file: FileDescriptorProto) -> FileDescriptorProto:
    """Leave out what makes no difference: the name, where things stood, and in which order.

    Messages stay in theirs: a record names the one it is by its number.
    """
    file.ClearField("name")
    file.ClearField("source_code_info")
    before = list(file.dependency)
    after = sorted(before)
    file.dependency[:] = after
    for places in (file.public_dependency, file.weak_dependency):
        places[:] = sorted(after.index(before[place]) for place in places)
    for message in file.message_type:
        _sort_fields(message)
    return file


def _sort_fields(message: DescriptorProto) -> None:
    message.field.sort(key=lambda field: field.number)
    for nested in message.nested_type:
        _sort_fields(nested)
