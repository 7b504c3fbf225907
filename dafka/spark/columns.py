"""Arrow columns out of parsed records, for Spark; only those that are asked for.

A key is a stretch of a batch. Arrow wants keys side by side, so the page is described as one
array of alternating key and what stands between two keys, without copying, and Arrow itself takes
every second element.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    DataType,
    IntegerType,
    LongType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

from dafka.errors import MisuseError
from dafka.spark.parsing import Spans, stretches
from dafka.wire.primitives import octets_of

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from dafka.model import Partition
    from dafka.spark.parsing import Page
    from dafka.spark.planning import Range

HEADERS = ArrayType(
    StructType([StructField("key", StringType()), StructField("value", BinaryType())])
)
"""As Spark's Kafka source has them."""

TYPES: dict[str, DataType] = {
    "key": BinaryType(),
    "value": BinaryType(),
    "topic": StringType(),
    "partition": StringType(),
    "offset": LongType(),
    "timestamp": TimestampType(),
    "timestampType": IntegerType(),
    "headers": HEADERS,
    "copy_flags": LongType(),
    "origin": IntegerType(),
    "epoch": IntegerType(),
}
"""Every column there is. The first ones stand in the order of Spark's Kafka source."""

ASKED_FOR = ("headers", "epoch")
"""Those that are there only where somebody asks for them."""

_ARROW: dict[str, pa.DataType] = {
    "key": pa.binary(),
    "value": pa.binary(),
    "topic": pa.string(),
    "partition": pa.string(),
    "offset": pa.int64(),
    "timestamp": pa.timestamp("us", tz="UTC"),
    "timestampType": pa.int32(),
    "headers": pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())])),
    "copy_flags": pa.int64(),
    "origin": pa.int32(),
    "epoch": pa.int32(),
}

_TIMESTAMP_MS_MAX = (1 << 63) // 1_000 - 1
"""Spark counts microseconds; a timestamp beyond is brought to this one."""


def all_columns(*, headers: bool) -> StructType:
    """The schema of a source: every column but those that are asked for, as headers may be."""
    left_out = {*ASKED_FOR} - ({"headers"} if headers else set())
    return StructType([StructField(name, TYPES[name]) for name in TYPES if name not in left_out])


def checked_columns(schema: StructType) -> tuple[str, ...]:
    """Return the names of the columns of a schema the user has chosen.

    Raises:
        MisuseError: There is none, or one is not a column of ours, or not of its type.
    """
    if not schema.fields:
        raise MisuseError("at least one column is needed")
    for field in schema.fields:
        kind = TYPES.get(field.name)
        if kind is None:
            raise MisuseError(
                f"there is no column {field.name!r}: there are {', '.join(map(repr, TYPES))}"
            )
        if field.dataType != kind:
            raise MisuseError(
                f"column {field.name!r} is of type {kind.simpleString()}, "
                f"not {field.dataType.simpleString()}"
            )
    return tuple(schema.fieldNames())


WRITABLE: dict[str, tuple[DataType, ...]] = {
    "topic": (StringType(),),
    "key": (BinaryType(), StringType()),
    "value": (BinaryType(), StringType()),
    "headers": (HEADERS,),
    "timestamp": (TimestampType(),),
}
"""What a row to be written may have, and of which type."""


def check_rows(schema: StructType, *, topic: str | None) -> None:
    """Check the columns of rows that are to be written. Others are left out, as Kafka's sink does.

    Raises:
        MisuseError: One is of a type that cannot be written, or one that is needed is missing.
    """
    for field in schema.fields:
        kinds = WRITABLE.get(field.name)
        if kinds is None:
            continue
        if field.dataType.simpleString() not in {kind.simpleString() for kind in kinds}:
            raise MisuseError(
                f"column {field.name!r} must be "
                f"{' or '.join(kind.simpleString() for kind in kinds)}, "
                f"not {field.dataType.simpleString()}"
            )
    if "value" not in schema.fieldNames():
        raise MisuseError("a column 'value' is needed")
    if topic is None and "topic" not in schema.fieldNames():
        raise MisuseError("a column 'topic' or the option 'topic' is needed")


