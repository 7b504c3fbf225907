"""The fields of all records of many batches at once, as arrays: no Python object per record.

A record batch is a row of records, each `length attributes timestamp offset key value headers`,
most of them variable-length integers. Where a record begins is known only from the length of the
one before, so the beginnings are found one after the other, or by the thousand where records are
of one size. Everything else is read for all records at once. Source: KIP-98, "Message Format".
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import pyarrow as pa

from dafka.errors import RecordError
from dafka.limits import EXPANDED_BYTES_MAX
from dafka.records.batch import RECORDS_FROM, BatchHeader, checked_header, plain
from dafka.records.envelope import FRESH, unpack

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from dafka.model import Batch

    Integers = NDArray[np.int64]
    Octets = NDArray[np.uint8]

_VARINT_BITS = 63
"""No integer of the format has more."""

_ALIKE = 8
"""Records of one size after which more of them are looked for at once: a look costs as much as
stepping over some dozens."""

_FEW = 64
"""Of a batch with no more records each is stepped over."""


class Spans(NamedTuple):
    """Where one field of each record stands; a length below 0 is a null."""

    at: Integers
    length: Integers


class Headers(NamedTuple):
    """The headers of some records, one after the other.

    Attributes:
        firsts: Of each record, the number of its first header; one more for the end.
        names: Where their names are.
        values: Where their values are.
    """

    firsts: Integers
    names: Spans
    values: Spans


class Page(NamedTuple):
    """The records of some batches, as arrays with an element for each.

    Attributes:
        batch: The number of its batch, for each record.
        octets: The batches, expanded, one after the other; spans point into it.
        sequence: Of each record, and so on for the others.
        timestamp_ms: Milliseconds since 1970.
        timestamp_type: 0 for the producer's time, 1 for that of its appending.
        key: Where the keys are.
        value: Where the values are.
        headers: Of all the records.
        copy_flags: From the envelope of its batch.
        origin: From the envelope of its batch.
    """

    batch: Integers
    octets: bytes
    sequence: Integers
    timestamp_ms: Integers
    timestamp_type: Integers
    key: Spans
    value: Spans
    headers: Headers
    copy_flags: NDArray[np.uint64]
    origin: Integers


def parsed(batches: Sequence[Batch]) -> Page:
    """Read batches, of one partition or several; their checksums are verified.

    Raises:
        RecordError: A batch is damaged, its records are not what its header says, or together the
            compressed ones stand for more than `EXPANDED_BYTES_MAX`.
    """
    headers, contents, room = [], [], EXPANDED_BYTES_MAX
    for batch in batches:
        headers.append(checked_header(batch.content, batch.sequence))
        contents.append(plain(batch.content, room))
        if contents[-1] is not batch.content:
            room -= len(contents[-1])
    octets = b"".join(contents)
    data = np.frombuffer(octets, np.uint8)
    starts: list[Integers] = []
    stepped: list[int] = []
    base = 0
    for batch, header, content in zip(batches, headers, contents, strict=True):
        end = base + len(content)
        begins: Integers | list[int]
        if batch.count <= _FEW:  # an array for each of many small batches is dear
            begins = _stepped(octets, base + RECORDS_FROM, end)
            stepped += begins
        else:
            begins = _beginnings(octets, data, base + RECORDS_FROM, end)
            starts += (np.array(stepped, np.int64), begins)
            stepped = []
        if not header.records == batch.count == len(begins):
            raise RecordError("batch records")
        base = end
    starts.append(np.array(stepped, np.int64))
    return _fields(octets, data, np.concatenate(starts), batches, headers)


def stretches(octets: bytes, spans: Spans) -> pa.Array:
    """The octets of each span; a null for one of a length below 0."""
    length = spans.length
    count = len(length)
    if not count:
        return pa.array([], pa.binary())
    bounds = np.empty(2 * count, np.int32)
    bounds[0::2] = spans.at
    bounds[1::2] = spans.at + np.maximum(length, 0)
    everything = pa.Array.from_buffers(
        pa.binary(), 2 * count - 1, [None, pa.py_buffer(bounds), pa.py_buffer(octets)]
    )
    return everything.take(pa.array(np.arange(0, 2 * count, 2), mask=length < 0))


def _headers(
    octets: bytes, data: Octets, at: Integers, counts: Integers, ends: Integers
) -> Headers:
    """Read the headers of all records: at places, so many, to the ends of their records."""
    # A header takes two octets at least; a number that cannot be shall not take our memory.
    if (counts < 0).any() or (counts > ends - at).any():
        raise RecordError("batch records")
    firsts = np.concatenate([np.zeros(1, np.int64), np.cumsum(counts)])
    spans = np.zeros((4, firsts[-1]), np.int64)
    # One round for all first headers, one for all second ones, and so on.
    left, done = np.flatnonzero(counts), 0
    while len(left):
        places = firsts[left] + done
        name, behind = _span(data, at[left], ends[left])
        value, behind = _span(data, behind, ends[left])
        spans[:, places] = (*name, *value)
        at[left] = behind
        done += 1
        left = left[counts[left] > done]
    names, values = Spans(*spans[:2]), Spans(*spans[2:])
    if (at != ends).any() or (names.length < 0).any():
        raise RecordError("batch records")
    try:
        stretches(octets, names).cast(pa.string())
    except pa.ArrowInvalid as error:
        raise RecordError("batch records") from error
    return Headers(firsts, names, values)


def _fields(
    octets: bytes,
    data: Octets,
    begins: Integers,
    batches: Sequence[Batch],
    headers: Sequence[BatchHeader],
) -> Page:
    counts = np.array([batch.count for batch in batches])
    envelopes = [unpack(batch.content) or FRESH for batch in batches]
    number = np.repeat(np.arange(len(batches)), counts)
    within = np.arange(len(begins)) - np.repeat(np.cumsum(counts) - counts, counts)
    record_end = np.full(len(begins), len(octets))
    length, at = varints(data, begins, record_end)
    record_end = at + length
    if (record_end > len(octets)).any():
        raise RecordError("batch records")
    at = at + 1  # attributes, of which none is defined
    delta_ms, at = varints(data, at, record_end)
    offset, at = varints(data, at, record_end)
    key, at = _span(data, at, record_end)
    value, at = _span(data, at, record_end)
    header_count, at = varints(data, at, record_end)
    if (offset != within).any():
        raise RecordError("batch records")
    return Page(
        batch=number,
        octets=octets,
        sequence=np.array([batch.sequence for batch in batches])[number] + within,
        timestamp_ms=_timestamps(headers, counts, delta_ms),
        timestamp_type=np.repeat(
            np.array([int(header.log_append_time) for header in headers], np.int32), counts
        ),
        key=key,
        value=value,
        headers=_headers(octets, data, at, header_count, record_end),
        copy_flags=np.repeat(
            np.array([envelope.copy_flags for envelope in envelopes], np.uint64), counts
        ),
        origin=np.repeat(np.array([envelope.origin for envelope in envelopes]), counts),
    )


def _timestamps(headers: Sequence[BatchHeader], counts: Integers, delta_ms: Integers) -> Integers:
    """The producer's, or where the batch says so that of its appending."""
    base = np.array(
        [
            header.max_timestamp_ms if header.log_append_time else header.first_timestamp_ms
            for header in headers
        ]
    )
    own = np.array([not header.log_append_time for header in headers])
    stamps: Integers = np.repeat(base, counts) + delta_ms * np.repeat(own, counts)
    return stamps


