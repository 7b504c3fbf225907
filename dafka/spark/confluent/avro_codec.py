"""Columns of framed values, by the schemas of a registry: a batch of rows at once.

Rows of one schema are read together. Where that is impossible, or one of them cannot be read, each
of them is read alone, so that the error, or the null, is that row's.
"""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import pyarrow as pa

from dafka.errors import MisuseError, RecordError
from dafka.serializers.framing import HEAD_BYTES, head_of
from dafka.serializers.registry import UnknownSchemaError
from dafka.spark.confluent import avro_values
from dafka.spark.confluent.avro_reading import AvroOctets, UnevenError, reading
from dafka.spark.confluent.avro_types import NoSuchValueError, aligned, arrow_of, plain, raw
from dafka.spark.confluent.avro_values import ParsedSchema, schema_of
from dafka.spark.confluent.avro_writing import joined, writing

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from dafka.serializers.registry import RegisteredSchema
    from dafka.spark.confluent.avro_reading import Step
    from dafka.spark.confluent.avro_writing import Writing

SCHEMAS_MAX = 1_000
"""Schemas that a process remembers how to read or write."""


class _Resolved(NamedTuple):
    """How values of one schema become a column of another."""

    writer: ParsedSchema
    reader: ParsedSchema
    step: Step | None
    """None where they have to be read one by one."""


@lru_cache(SCHEMAS_MAX)
def _way(writer: RegisteredSchema, reader: RegisteredSchema) -> _Resolved:
    if writer.language != "AVRO":
        raise MisuseError(f"schema {writer.id} is {writer.language}, not AVRO")
    schemas = schema_of(writer.text, writer.uses), schema_of(reader.text, reader.uses)
    try:
        return _Resolved(*schemas, reading(schemas[0].kind, schemas[1].kind))
    except UnevenError:
        return _Resolved(*schemas, None)


def decoded(
    values: pa.Array,
    find: Callable[[int], RegisteredSchema],
    reader: RegisteredSchema,
    *,
    permissive: bool,
) -> pa.Array:
    """Read framed values as a column.

    Args:
        values: Binaries; nulls stay nulls.
        find: Returns the schema of an id.
        reader: What the column shall be like.
        permissive: Whether what cannot be read is null.

    Raises:
        NoSuchValueError: A value cannot be read, and shall be; the message says which and why.
    """
    kind = arrow_of(schema_of(reader.text, reader.uses).kind)
    framed, rows = _framed(values, permissive=permissive)
    columns: list[pa.Array] = []
    places: list[NDArray[np.int64]] = []
    for id_ in np.unique(framed.ids):
        chosen = np.flatnonzero(framed.ids == id_)
        column = _read(framed, chosen, int(id_), find, reader, permissive=permissive)
        columns.append(column)
        places.append(rows[chosen])
    if not columns:
        return pa.nulls(len(values), kind)
    at = np.zeros(len(values), np.int64)
    absent = np.ones(len(values), bool)
    found = np.concatenate(places)
    at[found], absent[found] = np.arange(len(found)), False
    return pa.concat_arrays(columns).take(pa.array(at, mask=absent))


class _Framed(NamedTuple):
    source: AvroOctets
    at: NDArray[np.int64]
    end: NDArray[np.int64]
    ids: NDArray[np.int64]


def _framed(values: pa.Array, *, permissive: bool) -> tuple[_Framed, NDArray[np.int64]]:
    """Where the values begin behind their heads, their ids, and in which rows they are."""
    count = len(values)
    content = values.buffers()[2] if count else None
    octets = content.to_pybytes() if content is not None else b""
    data = np.frombuffer(octets, np.uint8)
    bounds = np.zeros(1, np.int64)
    if count:
        bounds = np.frombuffer(values.buffers()[1], np.int32).astype(np.int64)
        bounds = bounds[values.offset : values.offset + count + 1]
    rows = np.flatnonzero(values.is_valid().to_numpy(zero_copy_only=False))
    at, end = bounds[rows], bounds[rows + 1]
    good = end - at >= HEAD_BYTES
    good[good] = data[at[good]] == 0
    if not good.all() and not permissive:
        row = int(np.flatnonzero(~good)[0])
        begins = octets[at[row] : min(at[row] + 8, end[row])]
        raise NoSuchValueError(
            f"a value begins with {begins.hex() or 'nothing'}, not with 00 and the id of a schema: "
            "it was not written by a serializer of Confluent's"
        )
    at, end, rows = at[good], end[good], rows[good]
    heads = data[at[:, None] + np.arange(1, HEAD_BYTES)].reshape(-1).view(">u4")
    return _Framed(AvroOctets(octets, data), at + HEAD_BYTES, end, heads.astype(np.int64)), rows


