"""Avro's types as values, and what they are in Arrow and in Spark.

| Avro | Spark |
|---|---|
| boolean, int, long, float, double | BOOLEAN, INT, BIGINT, FLOAT, DOUBLE |
| string, bytes | STRING, BINARY |
| fixed, enum | BINARY, STRING |
| record, array, map | STRUCT, ARRAY, MAP |
| a type or null | the type |
| date, decimal | DATE, DECIMAL |
| timestamp-millis, timestamp-micros | TIMESTAMP |
| local-timestamp-millis, local-timestamp-micros | TIMESTAMP_NTZ |

Another logical type is the type below it. Other unions, and types that contain themselves, are no
column. Source: Apache Avro specification.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from decimal import Context, Decimal
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from dafka.errors import DafkaError, MisuseError

if TYPE_CHECKING:
    from collections.abc import Mapping

PRIMITIVE: dict[str, pa.DataType] = {
    "boolean": pa.bool_(),
    "int": pa.int32(),
    "long": pa.int64(),
    "float": pa.float32(),
    "double": pa.float64(),
    "string": pa.string(),
    "bytes": pa.binary(),
    "fixed": pa.binary(),
    "enum": pa.string(),
    "null": pa.null(),
}

TIMES: dict[str, tuple[str, int, pa.DataType]] = {
    "date": ("int", 1, pa.date32()),
    "timestamp-millis": ("long", 1_000, pa.timestamp("us", "UTC")),
    "timestamp-micros": ("long", 1, pa.timestamp("us", "UTC")),
    "local-timestamp-millis": ("long", 1_000, pa.timestamp("us")),
    "local-timestamp-micros": ("long", 1, pa.timestamp("us")),
}
"""Logical types that count: the type below, how many of Arrow's units one is, and Arrow's type."""

DECIMAL_DIGITS_MAX = 38
"""More Spark does not have."""

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)

_DIGITS = Context(prec=2 * DECIMAL_DIGITS_MAX)


class NoSuchValueError(DafkaError):
    """A value is none of what its schema describes."""


@dataclass(frozen=True, slots=True)
class Field:
    """One of a record's.

    Attributes:
        name: Its name.
        kind: What it holds.
        aliases: Names it may have in data that was written with another schema.
        default: What it is where data has none, as JSON; only if `optional`.
        optional: Whether it has a default.
    """

    name: str
    kind: AvroType
    aliases: tuple[str, ...] = ()
    default: Any = None
    optional: bool = False


@dataclass(frozen=True, slots=True)
class AvroType:
    """A type, with everything it uses.

    Attributes:
        kind: Its name in the specification; for a type or null, that of the type.
        null: Which branch of the union is null; None if it is none.
        name: Of a record, enum or fixed, without its namespace.
        aliases: Its other names, likewise.
        logical: The logical type, if it is one of those above; else empty.
        size: Of a fixed, in bytes.
        precision, scale: Of a decimal.
        symbols: Of an enum.
        default: Of an enum: the symbol for those it does not know.
        fields: Of a record.
        items: Of an array, or the values of a map.
    """

    kind: str
    null: int | None = None
    name: str = ""
    aliases: tuple[str, ...] = ()
    logical: str = ""
    size: int = 0
    precision: int = 0
    scale: int = 0
    symbols: tuple[str, ...] = ()
    default: str | None = None
    fields: tuple[Field, ...] = ()
    items: AvroType | None = None


def type_of(schema: Any, named: Mapping[str, Any]) -> AvroType:  # noqa: ANN401 (JSON)
    """Return the type that a parsed schema describes.

    Args:
        schema: As fastavro gives it: with full names.
        named: The same of all types it refers to.

    Raises:
        MisuseError: It is no column; the message says where.
    """
    return _AvroTypes(named).of(schema, "value", ())


class _AvroTypes:
    def __init__(self, named: Mapping[str, Any]) -> None:
        self._named = named

    def of(self, schema: Any, where: str, within: tuple[str, ...]) -> AvroType:  # noqa: ANN401
        if isinstance(schema, list):
            return self._union(schema, where, within)
        if isinstance(schema, str):
            if schema in PRIMITIVE:
                return AvroType(schema)
            if schema in within:
                raise MisuseError(f"Avro: {where} is of type {schema!r}, which contains itself")
            return self.of(self._named[schema], where, within)
        kind = schema["type"]
        if isinstance(kind, dict | list):
            return self.of(kind, where, within)
        if kind in ("record", "error"):
            return self._record(schema, where, within)
        if kind in ("array", "map"):
            items = self.of(schema["items" if kind == "array" else "values"], f"{where}[]", within)
            if _empty(items):
                raise MisuseError(f"Avro: {where} holds items that have no octets")
            return AvroType(kind, items=items)
        return self._scalar(kind, schema, where, within)

    def _union(self, branches: list[Any], where: str, within: tuple[str, ...]) -> AvroType:
        if len(branches) == 1:
            raise MisuseError(f"Avro: {where} is a union of one type, which is no column")
        if len(branches) != 2 or "null" not in branches:
            names = ", ".join(one if isinstance(one, str) else one["type"] for one in branches)
            raise MisuseError(
                f"Avro: {where} is one of {names}: only a type or null can be a column"
            )
        null = branches.index("null")
        kind = self.of(branches[1 - null], where, within)
        return replace(kind, null=null)

    def _record(self, schema: Any, where: str, within: tuple[str, ...]) -> AvroType:  # noqa: ANN401
        within = (*within, schema["name"])
        fields = tuple(
            Field(
                field["name"],
                self.of(field["type"], f"{where}.{field['name']}", within),
                tuple(field.get("aliases", ())),
                field.get("default"),
                "default" in field,
            )
            for field in schema["fields"]
        )
        return AvroType(
            "record", name=_short(schema["name"]), aliases=_aliases(schema), fields=fields
        )

    def _scalar(self, kind: str, schema: Any, where: str, within: tuple[str, ...]) -> AvroType:  # noqa: ANN401
        if kind == "enum":
            return AvroType(
                kind,
                name=_short(schema["name"]),
                aliases=_aliases(schema),
                symbols=tuple(schema["symbols"]),
                default=schema.get("default"),
            )
        if kind not in PRIMITIVE:
            return self.of(kind, where, within)
        named = kind == "fixed"
        return AvroType(
            kind,
            name=_short(schema["name"]) if named else "",
            aliases=_aliases(schema) if named else (),
            size=schema["size"] if named else 0,
            **_logical(kind, schema),
        )


def _logical(kind: str, schema: Any) -> dict[str, Any]:  # noqa: ANN401
    """What a schema's logical type adds; nothing where it does not fit, as the standard says."""
    logical = schema.get("logicalType", "")
    if logical in TIMES and TIMES[logical][0] == kind:
        return {"logical": logical}
    if logical == "decimal" and kind in ("bytes", "fixed"):
        precision, scale = schema.get("precision", 0), schema.get("scale", 0)
        if 0 < precision <= DECIMAL_DIGITS_MAX and 0 <= scale <= precision:
            return {"logical": logical, "precision": precision, "scale": scale}
    return {}