def _beginnings(octets: bytes, data: Octets, at: int, end: int) -> Integers:
    """Where the records between `at` and `end` begin."""
    parts: list[Integers] = []
    begins: list[int] = []
    last = alike = 0
    while at < end:
        begins.append(at)
        # One or two octets hold any length below 8 KiB; spelled out, for this is per record.
        length = octets[at]
        size = 1 + (length >> 1)
        if length > 127 and at + 1 < end:
            second = octets[at + 1]
            size = 2 + ((length & 127 | second << 7) >> 1)
            if second > 127:
                size = _size(octets, at, end)
        if size == last:
            alike += 1
            if alike == _ALIKE:
                run = _run(data, at, size, end)
                parts += [np.array(begins, np.int64), np.arange(at + size, at + run * size, size)]
                begins, at, alike = [], at + run * size, 0
                continue
        else:
            last, alike = size, 0
        at += size
    if at != end:
        raise RecordError("batch records")
    parts.append(np.array(begins, np.int64))
    return np.concatenate(parts)


def _stepped(octets: bytes, at: int, end: int) -> list[int]:
    """The same, of a few records."""
    begins: list[int] = []
    while at < end:
        begins.append(at)
        length = octets[at]
        if length < 128:
            at += 1 + (length >> 1)
        elif at + 1 < end and octets[at + 1] < 128:
            at += 2 + ((length & 127 | octets[at + 1] << 7) >> 1)
        else:
            at += _size(octets, at, end)
    if at != end:
        raise RecordError("batch records")
    return begins


def _size(octets: bytes, at: int, end: int) -> int:
    """The size of a record whose length takes more than two octets."""
    value = shift = 0
    for place in range(at, min(at + 10, end)):
        value |= (octets[place] & 127) << shift
        shift += 7
        if octets[place] < 128:
            if value & 1:
                break  # negative
            return place + 1 - at + (value >> 1)
    raise RecordError("batch records")


def _run(data: Octets, at: int, size: int, end: int) -> int:
    """How many records from `at` on have the same length field, and so the same size."""
    count = (end - at) // size
    records = data[at : at + count * size].reshape(count, size)
    if not count:
        return 1
    alike = records[:, 0] == records[0, 0]
    for place in range(1, 1 + int(np.argmax(records[0] < 128))):
        alike &= records[:, place] == records[0, place]
    return count if alike.all() else int(alike.argmin())


def varints(data: Octets, at: Integers, end: Integers) -> tuple[Integers, Integers]:
    """Read the zigzag integer at each place.

    Args:
        data: Where to read.
        at: Places.
        end: For each, where its record ends; not behind the end of `data`.

    Returns:
        The integers, and the places behind them.

    Raises:
        RecordError: One does not end before its record does.
    """
    if (at >= end).any():
        raise RecordError("batch records")
    octet = data[at]
    value = (octet & 127).astype(np.int64)
    at = at + 1
    longer = np.flatnonzero(octet > 127)
    shift = 7
    while len(longer):
        places = at[longer]
        if shift > _VARINT_BITS or (places >= end[longer]).any():
            raise RecordError("batch records")
        octet = data[places]
        value[longer] |= (octet & 127).astype(np.int64) << shift
        at[longer] += 1
        longer = longer[octet > 127]
        shift += 7
    # Zigzag; the mask, because numpy's shift fills with the sign.
    number: Integers = (value >> 1 & np.int64((1 << 63) - 1)) ^ -(value & 1)
    return number, at


def _span(data: Octets, at: Integers, end: Integers) -> tuple[Spans, Integers]:
    """A field that begins with its length, and the place behind it."""
    length, at = varints(data, at, end)
    behind = at + np.maximum(length, 0)
    if (behind > end).any() or (behind < at).any():
        raise RecordError("batch records")
    return Spans(at, length), behind
