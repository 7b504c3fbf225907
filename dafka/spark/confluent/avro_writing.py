"""Columns as Avro's octets, of all rows at once: no Python object per value.

A row is made of pieces, one behind the other: of each, how many octets every row has, and the
octets of all rows. Only at the end they are put where they belong.

Source: Apache Avro specification, "Binary Encoding".
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from dafka.errors import MisuseError
from dafka.spark.confluent.avro_reading import UnevenError
from dafka.spark.confluent.avro_types import TIMES, AvroType, arrow_of

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Integers = NDArray[np.int64]
    Octets = NDArray[np.uint8]


class Piece(NamedTuple):
    """A part of all rows: how many octets each has of it, and all these octets."""

    length: Integers
    octets: Octets


Writing = Callable[[pa.Array], list[Piece]]
"""What makes pieces of a column without nulls."""


def writing(kind: AvroType, where: str = "value") -> Writing:
    """Return what writes a column, of the Arrow type that belongs to the schema's.

    It raises MisuseError where a value is none of the schema's.

    Raises:
        UnevenError: That cannot be done for all rows at once.
    """
    write = _record(kind, where) if kind.kind == "record" else _scalar(kind, where)
    null = kind.null
    if null is None:
        return _never_null(write, where)

    def optional(column: pa.Array) -> list[Piece]:
        valid = column.is_valid().to_numpy(zero_copy_only=False)
        # The branch as a zigzag integer: of the two one is null.
        branch = np.where(valid, 2 * (1 - null), 2 * null).astype(np.uint8)
        pieces = write(column.drop_null())
        return [Piece(np.ones(len(column), np.int64), branch), *(_at(valid, one) for one in pieces)]

    return optional


def _at(valid: NDArray[np.bool_], piece: Piece) -> Piece:
    """A piece that only some rows have."""
    length = np.zeros(len(valid), np.int64)
    length[valid] = piece.length
    return Piece(length, piece.octets)


def _never_null(write: Writing, where: str) -> Writing:
    def checked(column: pa.Array) -> list[Piece]:
        if column.null_count:
            raise MisuseError(f"Avro: {where} is null, which its schema does not allow")
        return write(column)

    return checked


def _record(kind: AvroType, where: str) -> Writing:
    fields = [(field.name, writing(field.kind, f"{where}.{field.name}")) for field in kind.fields]

    def write(column: pa.Array) -> list[Piece]:
        return [piece for name, step in fields for piece in step(column.field(name))]

    return write


def _scalar(kind: AvroType, where: str) -> Writing:
    if kind.logical == "decimal":
        raise UnevenError
    match kind.kind:
        case "int" | "long":
            return _times(kind) if kind.logical else lambda column: [varints(_numbers(column))]
        case "string" | "bytes":
            return _stretches
        case "boolean":
            return lambda column: [_sized(_numbers(column).astype(np.uint8), 1)]
        case "float":
            return lambda column: [_sized(_numbers(column).astype("<f4"), 4)]
        case "double":
            return lambda column: [_sized(_numbers(column).astype("<f8"), 8)]
        case "enum":
            return _symbols(kind, where)
        case "fixed":
            return _fixed(kind, where)
        case "null":
            return lambda column: []
        case _:
            raise UnevenError


def _numbers(column: pa.Array) -> NDArray[Any]:
    numbers: NDArray[Any] = column.to_numpy(zero_copy_only=False)
    return numbers


def _times(kind: AvroType) -> Writing:
    _, units, _ = TIMES[kind.logical]
    width = pa.int32() if arrow_of(kind) == pa.date32() else pa.int64()

    def write(column: pa.Array) -> list[Piece]:
        # A finer time than the schema has is that of the unit it is in, as floor division says.
        return [varints(_numbers(column.view(width)).astype(np.int64) // units)]

    return write


def _symbols(kind: AvroType, where: str) -> Writing:
    symbols = pa.array(kind.symbols, pa.string())

    def write(column: pa.Array) -> list[Piece]:
        found = pc.index_in(column, value_set=symbols)
        if found.null_count:
            other = column.filter(pc.is_null(found))[0].as_py()
            raise MisuseError(f"Avro: {where} is {other!r}, which is no symbol of its schema")
        return [varints(_numbers(found).astype(np.int64))]

    return write


def _fixed(kind: AvroType, where: str) -> Writing:
    def write(column: pa.Array) -> list[Piece]:
        piece = _stretches(column)[1]
        if (piece.length != kind.size).any():
            raise MisuseError(f"Avro: {where} has not the {kind.size} bytes of its schema")
        return [piece]

    return write


def _stretches(column: pa.Array) -> list[Piece]:
    """Strings or bytes: their lengths, and what they are."""
    count = len(column)
    if not count:
        return [Piece(np.zeros(0, np.int64), np.zeros(0, np.uint8))] * 2
    bounds = np.frombuffer(column.buffers()[1], np.int32)[column.offset : column.offset + count + 1]
    content = column.buffers()[2]
    octets = np.frombuffer(content, np.uint8) if content is not None else np.zeros(0, np.uint8)
    length = np.diff(bounds).astype(np.int64)
    return [varints(length), Piece(length, octets[bounds[0] : bounds[-1]])]


def _sized(numbers: NDArray[Any], size: int) -> Piece:
    return Piece(np.full(len(numbers), size, np.int64), numbers.view(np.uint8))


def varints(numbers: NDArray[Any]) -> Piece:
    """Zigzag integers, seven bits an octet, the lowest first."""
    signed = numbers.astype(np.int64)
    left = ((signed << 1) ^ (signed >> 63)).view(np.uint64)
    length = np.ones(len(left), np.int64)
    more = left >> np.uint64(7)
    while more.any():
        length += more > 0
        more >>= np.uint64(7)
    octets = np.empty(int(length.sum()), np.uint8)
    at = np.cumsum(length) - length
    rows = np.arange(len(left))
    while len(rows):
        longer = left[rows] > 127
        octets[at[rows]] = (left[rows] & np.uint64(127)).astype(np.uint8) | (longer << 7)
        rows = rows[longer]
        left[rows] >>= np.uint64(7)
        at[rows] += 1
    return Piece(length, octets)


def joined(head: bytes, pieces: list[Piece], valid: NDArray[np.bool_]) -> pa.Array:
    """Return binaries: for each valid row a head and the row's part of each piece; else null."""
    count = int(valid.sum())
    lengths = [np.full(count, len(head), np.int64), *(piece.length for piece in pieces)]
    size = np.sum(lengths, axis=0)
    begins = np.cumsum(size) - size
    octets = np.empty(int(size.sum()), np.uint8)
    contents = [np.tile(np.frombuffer(head, np.uint8), count), *(one.octets for one in pieces)]
    at = begins.copy()
    for length, content in zip(lengths, contents, strict=True):
        before = np.cumsum(length) - length
        octets[np.repeat(at - before, length) + np.arange(len(content))] = content
        at += length
    bounds = np.zeros(len(valid) + 1, np.int64)
    bounds[1:][valid] = size
    bounds = np.cumsum(bounds)
    if bounds[-1] > np.iinfo(np.int32).max:
        raise MisuseError("Avro: the values of one batch are more than 2 GiB")
    return pa.Array.from_buffers(
        pa.binary(),
        len(valid),
        [
            pa.py_buffer(np.packbits(valid, bitorder="little")),
            pa.py_buffer(bounds.astype(np.int32)),
            pa.py_buffer(octets),
        ],
    )
