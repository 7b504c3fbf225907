"""Avro one value after the other, by fastavro: what `avro_reading` and `avro_writing` leave."""

from __future__ import annotations

import io
import json
import struct
from typing import TYPE_CHECKING, Any, NamedTuple

from fastavro import schemaless_reader, schemaless_writer
from fastavro.read import SchemaResolutionError
from fastavro.schema import SchemaParseException, UnknownType, parse_schema

from dafka.errors import MisuseError
from dafka.spark.confluent.avro_types import AvroType, NoSuchValueError, type_of

if TYPE_CHECKING:
    from collections.abc import Sequence


class ParsedSchema(NamedTuple):
    """A schema as fastavro has it, without logical types, and the type it describes."""

    parsed: Any
    kind: AvroType


def schema_of(text: str, uses: Sequence[str] = ()) -> ParsedSchema:
    """Read a schema.

    Args:
        text: JSON.
        uses: The texts of schemas it refers to, each behind those that it uses itself.

    Raises:
        MisuseError: It is none, or what it describes is no column.
    """
    full: dict[str, Any] = {}
    bare: dict[str, Any] = {}
    try:
        for used in uses:
            parse_schema(json.loads(used), named_schemas=full)
            parse_schema(_without_logical(json.loads(used)), named_schemas=bare)
        described = parse_schema(json.loads(text), named_schemas=full)
        parsed = parse_schema(_without_logical(json.loads(text)), named_schemas=bare)
    except (ValueError, SchemaParseException, UnknownType, KeyError, TypeError) as error:
        raise MisuseError(f"this is no Avro schema: {error!r}: {text[:200]}") from error
    return ParsedSchema(parsed, type_of(described, full))


def _without_logical(schema: Any) -> Any:  # noqa: ANN401 (JSON)
    if isinstance(schema, list):
        return [_without_logical(one) for one in schema]
    if not isinstance(schema, dict):
        return schema
    return {
        name: value if name in ("default", "symbols", "aliases") else _without_logical(value)
        for name, value in schema.items()
        if name != "logicalType"
    }


_FAILURES = (
    *(EOFError, LookupError, TypeError, ValueError, ArithmeticError, AttributeError),
    *(RecursionError, MemoryError, struct.error, SchemaResolutionError),
)
"""What fastavro raises where octets or values are not what a schema says."""


def read(octets: bytes, writer: ParsedSchema, reader: ParsedSchema) -> Any:  # noqa: ANN401
    """Return one value.

    Raises:
        NoSuchValueError: Octets are none, or the schemas do not fit.
    """
    try:
        return schemaless_reader(io.BytesIO(octets), writer.parsed, reader.parsed)
    except _FAILURES as error:
        raise NoSuchValueError(f"{type(error).__name__}: {error}") from error


def written(value: Any, schema: ParsedSchema) -> bytes:  # noqa: ANN401
    """Return one value's octets.

    Raises:
        MisuseError: It is none of the schema's.
    """
    into = io.BytesIO()
    try:
        schemaless_writer(into, schema.parsed, value)
    except _FAILURES as error:
        raise MisuseError(f"Avro: {value!r:.200} does not fit its schema: {error}") from error
    return into.getvalue()
