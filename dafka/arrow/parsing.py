"""The fields of all records of many batches at once, as arrays: no Python object per record.

A record batch is a row of records, each `length attributes timestamp offset key value headers`,
most of them variable-length integers. Where a record begins is known only from the length of the
one before, so the beginnings are found one after the other, by the thousand where records are of
one size, and of many batches in all at once. Everything else is read for all records at once.
Source: KIP-98, "Message Format".
"""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import pyarrow as pa

from dafka.errors import RecordError
from dafka.limits import EXPANDED_BYTES_MAX
from dafka.records.batch import RECORDS_FROM, checked_header, plain
from dafka.records.envelope import FRESH, unpack

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from dafka.model import Batch
    from dafka.records.batch import BatchHeader
    from dafka.records.envelope import Envelope

    Integers = NDArray[np.int64]
    Octets = NDArray[np.uint8]

_VARINT_BITS = 63
"""No integer of the format has more."""

_ALIKE = 8
"""Records of one size after which more of them are looked for at once: a look costs as much as
stepping over some dozens."""

_MANY = 100
"""From so many batches on one step in all of them is cheaper than one after the other."""


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


class Page:
    """The records of some batches, of one partition or several, as arrays with an element for each.

    A field is read when it is first asked for, and what stands before it in a record: what nobody
    asks for costs nothing, and is not found damaged.

    Args:
        batches: Their checksums are verified.

    Raises:
        RecordError: A batch is damaged, or together the compressed ones stand for more than
            `EXPANDED_BYTES_MAX`. A field raises it where records are not what their batch says.
    """

    def __init__(self, batches: Sequence[Batch]) -> None:
        self._batches = batches
        self._batch_headers: list[BatchHeader] = []
        contents, room = [], EXPANDED_BYTES_MAX
        for batch in batches:
            header = checked_header(batch.content, batch.sequence)
            if header.records != batch.count:
                raise RecordError("batch records")
            self._batch_headers.append(header)
            contents.append(plain(batch.content, room))
            if contents[-1] is not batch.content:
                room -= len(contents[-1])
        self.octets = b"".join(contents)
        """The batches, expanded, one after the other; spans point into it."""
        self._data = np.frombuffer(self.octets, np.uint8)
        self._sizes = np.array([len(content) for content in contents], np.int64)
        self._counts = np.array([batch.count for batch in batches], np.int64)

    def __len__(self) -> int:
        """How many records there are."""
        return int(self._counts.sum())

    @cached_property
    def batch(self) -> Integers:
        """Of each record the number of its batch."""
        return np.repeat(np.arange(len(self._batches)), self._counts)

    @cached_property
    def sequence(self) -> Integers:
        """Of each record, and so on for the others."""
        first = np.array([batch.sequence for batch in self._batches], np.int64)
        return first[self.batch] + self._within

    @cached_property
    def timestamp_ms(self) -> Integers:
        """Milliseconds since 1970: the producer's, or where the batch says so of its appending."""
        headers = self._batch_headers
        base = [
            one.max_timestamp_ms if one.log_append_time else one.first_timestamp_ms
            for one in headers
        ]
        own = np.array([not one.log_append_time for one in headers])
        stamps: Integers = np.array(base, np.int64)[self.batch] + self._times[0] * own[self.batch]
        return stamps

    @cached_property
    def timestamp_type(self) -> Integers:
        """0 for the producer's time, 1 for that of its appending."""
        types = [int(header.log_append_time) for header in self._batch_headers]
        return np.array(types, np.int64)[self.batch]

    @property
    def key(self) -> Spans:
        """Where the keys are."""
        return self._keys[0]

    @property
    def value(self) -> Spans:
        """Where the values are."""
        return self._values[0]

    @cached_property
    def headers(self) -> Headers:
        """Of all the records."""
        _, _, ends = self._times
        _, at = self._values
        counts, at = varints(self._data, at, ends)
        return _headers(self.octets, self._data, at, counts, ends)

    @cached_property
    def copy_flags(self) -> NDArray[np.uint64]:
        """From the envelope of its batch."""
        return np.array([one.copy_flags for one in self._envelopes], np.uint64)[self.batch]

    @cached_property
    def origin(self) -> Integers:
        """From the envelope of its batch."""
        return np.array([one.origin for one in self._envelopes], np.int64)[self.batch]

    @cached_property
    def epoch(self) -> Integers:
        """From the envelope of its batch."""
        return np.array([one.epoch for one in self._envelopes], np.int64)[self.batch]

    @cached_property
    def _envelopes(self) -> list[Envelope]:
        return [unpack(batch.content) or FRESH for batch in self._batches]

    @cached_property
    def _within(self) -> Integers:
        """Of each record its place in its batch."""
        firsts = np.cumsum(self._counts) - self._counts
        return np.arange(len(self)) - firsts[self.batch]

    @cached_property
    def _times(self) -> tuple[Integers, Integers, Integers]:
        """Milliseconds behind the first of the batch, the places behind that, and the ends."""
        begins = _beginnings(self.octets, self._data, self._sizes, self._counts)
        length, at = varints(self._data, begins, np.full(len(self), len(self.octets)))
        ends = at + length
        if (ends > len(self.octets)).any():
            raise RecordError("batch records")
        # One octet of attributes stands before, of which none is defined.
        return *varints(self._data, at + 1, ends), ends

    @cached_property
    def _keys(self) -> tuple[Spans, Integers]:
        """Keys, and the places behind them; that each record has its place is seen on the way."""
        _, at, ends = self._times
        offset, at = varints(self._data, at, ends)
        if (offset != self._within).any():
            raise RecordError("batch records")
        return _span(self._data, at, ends)

    @cached_property
    def _values(self) -> tuple[Spans, Integers]:
        """Values, and the places behind them."""
        _, at = self._keys
        return _span(self._data, at, self._times[2])


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


