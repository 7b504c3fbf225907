"""Avro's octets as columns, of all values at once: no Python object per value.

What is written with one schema and read with another is resolved field by field, before anything is
read. Logical types are what the reader says. Only values that have a place for everything can be
read so, which arrays and maps have not; they, and what is resolved in rarer ways, are left to
fastavro (`avro_values`).

Source: Apache Avro specification, "Binary Encoding", "Schema Resolution".
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import pyarrow as pa

from dafka.arrow.parsing import Spans, stretches, varints
from dafka.spark.confluent.avro_types import (
    PRIMITIVE,
    TIMES,
    AvroType,
    Field,
    NoSuchValueError,
    arrow_of,
    given,
)

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Integers = NDArray[np.int64]
    Octets = NDArray[np.uint8]


class UnevenError(Exception):
    """Such values have not a place for everything, or are resolved in a way that is not here."""


class AvroOctets(NamedTuple):
    """What is read: the octets, and the same as an array."""

    octets: bytes
    data: Octets


Step = Callable[[AvroOctets, "Integers", "Integers"], "tuple[Any, Integers]"]
"""Reads what stands at each place, all of it before the ends; returns it, and the places behind."""


def reading(writer: AvroType, reader: AvroType) -> Step:
    """Return what reads values of one schema as a column of another.

    It raises NoSuchValueError, RecordError or an error of Arrow's, where octets are no such values.

    Raises:
        UnevenError: That cannot be done for all values at once.
    """
    step = _record(writer, reader) if writer.kind == "record" else _scalar(writer, reader)
    if writer.null is None:
        return step
    return _optional(step, writer.null, arrow_of(reader), may_be_null=reader.null is not None)


def _optional(step: Step, null: int, kind: pa.DataType, *, may_be_null: bool) -> Step:
    def read(source: AvroOctets, at: Integers, end: Integers) -> tuple[pa.Array, Integers]:
        there, at, behind = _branches(source, at, end, null)
        if len(there) == len(at):
            return step(source, behind, end)
        if not may_be_null:
            raise NoSuchValueError("null, where its reader has none")
        values, at[there] = step(source, behind[there], end[there])
        rows = np.zeros(len(at), np.int64)
        rows[there] = np.arange(len(there))
        absent = np.ones(len(at), bool)
        absent[there] = False
        if not len(there):
            return pa.nulls(len(at), kind), at
        return values.take(pa.array(rows, mask=absent)), at

    return read


def _branches(
    source: AvroOctets, at: Integers, end: Integers, null: int
) -> tuple[Integers, Integers, Integers]:
    """Which of them are not null; the places behind the branch, to change and to read from."""
    branch, behind = varints(source.data, at, end)
    if ((branch != 0) & (branch != 1)).any():
        raise NoSuchValueError("another branch than a union has")
    return np.flatnonzero(branch != null), behind.copy(), behind


def _record(writer: AvroType, reader: AvroType) -> Step:
    """Fields stand in the writer's order; the column has the reader's."""
    if reader.kind != "record" or writer.name not in (reader.name, *reader.aliases):
        raise UnevenError
    sources = {_source_of(field, writer): field for field in reader.fields}
    missing = [field for field in reader.fields if _source_of(field, writer) is None]
    if not all(field.optional for field in missing):
        raise UnevenError
    steps: list[tuple[str | None, Step]] = []
    for field in writer.fields:
        target = sources.get(field.name)
        if target is None:
            steps.append((None, _passing(field.kind)))
        else:
            steps.append((target.name, reading(field.kind, target.kind)))
    kinds = [pa.field(field.name, arrow_of(field.kind)) for field in reader.fields]

    def read(source: AvroOctets, at: Integers, end: Integers) -> tuple[pa.Array, Integers]:
        columns: dict[str, pa.Array] = {}
        for name, step in steps:
            value, at = step(source, at, end)
            if name is not None:
                columns[name] = value
        for field in missing:
            columns[field.name] = pa.repeat(given(field), len(at))
        if not kinds:
            return pa.array([{}] * len(at), pa.struct([])), at
        return pa.StructArray.from_arrays([columns[one.name] for one in kinds], fields=kinds), at

    return read


def _source_of(field: Field, writer: AvroType) -> str | None:
    """The name of the writer's field that a reader's one is read from."""
    names = {one.name for one in writer.fields}
    return next((name for name in (field.name, *field.aliases) if name in names), None)


def _passing(writer: AvroType) -> Step:
    """What reads past values that nobody wants."""
    if writer.kind == "record":
        step = _passing_all([_passing(field.kind) for field in writer.fields])
    else:
        step = _places(writer)
    null = writer.null
    if null is None:
        return step

    def read(source: AvroOctets, at: Integers, end: Integers) -> tuple[None, Integers]:
        there, at, behind = _branches(source, at, end, null)
        _, at[there] = step(source, behind[there], end[there])
        return None, at

    return read


def _passing_all(steps: list[Step]) -> Step:
    def read(source: AvroOctets, at: Integers, end: Integers) -> tuple[None, Integers]:
        for step in steps:
            _, at = step(source, at, end)
        return None, at

    return read


def _scalar(writer: AvroType, reader: AvroType) -> Step:
    places, column = _places(writer), _column(writer, reader)

    def read(source: AvroOctets, at: Integers, end: Integers) -> tuple[pa.Array, Integers]:
        raw, at = places(source, at, end)
        return column(source, raw), at

    return read


def _places(writer: AvroType) -> Step:
    """What reads numbers as they are, and of octets where they stand."""
    match writer.kind:
        case "int" | "long" | "enum":
            return lambda source, at, end: varints(source.data, at, end)
        case "string" | "bytes":
            return _lengths
        case "boolean":
            return _sized(1, np.dtype(np.uint8))
        case "float":
            return _sized(4, np.dtype("<f4"))
        case "double":
            return _sized(8, np.dtype("<f8"))
        case "fixed":
            return _fixed(writer.size)
        case "null":
            return lambda _source, at, _end: (np.zeros(len(at), np.uint8), at)
        case _:
            raise UnevenError


def _lengths(source: AvroOctets, at: Integers, end: Integers) -> tuple[Spans, Integers]:
    length, at = varints(source.data, at, end)
    if ((length < 0) | (length > end - at)).any():
        raise NoSuchValueError("longer than what is there")
    return Spans(at, length), at + length


def _fixed(size: int) -> Step:
    def read(_source: AvroOctets, at: Integers, end: Integers) -> tuple[Spans, Integers]:
        if (at + size > end).any():
            raise NoSuchValueError("longer than what is there")
        return Spans(at, np.full(len(at), size)), at + size

    return read


def _sized(size: int, kind: np.dtype[Any]) -> Step:
    def read(source: AvroOctets, at: Integers, end: Integers) -> tuple[NDArray[Any], Integers]:
        if (at + size > end).any():
            raise NoSuchValueError("longer than what is there")
        octets = source.data[at[:, None] + np.arange(size)]
        return octets.reshape(-1).view(kind), at + size

    return read


Column = Callable[[AvroOctets, Any], pa.Array]

_PROMOTED = {
    "int": ("int", "long", "float", "double"),
    "long": ("long", "float", "double"),
    "float": ("float", "double"),
    "string": ("string", "bytes"),
    "bytes": ("bytes", "string"),
}


def _column(writer: AvroType, reader: AvroType) -> Column:
    """What makes a column of what was read."""
    if reader.logical == "decimal":
        raise UnevenError
    if writer.kind == "enum" and reader.kind == "enum":
        return _symbols(writer, reader)
    if writer.kind == "fixed" and reader.kind == "fixed" and writer.size == reader.size:
        if writer.name not in (reader.name, *reader.aliases):
            raise UnevenError
        return lambda source, raw: stretches(source.octets, raw)
    if reader.kind not in _PROMOTED.get(writer.kind, (writer.kind,)) or reader.kind == "enum":
        raise UnevenError
    kind = arrow_of(reader)
    if writer.kind in ("string", "bytes"):
        return lambda source, raw: stretches(source.octets, raw).cast(kind)
    if reader.logical:
        return _times(reader)
    return _numbers(writer.kind, kind)


def _numbers(written: str, kind: pa.DataType) -> Column:
    def column(_source: AvroOctets, raw: NDArray[Any]) -> pa.Array:
        if written == "null":
            return pa.nulls(len(raw), kind)
        if written == "boolean" and (raw > 1).any():
            raise NoSuchValueError("neither true nor false")
        numbers = pa.array(raw)
        if written == "int":  # what does not fit is none
            numbers = numbers.cast(PRIMITIVE["int"])
        return numbers.cast(kind, safe=False)

    return column


def _times(reader: AvroType) -> Column:
    base, units, kind = TIMES[reader.logical]
    bound = (1 << (31 if base == "int" else 63)) // units

    def column(_source: AvroOctets, raw: Integers) -> pa.Array:
        if ((raw >= bound) | (raw < -bound)).any():
            raise NoSuchValueError("a time out of range")
        return pa.array(raw * units).cast(PRIMITIVE[base]).view(kind)

    return column


def _symbols(writer: AvroType, reader: AvroType) -> Column:
    if writer.name not in (reader.name, *reader.aliases):
        raise UnevenError
    known = set(reader.symbols)
    symbols = [one if one in known else reader.default for one in writer.symbols]
    names = pa.array(symbols, pa.string())

    def column(_source: AvroOctets, raw: Integers) -> pa.Array:
        if ((raw < 0) | (raw >= len(symbols))).any():
            raise NoSuchValueError("a symbol that is not known")
        found = names.take(pa.array(raw))
        if found.null_count:
            raise NoSuchValueError("a symbol that is not known")
        return found

    return column
