"""The rows of a log's index, as octets. No IO.

| table | key | value |
|---|---|---|
| `partitions` | topic, NUL, address | number u32, its `Extent`: five u64; checksum u32 |
| `batches` | partition number u32, first sequence u64 | records u32, time u64, place: four u32 |
| | the same, up to format 5 | records u32, time u64, content |
| | the same, of the first record in a gap | 0 u32, time u64, sequence behind the gap u64 |
| `entries` | table, NUL, key | value, checksum u32 |
| `segments` | number u32 | bytes that are kept u64, bytes that are used u64; checksum u32 |
| | `at` | `Standpoint`; checksum u32 |
| `forgotten`, `forgotten-order` | | see `dafka.storage.forgotten_table` |

In the first of these the highest bit of the records is set; the place is a segment and a `Span`.
A checksum is the CRC of key and value, as no record's own covers those; batches have theirs.
Numbers are big-endian, so that keys sort by partition and sequence. A key of `partitions` has at
most 249 + 1 + 255 bytes; LMDB takes 511. The head is kept plus one: an empty partition that begins
at 0 has none.

The time kept with a batch is the running maximum of its partition, which is all the index that
`find` needs: it never goes back, so it can be searched by halves, and costs an append nothing.
"""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, NamedTuple

from dafka.limits import ADDRESS_BYTES_MAX, TOPIC_BYTES_MAX
from dafka.model import Partition
from dafka.storage.log import Extent, Outline
from dafka.storage.segment import MARK_BYTES, Span
from dafka.wire.primitives import octets_of, text

if TYPE_CHECKING:
    from collections.abc import Iterable

PARTITIONS, BATCHES, ENTRIES, SEGMENTS = b"partitions", b"batches", b"entries", b"segments"

STANDPOINT = b"at"
"""The key of the row of `segments` that is about none of them."""

_SEPARATOR = b"\0"
_BATCH_KEY = struct.Struct(">IQ")
_BATCH = struct.Struct(">IQ")
_GAP = struct.Struct(">IQQ")
_PLACED = struct.Struct(">IQIIII")
_ELSEWHERE = 1 << 31
_STANDING = struct.Struct(">IQQQQQ")
_STANDPOINT = struct.Struct(f">{MARK_BYTES}sIIQI")
_SEGMENT = struct.Struct(">QQ")
_NUMBER = struct.Struct(">I")

UNSEALED_BYTES = _STANDING.size
"""A row of `partitions` of before there were checksums."""


class Standpoint(NamedTuple):
    """Up to where the index has what segments have.

    Attributes:
        mark: What every frame begins with.
        segment: In which one the next frame may begin.
        end: Where there.
        number: The next frame's.
        following: The next partition's number.
    """

    mark: bytes
    segment: int
    end: int
    number: int
    following: int

    def packed(self) -> bytes:
        """As a row."""
        return _STANDPOINT.pack(*self)

    @staticmethod
    def of(row: bytes) -> Standpoint:
        """Read it."""
        return Standpoint(*_STANDPOINT.unpack(row))


class SegmentUse(NamedTuple):
    """What of a segment is of use.

    Attributes:
        kept: Bytes of what rows stand for.
        end: Behind the last of them.
    """

    kept: int
    end: int

    def packed(self) -> bytes:
        """As a row."""
        return _SEGMENT.pack(*self)

    @staticmethod
    def of(row: bytes) -> SegmentUse:
        """Read it."""
        return SegmentUse(*_SEGMENT.unpack(row))


class Content(NamedTuple):
    """Where a batch's content lies: in a segment, or in the row."""

    segment: int
    span: Span


def batch_key(number: int, sequence: int) -> bytes:
    """The key of a batch or a gap."""
    return _BATCH_KEY.pack(number, sequence)


def batch_place(key: bytes) -> tuple[int, int]:
    """Read it: partition number, first sequence."""
    number, sequence = _BATCH_KEY.unpack(key)
    return number, sequence


def batch_row(count: int, time_ms: int, segment: int, span: Span) -> bytes:
    """A batch whose content is in a segment."""
    return _PLACED.pack(count | _ELSEWHERE, time_ms, segment, *span)


def gap_row(time_ms: int, end: int) -> bytes:
    """A gap, and the sequence behind it."""
    return _GAP.pack(0, time_ms, end)


def outline_of(first: int, row: bytes) -> Outline:
    """Read what a row says, without the content."""
    count, time_ms = _BATCH.unpack_from(row)
    if not count:
        return Outline(first, _GAP.unpack(row)[2], 0, time_ms)
    if count & _ELSEWHERE:
        size = _PLACED.unpack(row)[-1]
        return Outline(first, first + (count ^ _ELSEWHERE), size, time_ms)
    return Outline(first, first + count, len(row) - _BATCH.size, time_ms)


def content_of(row: bytes) -> Content | bytes:
    """Where the content of a batch lies, or what it is."""
    count, _ = _BATCH.unpack_from(row)
    if count & _ELSEWHERE:
        _, _, segment, *span = _PLACED.unpack(row)
        return Content(segment, Span(*span))
    return row[_BATCH.size :]


def moved_row(row: bytes, segment: int, span: Span) -> bytes:
    """The same batch, its content somewhere else."""
    count, time_ms = _BATCH.unpack_from(row)
    return batch_row(count, time_ms, segment, span)


def segment_key(number: int) -> bytes:
    """The key of a segment."""
    return _NUMBER.pack(number)


def segment_number(key: bytes) -> int:
    """Read it."""
    number: int = _NUMBER.unpack(key)[0]
    return number


def segments_of(found: Iterable[tuple[bytes, bytes]]) -> tuple[Standpoint, dict[int, SegmentUse]]:
    """Read the rows of `segments`, without their checksums.

    Raises:
        KeyError: The standpoint is not among them.
    """
    said = dict(found)
    standpoint = Standpoint.of(said.pop(STANDPOINT))
    return standpoint, {segment_number(key): SegmentUse.of(row) for key, row in said.items()}


def partition_standing(number: int, extent: Extent) -> bytes:
    """A row of `partitions` without its checksum."""
    start, head, *rest = extent
    return _STANDING.pack(number, start, head + 1, *rest)


def partition_row(place: bytes, standing: bytes) -> tuple[Partition, int, Extent]:
    """Read a row of `partitions` without its checksum: of which one, its number, what there is."""
    number, start, end, *rest = _STANDING.unpack(standing)
    return partition_of(place), number, Extent(start, end - 1, *rest)


def partition_key(partition: Partition) -> bytes:
    """The key of a partition."""
    topic, address = octets_of(partition.topic), octets_of(partition.address)
    assert len(topic) <= TOPIC_BYTES_MAX
    assert _SEPARATOR not in topic
    assert len(address) <= ADDRESS_BYTES_MAX
    return topic + _SEPARATOR + address


def partition_of(place: bytes) -> Partition:
    """Read it."""
    topic, _, address = place.partition(_SEPARATOR)
    return Partition(text(topic), text(address))


def table_key(table: str, key: bytes) -> bytes:
    """The key of an entry."""
    name = table.encode()
    assert _SEPARATOR not in name
    return name + _SEPARATOR + key


def table_of(place: bytes) -> str:
    """The table that a row of `entries` belongs to, by its key."""
    return place.partition(_SEPARATOR)[0].decode("utf-8", "replace")
