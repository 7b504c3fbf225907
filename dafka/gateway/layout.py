"""How Kafka's messages are laid out in each version, by kio's schemas: the only importer of kio.

kio's schemas are generated from Kafka's own; those of two versions that it lacks are in
`early_schemas.py`. Its reader is not used: it allocates what a length in the message says, and a
process whose allocator refuses that is aborted. Here every length is held against what is left of
the message before anything is made of it.

A message is read into a namespace, and written from a mapping, under kio's names; times have their
unit behind them (`timeout_ms`), and are numbers. What an older version lacks is left out. Tagged
fields are passed over: none that matters here is one.
"""

from __future__ import annotations

import struct
import sys
from contextlib import contextmanager
from dataclasses import MISSING, Field, fields, is_dataclass
from datetime import timedelta
from functools import cache
from types import NoneType, SimpleNamespace
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias, get_args, get_origin
from uuid import UUID

from dafka.errors import RequestError
from dafka.gateway.early_schemas import EARLY_REQUESTS, EARLY_RESPONSES

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping


@contextmanager
def _without(name: str) -> Iterator[None]:
    """Let a package seem not to be installed, unless it is imported already."""
    hidden = sys.modules.setdefault(name, None) is None  # type: ignore[arg-type]
    try:
        yield
    finally:
        if hidden:
            del sys.modules[name]


# kio imports Hypothesis where it is installed, for its own tests: a third of a gateway's start.
with _without("hypothesis"):
    from kio.index import load_request_schema, load_response_schema

_FORMATS = {
    "bool": "?",
    "int8": "b",
    "int16": "h",
    "uint16": "H",
    "int32": "i",
    "int64": "q",
    "error_code": "h",
    "timedelta_i32": "i",
    "timedelta_i64": "q",
    "datetime_i64": "q",
}
"""Of `struct`, by kio's names."""

_TIMES = ("timedelta_i32", "timedelta_i64", "datetime_i64")
_NO_ID = UUID(int=0)
_I8 = struct.Struct(">b")
_I16 = struct.Struct(">h")
_I32 = struct.Struct(">i")
_VARINT_BYTES_MAX = 5
_NULL = -1

FieldValue: TypeAlias = Any
"""A number, a text, records, an id, or an array or structure of these."""


class RequestReader:
    """Reads off one message, checking every length against what is left first.

    Args:
        data: The message.
        items_max: Elements that all its arrays together may have.
    """

    __slots__ = ("_at", "_data", "_items_left")

    def __init__(self, data: bytes, items_max: int) -> None:
        self._data, self._at, self._items_left = data, 0, items_max

    @property
    def items_left(self) -> int:
        """Elements that arrays may still have."""
        return self._items_left

    def numbers(self, packed: struct.Struct) -> tuple[Any, ...]:
        """The next numbers, of a fixed size together."""
        at = self._at
        self._at = at + packed.size
        if self._at > len(self._data):
            raise RequestError("truncated")
        return packed.unpack_from(self._data, at)

    def varint(self) -> int:
        """The next number of seven bits a byte, the lowest first."""
        value = 0
        for place in range(_VARINT_BYTES_MAX):
            if self._at >= len(self._data):
                raise RequestError("truncated")
            octet = self._data[self._at]
            self._at += 1
            value |= (octet & 0x7F) << (7 * place)
            if octet < 0x80:
                return value
        raise RequestError("number")

    def octets(self, size: int) -> bytes:
        """The next so many bytes."""
        at = self._at
        self._at = at + size
        if self._at > len(self._data):
            raise RequestError("truncated")
        return self._data[at : self._at]

    def length(self, packed: struct.Struct | None, *, nullable: bool) -> int:
        """The next length, as a varint if no other format is given; -1 for null."""
        size = self.varint() - 1 if packed is None else int(self.numbers(packed)[0])
        if size < _NULL or (size == _NULL and not nullable):
            raise RequestError("length")
        return size

    def items(self, packed: struct.Struct | None, *, nullable: bool) -> int:
        """The length of an array, every element of which takes a byte at least."""
        count = self.length(packed, nullable=nullable)
        if count > len(self._data) - self._at:
            raise RequestError("truncated")
        self._items_left -= count
        if self._items_left < 0:
            raise RequestError("items")
        return count

    def pass_tags(self) -> None:
        """Leave out the tagged fields that stand here."""
        for _ in range(self.varint()):
            self.varint()
            self.octets(self.varint())


