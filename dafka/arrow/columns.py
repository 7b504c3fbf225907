"""Arrow columns out of parsed records; only those that are asked for.

A key is a stretch of a batch. Arrow wants keys side by side, so the page is described as one
array of alternating key and what stands between two keys, without copying, and Arrow itself takes
every second element.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from dafka.arrow.parsing import Page, Spans, stretches
from dafka.errors import RecordError
from dafka.records.batch import readable_part
from dafka.wire.primitives import octets_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from dafka.model import Batch, Partition, Range
    from dafka.records.batch import PassedOver

TYPES: dict[str, pa.DataType] = {
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
"""Every column there is. The first ones stand in the order of Spark's source of Kafka."""

_TIMESTAMP_MS_MAX = (1 << 63) // 1_000 - 1
"""Spark counts microseconds; a timestamp beyond is brought to this one."""


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
        schema=pa.schema([(name, TYPES[name]) for name in columns]),
    )
    return found if keep is None or keep.all() else found.filter(pa.array(keep))


def record_batches(
    pieces: Sequence[tuple[Range, Sequence[Batch]]], columns: Sequence[str], passed_over: PassedOver
) -> Iterator[pa.RecordBatch]:
    """Yield the records that are wanted of batches, at once if nothing is wrong.

    Args:
        pieces: Ranges, each with the batches that hold it.
        columns: Which.
        passed_over: Told of records that nobody can read; they are left out if it returns.

    Raises:
        RecordError: A batch is damaged.
    """
    batches = [batch for _, some in pieces for batch in some]
    try:
        found = record_batch(Page(batches), [one for one, some in pieces for _ in some], columns)
    except RecordError as error:
        if len(pieces) == 1 and error.reason != "batch records":
            raise
    else:
        yield found
        return
    if len(pieces) > 1:  # of each by itself it is known what is wrong
        for piece in pieces:
            yield from record_batches([piece], columns, passed_over)
        return
    ((wanted, _),) = pieces
    for batch in batches:
        readable = readable_part(batch)
        end = batch.sequence if readable is None else readable.end
        if end < batch.end:
            passed_over(batch, end)
        if readable is not None:
            yield record_batch(Page([readable]), [wanted], columns)


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
    return pa.array(bounded * 1_000).view(TYPES["timestamp"])


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