def _empty(kind: AvroType) -> bool:
    """Whether any number of such values takes no room: nothing would bound how many there are."""
    if kind.null is not None:
        return False
    if kind.kind == "record":
        return all(_empty(field.kind) for field in kind.fields)
    return kind.kind == "null" or (kind.kind == "fixed" and not kind.size)


def _short(name: str) -> str:
    return name.rpartition(".")[2]


def _aliases(schema: Any) -> tuple[str, ...]:  # noqa: ANN401
    return tuple(_short(alias) for alias in schema.get("aliases", ()))


def arrow_of(kind: AvroType) -> pa.DataType:
    """The Arrow type of a column of such values."""
    if kind.kind == "record":
        return pa.struct([pa.field(field.name, arrow_of(field.kind)) for field in kind.fields])
    if kind.items is not None:
        items = arrow_of(kind.items)
        return pa.list_(items) if kind.kind == "array" else pa.map_(pa.string(), items)
    if kind.logical == "decimal":
        return pa.decimal128(kind.precision, kind.scale)
    if kind.logical:
        return TIMES[kind.logical][2]
    return PRIMITIVE[kind.kind]


def given(field: Field) -> pa.Scalar:
    """What a field holds that data does not have."""
    return pa.scalar(plain(field.kind, _default(field.kind, field.default)), arrow_of(field.kind))