def _length(packed: struct.Struct | None, size: int) -> bytes:
    if packed is not None:
        return packed.pack(size)
    value, octets = size + 1, bytearray()
    while value > 0x7F:
        octets.append(value & 0x7F | 0x80)
        value >>= 7
    octets.append(value)
    return bytes(octets)


class _Kind(Protocol):
    """How a value is read and written; `default` is what is written where there is none."""

    default: FieldValue

    def read(self, reader: RequestReader) -> FieldValue: ...

    def write(self, pieces: list[bytes], value: FieldValue) -> None: ...


class _Number:
    default = 0

    def __init__(self, code: str) -> None:
        self.code = code
        self._packed = struct.Struct(f">{code}")

    def read(self, reader: RequestReader) -> FieldValue:
        return reader.numbers(self._packed)[0]

    def write(self, pieces: list[bytes], value: FieldValue) -> None:
        pieces.append(self._packed.pack(value))


class _Id:
    default = _NO_ID

    def read(self, reader: RequestReader) -> UUID:
        return UUID(bytes=reader.octets(16))

    def write(self, pieces: list[bytes], value: UUID) -> None:
        pieces.append(value.bytes)


_TEXT_BYTES_MAX = 32_767
"""Of a text, also where its length could be more: as Kafka has it. A character may take four times
what it took in the request."""


class _Text:
    def __init__(self, *, flexible: bool, nullable: bool) -> None:
        self.default = None if nullable else ""
        self._length = None if flexible else _I16
        self._nullable = nullable

    def read(self, reader: RequestReader) -> str | None:
        size = reader.length(self._length, nullable=self._nullable)
        if size > _TEXT_BYTES_MAX:
            raise RequestError("length")
        try:
            return None if size < 0 else reader.octets(size).decode()
        except UnicodeDecodeError as error:
            raise RequestError("text") from error

    def write(self, pieces: list[bytes], value: str | None) -> None:
        if value is None:
            pieces.append(_length(self._length, _NULL))
            return
        octets = value.encode("utf-8", "replace")
        if len(octets) > _TEXT_BYTES_MAX:
            # It says what a client has sent in other words, or with what stands for what is none.
            octets = octets[:_TEXT_BYTES_MAX].decode(errors="ignore").encode()
        pieces.append(_length(self._length, len(octets)))
        pieces.append(octets)


class _Records:
    """Record batches: read as one piece, written from several, which are not copied."""

    default = ()

    def __init__(self, *, flexible: bool, nullable: bool) -> None:
        self._length = None if flexible else _I32
        self._nullable = nullable

    def read(self, reader: RequestReader) -> bytes | None:
        size = reader.length(self._length, nullable=self._nullable)
        return None if size < 0 else reader.octets(size)

    def write(self, pieces: list[bytes], value: tuple[bytes, ...]) -> None:
        pieces.append(_length(self._length, sum(map(len, value))))
        pieces.extend(value)


class _Array:
    def __init__(self, inner: _Kind, *, flexible: bool, nullable: bool) -> None:
        self.default = None if nullable else ()
        self._inner = inner
        self._length = None if flexible else _I32
        self._nullable = nullable

    def read(self, reader: RequestReader) -> list[Any] | None:
        count = reader.items(self._length, nullable=self._nullable)
        return None if count < 0 else [self._inner.read(reader) for _ in range(count)]

    def write(self, pieces: list[bytes], value: FieldValue) -> None:
        if value is None:
            pieces.append(_length(self._length, _NULL))
            return
        pieces.append(_length(self._length, len(value)))
        for one in value:
            self._inner.write(pieces, one)


class _Nullable:
    """A structure that may be missing: a number says whether it is there."""

    default = None

    def __init__(self, inner: _Kind) -> None:
        self._inner = inner

    def read(self, reader: RequestReader) -> FieldValue:
        (there,) = reader.numbers(_I8)
        return None if there < 0 else self._inner.read(reader)

    def write(self, pieces: list[bytes], value: FieldValue) -> None:
        pieces.append(_I8.pack(_NULL if value is None else 1))
        if value is not None:
            self._inner.write(pieces, value)