def record_batch(page: Page, wanted: Sequence[Range], columns: Sequence[str]) -> pa.RecordBatch:
    """Return the records of a page that were asked for, as columns.

    Args:
        page: Batches of one partition follow each other.
        wanted: For each of its batches, the range it was read for.
        columns: Which.
    """
    rows, keep = slice(0, len(page)), None
    if wanted[0] == wanted[-1]:
        begin, end = np.searchsorted(page.sequence, wanted[0][1:])
        rows = slice(int(begin), max(int(begin), int(end)))
    else:
        starts, ends = np.array([one[1:] for one in wanted]).T
        keep = (page.sequence >= starts[page.batch]) & (page.sequence < ends[page.batch])
    partitions = [one.partition for one in wanted]
    found = pa.RecordBatch.from_arrays(
        [_COLUMNS[name](page, partitions, rows) for name in columns],
        schema=pa.schema([(name, _ARROW[name]) for name in columns]),
    )
    return found if keep is None or keep.all() else found.filter(pa.array(keep))


def shown(name: str) -> str:
    """A topic or address as a string of Spark's: what is not UTF-8 shows as U+FFFD."""
    return octets_of(name).decode("utf-8", "replace")


def _named(names: Sequence[str], page: Page, rows: slice) -> pa.Array:
    """Of each record the name that its batch has."""
    if names[0] == names[-1] and len(set(names)) == 1:
        return pa.repeat(pa.scalar(shown(names[0])), rows.stop - rows.start)
    return pa.array(list(map(shown, names))).take(pa.array(page.batch[rows]))


def _timestamps(page: Page, rows: slice) -> pa.Array:
    bounded = np.clip(page.timestamp_ms[rows], -_TIMESTAMP_MS_MAX, _TIMESTAMP_MS_MAX)
    return pa.array(bounded * 1_000).view(_ARROW["timestamp"])


def _headers(page: Page, rows: slice) -> pa.Array:
    """Lists of pairs."""
    firsts, names, values = page.headers
    firsts = firsts[rows.start : rows.stop + 1]
    chosen = slice(firsts[0], firsts[-1])
    columns = [_stretches(page, spans, chosen) for spans in (names, values)]
    pairs = pa.StructArray.from_arrays(
        [columns[0].cast(pa.string()), columns[1]], names=["key", "value"]
    )
    return pa.ListArray.from_arrays(pa.array((firsts - firsts[0]).astype(np.int32)), pairs)


def _stretches(page: Page, spans: Spans, rows: slice) -> pa.Array:
    return stretches(page.octets, Spans(spans.at[rows], spans.length[rows]))


_COLUMNS: dict[str, Callable[[Page, Sequence[Partition], slice], pa.Array]] = {
    "key": lambda page, _, rows: _stretches(page, page.key, rows),
    "value": lambda page, _, rows: _stretches(page, page.value, rows),
    "topic": lambda page, of, rows: _named([one.topic for one in of], page, rows),
    "partition": lambda page, of, rows: _named([one.address for one in of], page, rows),
    "offset": lambda page, _, rows: pa.array(page.sequence[rows]),
    "timestamp": lambda page, _, rows: _timestamps(page, rows),
    "timestampType": lambda page, _, rows: pa.array(page.timestamp_type[rows].astype(np.int32)),
    "headers": lambda page, _, rows: _headers(page, rows),
    "copy_flags": lambda page, _, rows: pa.array(page.copy_flags[rows].view(np.int64)),
    "origin": lambda page, _, rows: pa.array(page.origin[rows].astype(np.int32)),
    "epoch": lambda page, _, rows: pa.array(page.epoch[rows].astype(np.int32)),
}