def plain(kind: AvroType, value: Any) -> Any:  # noqa: ANN401 (what Avro has)
    """A value without logical types, as Arrow takes one of the type's columns."""
    if value is None:
        return None
    if kind.kind == "record":
        return {field.name: plain(field.kind, value[field.name]) for field in kind.fields}
    if kind.items is not None:
        if kind.kind == "array":
            return [plain(kind.items, item) for item in value]
        return [(name, plain(kind.items, item)) for name, item in value.items()]
    if kind.logical == "decimal":
        return Decimal(int.from_bytes(value, "big", signed=True)).scaleb(-kind.scale, _DIGITS)
    if kind.logical:
        return value * TIMES[kind.logical][1]
    return value


def _default(kind: AvroType, value: Any) -> Any:  # noqa: ANN401 (JSON)
    """A default, which stands in JSON: octets as characters, a union's as one of its first type."""
    if value is None or kind.null == 0:
        return None
    if kind.kind == "record":
        return {
            field.name: _default(field.kind, value.get(field.name, field.default))
            for field in kind.fields
        }
    if kind.items is not None:
        if kind.kind == "array":
            return [_default(kind.items, item) for item in value]
        return {name: _default(kind.items, item) for name, item in value.items()}
    return value.encode("latin-1") if kind.kind in ("bytes", "fixed") else value


def raw(kind: AvroType, value: Any) -> Any:  # noqa: ANN401 (what Arrow gives)
    """The reverse of `plain`."""
    if value is None:
        return None
    if kind.kind == "record":
        return {field.name: raw(field.kind, value[field.name]) for field in kind.fields}
    if kind.items is not None:
        if kind.kind == "array":
            return [raw(kind.items, item) for item in value]
        return {name: raw(kind.items, item) for name, item in value}
    if kind.logical == "decimal":
        number = int(value.scaleb(kind.scale, _DIGITS))
        size = kind.size or (~number if number < 0 else number).bit_length() // 8 + 1
        return number.to_bytes(size, "big", signed=True)
    if kind.logical == "date":
        return (value - _EPOCH.date()).days
    if kind.logical:
        since = value - (_EPOCH if value.tzinfo else _EPOCH.replace(tzinfo=None))
        return since // timedelta(microseconds=TIMES[kind.logical][1])
    return value


def aligned(column: pa.Array, kind: AvroType, where: str) -> pa.Array:
    """Bring a column to the Arrow type of a schema: its fields by name, its numbers as wide.

    Raises:
        MisuseError: It does not fit; the message says where.
    """
    target = arrow_of(kind)
    if kind.kind == "record" and pa.types.is_struct(column.type):
        names = [field.name for field in kind.fields]
        there = [one.name for one in column.type]
        for name in there:
            if name not in names or there.count(name) > 1:
                raise MisuseError(f"Avro: {where} has a field {name!r}, its schema {names}")
        parts = dict(zip(there, column.flatten(), strict=True))
        children = []
        for field in kind.fields:
            if field.name not in parts and not field.optional:
                raise MisuseError(f"Avro: {where} has no field {field.name!r}, only {there}")
            children.append(
                aligned(parts[field.name], field.kind, f"{where}.{field.name}")
                if field.name in parts
                else pa.repeat(given(field), len(column))
            )
        return pa.StructArray.from_arrays(children, fields=list(target), mask=column.is_null())
    try:
        return column.cast(target)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
        raise MisuseError(
            f"Avro: {where} is {column.type}, which is not {target}: {error}"
        ) from error