class _Numbers:
    """Numbers that follow each other: one call for all of them."""

    def __init__(self) -> None:
        self._names: list[tuple[str, Any]] = []
        self._code = ">"

    def add(self, name: str, kind: _Number, default: FieldValue) -> None:
        self._names.append((name, default))
        self._code += kind.code
        self._packed = struct.Struct(self._code)

    def read(self, reader: RequestReader, values: dict[str, Any]) -> None:
        read = reader.numbers(self._packed)
        for (name, _), value in zip(self._names, read, strict=True):
            values[name] = value

    def write(self, pieces: list[bytes], value: Mapping[str, Any]) -> None:
        numbers = [value.get(name, default) for name, default in self._names]
        pieces.append(self._packed.pack(*numbers))


class _Named:
    """A field that is no number."""

    def __init__(self, name: str, kind: _Kind, default: FieldValue) -> None:
        self._name, self._kind, self._default = name, kind, default

    def read(self, reader: RequestReader, values: dict[str, Any]) -> None:
        values[self._name] = self._kind.read(reader)

    def write(self, pieces: list[bytes], value: Mapping[str, Any]) -> None:
        self._kind.write(pieces, value.get(self._name, self._default))


class Layout:
    """A message of one version, or a structure in one.

    Args:
        schema: kio's dataclass of it.
    """

    default: FieldValue = None

    def __init__(self, schema: type[Any]) -> None:
        self.flexible: bool = schema.__flexible__
        self._steps: list[_Numbers | _Named] = []
        for field in fields(schema):
            if "tag" in field.metadata:
                continue
            kind = _kind_of(field, flexible=self.flexible)
            name, default = _name_of(field), _default_of(field, kind)
            if not isinstance(kind, _Number):
                self._steps.append(_Named(name, kind, default))
                continue
            last = self._steps[-1] if self._steps else None
            if not isinstance(last, _Numbers):
                last = _Numbers()
                self._steps.append(last)
            last.add(name, kind, default)

    def read(self, reader: RequestReader) -> SimpleNamespace:
        """Read one.

        Raises:
            RequestError: There is none.
        """
        values: dict[str, Any] = {}
        for step in self._steps:
            step.read(reader, values)
        if self.flexible:
            reader.pass_tags()
        return SimpleNamespace(**values)

    def write(self, pieces: list[bytes], value: Mapping[str, Any]) -> None:
        """Append the pieces of one; what the version does not have is left out."""
        for step in self._steps:
            step.write(pieces, value)
        if self.flexible:
            pieces.append(b"\0")  # no tagged fields


def _kind_of(field: Field[Any], *, flexible: bool) -> _Kind:
    annotation: Any = field.type
    nullable = NoneType in get_args(annotation)
    if nullable:
        (annotation,) = (one for one in get_args(annotation) if one is not NoneType)
    if get_origin(annotation) is tuple:
        element: Any = get_args(annotation)[0]
        inner = _one_of(field, element, flexible=flexible, nullable=False)
        return _Array(inner, flexible=flexible, nullable=nullable)
    return _one_of(field, annotation, flexible=flexible, nullable=nullable)


def _one_of(field: Field[Any], annotation: object, *, flexible: bool, nullable: bool) -> _Kind:
    if is_dataclass(annotation):
        assert isinstance(annotation, type)
        return _Nullable(Layout(annotation)) if nullable else Layout(annotation)
    name = field.metadata["kafka_type"]
    match name:
        case "string":
            return _Text(flexible=flexible, nullable=nullable)
        case "bytes" | "records":
            return _Records(flexible=flexible, nullable=nullable)
        case "uuid":
            return _Id()
        case _:
            return _Number(_FORMATS[name])


def _name_of(field: Field[Any]) -> str:
    return f"{field.name}_ms" if field.metadata.get("kafka_type") in _TIMES else field.name


def _default_of(field: Field[Any], kind: _Kind) -> FieldValue:
    if field.metadata.get("kafka_type") == "datetime_i64":
        return -1  # no time
    if field.default is MISSING:
        return kind.default
    if isinstance(field.default, timedelta):
        return field.default // timedelta(milliseconds=1)
    return field.default


def request_schema(api: int, version: int) -> type[Any]:
    """The dataclass of a request; there has to be such a one."""
    return EARLY_REQUESTS.get((api, version)) or load_request_schema(api, version)


def response_schema(api: int, version: int) -> type[Any]:
    """The dataclass of the answer to such a request."""
    return EARLY_RESPONSES.get((api, version)) or load_response_schema(api, version)


@cache
def request_layout(api: int, version: int) -> Layout:
    """How a request is laid out; there has to be such a one."""
    return Layout(request_schema(api, version))


@cache
def response_layout(api: int, version: int) -> Layout:
    """How the answer to such a request is laid out."""
    return Layout(response_schema(api, version))
