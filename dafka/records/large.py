"""Batches of large records: collected, and encoded when the batch is complete.

aiokafka's builder encodes a record in a tenth of a microsecond, and then sums the whole batch up in
software, half a nanosecond a byte: of values of a kilobyte that is four times all the rest. Records
of Python's own making take 0.2 us more each, and no time a byte but for one copy
(docs/adr/0058). Source: KIP-98, "Message Format".
"""

from __future__ import annotations

from functools import cache, lru_cache
from itertools import pairwise
from typing import TYPE_CHECKING, TypeAlias, cast

from dafka.limits import BATCH_RECORDS_MAX
from dafka.records.header import HEADER, MAGIC, NO_LEADER, HeaderFields

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

LARGE_BYTES = 768
"""Of a batch's first value: from here on it is encoded faster like this."""

_AROUND_BYTES = 17
"""Most that a record has beside key, value and time: four octets for each of three lengths, three
for its place, one each for attributes and the count of its headers."""

_ATTRIBUTES, _NO_HEADERS = b"\0", b"\0"

_Record: TypeAlias = "bytes | tuple[bytes | None, bytes | None]"
"""A value alone, or key and value."""

_CHUNK = 32
"""Values that are looked at together."""

_REMEMBERED = 4_096
"""Sizes of which is kept what stands around them."""

_TIMES = range(1 << 62)
"""Times whose differences have 64 bits with their sign."""

_PLACES = (0, 1 << 6, 1 << 13, BATCH_RECORDS_MAX)
"""Where the number of a record's place gets another octet."""


class LargeRecords:
    """The records of one batch, without headers, in order; the first of them is large.

    Attributes:
        count: How many.
        size: Bytes of the batch, at most.
    """

    __slots__ = ("_around", "_first_ms", "_last", "_runs", "_time_ms", "count", "size")

    def __init__(self) -> None:
        self.count = 0
        self.size = HEADER.size
        self._runs: list[tuple[int, list[_Record]]] = []
        """Those of one time together."""
        self._first_ms = self._time_ms = -1
        self._last: list[_Record] = []
        """Where records of the last time go."""
        self._around = 0
        """Most that one of them has around it."""

    def __iter__(self) -> Iterator[tuple[int, bytes | None, bytes | None]]:
        """Time, key and value of each."""
        for timestamp_ms, records in self._runs:
            for record in records:
                yield timestamp_ms, *_key_and_value(record)

    def append(
        self, timestamp_ms: int, key: bytes | None, value: bytes | None, bytes_max: int
    ) -> bool | None:
        """Add a record.

        Returns:
            Whether it was added: it may be too many, or too much but for the first one. None if it
            cannot be one of these.
        """
        # Exactly these types: others may change until they are written.
        if type(value) is bytes:
            size = len(value)
        elif value is None:
            size = 0
        else:
            return None
        if key is not None:
            if type(key) is not bytes:
                return None
            size += len(key)
        begins = timestamp_ms != self._time_ms or not self.count
        if begins and not self._begin(timestamp_ms, size):
            return None
        count, size = self.count, self.size + self._around + size
        if count and (size >= bytes_max or count == BATCH_RECORDS_MAX):
            return False
        self.size = size
        self.count = count + 1
        self._last.append(value if key is None and value is not None else (key, value))
        return True

    def extend(
        self, timestamp_ms: int, values: Sequence[bytes | None], start: int, bytes_max: int
    ) -> int:
        """Add records of only a value from `values[start]` on, as long as `append` would.

        Returns:
            The index of the first that was not added; others than octets are left, too.
        """
        for chunk in range(start, len(values), _CHUNK):
            part = values[chunk : chunk + _CHUNK]
            if self._take_all(timestamp_ms, part, bytes_max):
                continue
            for index, value in enumerate(part, chunk):
                if not self.append(timestamp_ms, None, value, bytes_max):
                    return index
        return len(values)

    def header(self, number: int, epoch: int, first: int) -> bytearray:
        """Return the header of the batch, without length and checksum and at sequence 0.

        Args:
            number: The run they belong to: Kafka's producer id.
            epoch: The producer's.
            first: The place of the first one in that run.
        """
        fields = HeaderFields(
            base_offset=0,
            length=0,
            leader_epoch=NO_LEADER,
            magic=MAGIC,
            crc=0,
            attributes=0,
            last_offset_delta=self.count - 1,
            first_timestamp_ms=self._first_ms,
            max_timestamp_ms=max(time_ms for time_ms, records in self._runs if records),
            producer_id=number,
            producer_epoch=epoch,
            base_sequence=first,
            records=self.count,
        )
        return bytearray(HEADER.pack(*fields))

    def octets(self) -> bytes:
        """Return the records as they stand behind the header."""
        parts: list[bytes] = []
        place = 0
        for timestamp_ms, records in self._runs:
            end = place + len(records)
            start = _ATTRIBUTES + varint(timestamp_ms - self._first_ms)
            for low, high in pairwise(_PLACES):
                first, behind = max(place, low), min(end, high)
                if first < behind:
                    places = _places(low, high)[first - low : behind - low]
                    parts += _parts(start, places, records[first - place : behind - place])
            place = end
        return b"".join(parts)

    def _begin(self, timestamp_ms: int, size: int) -> bool:
        """Go on with records of another time; False if that is none, or the first is not large."""
        if type(timestamp_ms) is not int or timestamp_ms not in _TIMES:
            return False
        if not self.count:
            if size < LARGE_BYTES:
                return False
            self._first_ms = timestamp_ms
        self._time_ms, self._last = timestamp_ms, []
        self._runs.append((timestamp_ms, self._last))
        self._around = _AROUND_BYTES + len(varint(timestamp_ms - self._first_ms))
        return True

    def _take_all(self, timestamp_ms: int, values: Sequence[bytes | None], bytes_max: int) -> bool:
        """Add values, if `append` would add each of them without a further look."""
        if not self.count or timestamp_ms != self._time_ms or {*map(type, values)} != {bytes}:
            return False
        octets = cast("Sequence[bytes]", values)
        count, size = self.count + len(octets), self.size + len(octets) * self._around
        size += sum(map(len, octets))
        if size >= bytes_max or count > BATCH_RECORDS_MAX:
            return False
        self.count, self.size = count, size
        self._last += octets
        return True