def _beginnings(octets: bytes, data: Octets, sizes: Integers, counts: Integers) -> Integers:
    """Where each record begins.

    Of many batches it is looked for in all of them at once, one record of each after the other.

    Args:
        octets: The batches, one after the other.
        data: The same.
        sizes: Of each in octets.
        counts: Of each in records.
    """
    ends = np.cumsum(sizes)
    at = ends - sizes + RECORDS_FROM
    places = np.cumsum(counts) - counts
    begins = np.empty(int(counts.sum()), np.int64)
    left, step = np.arange(len(sizes)), 0
    while len(left) >= _MANY:
        begins[places[left] + step] = at[left]
        at[left] = _following(data, at[left], ends[left])
        step += 1
        left = left[counts[left] > step]
    for number in left.tolist():
        found = _stepped(octets, data, int(at[number]), int(ends[number]))
        if len(found) != counts[number] - step:
            raise RecordError("batch records")
        begins[places[number] + step : places[number] + counts[number]] = found
        at[number] = ends[number]
    if (at != ends).any():
        raise RecordError("batch records")
    return begins


def _following(data: Octets, at: Integers, end: Integers) -> Integers:
    """Where the records end that begin at these places, before the ends of their batches."""
    if (at >= end).any():
        raise RecordError("batch records")
    # One or two octets hold any length below 8 KiB; by itself, for this is done for every record.
    zigzag = data[at].astype(np.int64)
    second = data[np.minimum(at + 1, len(data) - 1)].astype(np.int64)
    longer = zigzag > 127
    if (second[longer] > 127).any():
        length, behind = varints(data, at, end)
        # A number that cannot be shall not lead beyond all numbers.
        following = behind + np.minimum(length, len(data))
        negative = length < 0
    else:
        zigzag += longer * ((second << 7) - 128)
        following = at + 1 + longer + (zigzag >> 1)
        negative = zigzag & 1 == 1
    if negative.any() or (following > end).any():
        raise RecordError("batch records")
    return following


def _stepped(octets: bytes, data: Octets, at: int, end: int) -> Integers:
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