def _read(
    framed: _Framed,
    chosen: NDArray[np.int64],
    id_: int,
    find: Callable[[int], RegisteredSchema],
    reader: RegisteredSchema,
    *,
    permissive: bool,
) -> pa.Array:
    """Read the values of one schema."""

    def unread(error: MisuseError) -> pa.Array:
        if not permissive:
            raise NoSuchValueError(f"a value of schema {id_} cannot be read: {error}") from error
        return pa.nulls(len(chosen), arrow_of(schema_of(reader.text, reader.uses).kind))

    try:
        writer = find(id_)
    except UnknownSchemaError as error:  # a registry that refuses us says nothing of the values
        return unread(error)
    try:
        way = _way(writer, reader)
    except MisuseError as error:
        return unread(error)
    at, end = framed.at[chosen], framed.end[chosen]
    if way.step is not None:
        try:
            return way.step(framed.source, at, end)[0]
        except (RecordError, NoSuchValueError, pa.ArrowInvalid):
            pass  # one by one it is known which
    octets = framed.source.octets
    found = [
        _one(octets[begin:stop], way, id_, permissive=permissive)
        for begin, stop in zip(at.tolist(), end.tolist(), strict=True)
    ]
    try:
        return pa.array(found, arrow_of(way.reader.kind))
    except _UNFIT:
        fitting = [_fitting(value, way, id_, permissive=permissive) for value in found]
        return pa.array(fitting, arrow_of(way.reader.kind))


_UNFIT = pa.ArrowInvalid, pa.ArrowTypeError, OverflowError
"""What Arrow raises where a value is none of a column's: fastavro takes integers of any width."""


def _one(octets: bytes, way: _Resolved, id_: int, *, permissive: bool) -> Any:  # noqa: ANN401
    try:
        return plain(way.reader.kind, avro_values.read(octets, way.writer, way.reader))
    except NoSuchValueError as error:
        if permissive:
            return None
        raise NoSuchValueError(
            f"a value of schema {id_} cannot be read: {error}: {octets[:32].hex()}"
        ) from error


def _fitting(value: Any, way: _Resolved, id_: int, *, permissive: bool) -> Any:  # noqa: ANN401
    try:
        pa.array([value], arrow_of(way.reader.kind))
    except _UNFIT as error:
        if permissive:
            return None
        raise NoSuchValueError(f"a value of schema {id_} cannot be read: {error}") from error
    return value


class _Encoder(NamedTuple):
    """How a column becomes values of a schema."""

    schema: ParsedSchema
    write: Writing | None
    """None where they have to be written one by one."""


@lru_cache(SCHEMAS_MAX)
def _out(found: RegisteredSchema) -> _Encoder:
    schema = schema_of(found.text, found.uses)
    try:
        return _Encoder(schema, writing(schema.kind))
    except UnevenError:
        return _Encoder(schema, None)


def encoded(column: pa.Array, found: RegisteredSchema) -> pa.Array:
    """Write a column as framed values; a null stays null.

    Args:
        column: Its fields have the names of the schema's, in any order; those with a default may
            be missing.
        found: The schema.

    Raises:
        MisuseError: It does not fit the schema; the message says where.
    """
    schema, write = _out(found)
    # A null is a row without a value, as Kafka's tombstones are: also if the schema allows null.
    valid = column.is_valid().to_numpy(zero_copy_only=False)
    there = aligned(column.drop_null(), schema.kind, "value")
    if write is not None:
        return joined(head_of(found.id), write(there), valid)
    values = (avro_values.written(raw(schema.kind, one), schema) for one in there.to_pylist())
    octets = [head_of(found.id) + one for one in values]
    rows = np.cumsum(valid) - 1
    return pa.array(octets, pa.binary()).take(pa.array(rows, mask=~valid))