def _parts(start: bytes, places: Sequence[bytes], records: Sequence[_Record]) -> list[bytes]:
    """What records are joined of that begin alike, and whose places have equally many octets."""
    parts: list[bytes] = []
    around = len(start) + len(places[0]) + len(_NO_HEADERS)
    for place, record in zip(places, records, strict=True):
        if type(record) is bytes:
            before, no_key, size = _frame(start, around, None, len(record))
            parts += (before, place, no_key, size, record, _NO_HEADERS)
            continue
        key, value = _key_and_value(record)
        key_size = None if key is None else len(key)
        value_size = None if value is None else len(value)
        before, name, size = _frame(start, around, key_size, value_size)
        parts += (before, place, name, key or b"", size, value or b"", _NO_HEADERS)
    return parts


@lru_cache(_REMEMBERED)
def _frame(
    start: bytes, around: int, key_size: int | None, value_size: int | None
) -> tuple[bytes, bytes, bytes]:
    """What stands before a record's place, key and value; a size is None of what is not there.

    Args:
        start: What stands between the record's length and its place.
        around: Bytes of that, of the place, and of the end.
        key_size: Of the key.
        value_size: Of the value.
    """
    name = varint(-1 if key_size is None else key_size)
    size = varint(-1 if value_size is None else value_size)
    length = around + len(name) + (key_size or 0) + len(size) + (value_size or 0)
    return varint(length) + start, name, size


def _key_and_value(record: _Record) -> tuple[bytes | None, bytes | None]:
    return (None, record) if isinstance(record, bytes) else record


def varint(number: int) -> bytes:
    """Encode a number of at most 64 bits: zigzag, seven bits an octet, the lowest first."""
    left = number << 1 ^ number >> 63
    octets = bytearray()
    while left > 0x7F:
        octets.append(left & 0x7F | 0x80)
        left >>= 7
    octets.append(left)
    return bytes(octets)


@cache
def _places(low: int, high: int) -> tuple[bytes, ...]:
    """The octets of the places from `low` to below `high`."""
    return tuple(map(varint, range(low, high)))
