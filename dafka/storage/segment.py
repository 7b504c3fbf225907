"""How the changes of a log lie in its segments, and how they are found again. No IO.

A segment is frames, one behind the other. One `append` is one frame:

| field | |
|---|---|
| mark | 8 octets that the log has drawn; what comes from outside cannot look like a frame |
| checksum | u32, CRC-32C of all that follows |
| number | u64, one more than the frame before |
| sizes | u32 of the change, u32 of the contents with their heads |
| change | MessagePack, `FrameChange` |
| contents | for each batch `ContentHead` (u32, u64, u32, u32), then its content |

Behind the last frame of a segment anything may lie: what a power cut has left of a frame, or what
the segment held before it was used again. So a frame is one if its checksum is right, and the next
one if its number is.
"""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, NamedTuple

import msgspec

from dafka.errors import StorageError
from dafka.records.checksum import crc32c

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

MARK_BYTES = 8
_CHECKED = struct.Struct(">QII")
_CHECKSUM = struct.Struct(">I")
_HEAD = struct.Struct(">IQII")

HEADER_BYTES = MARK_BYTES + _CHECKSUM.size + _CHECKED.size
HEAD_BYTES = _HEAD.size

FRAME_BYTES_MAX = 1 << 30
"""Of one frame; a store's turn has a hundredth of it."""


_ALONE_BYTES = 8_192
"""So large a content is written from where it is."""


class FrameChange(msgspec.Struct, array_like=True, frozen=True):
    """What an `append` was called with, but for its batches; partitions by their numbers.

    Attributes:
        arrival_ms: When.
        named: The partitions that got a number by it: the number, topic, NUL, address.
        trims: See `RecordLog.append`.
        skips: See there.
        entries: See there; in UTF-8, key and value.
        forgets: See there.
        erases: See there.
        moved: That the contents are copies of what lies elsewhere: who reads them again does
            nothing.
    """

    arrival_ms: int
    named: tuple[tuple[int, bytes], ...] = ()
    trims: tuple[tuple[int, int], ...] = ()
    skips: tuple[tuple[int, int], ...] = ()
    entries: tuple[tuple[str, bytes, bytes | None], ...] = ()
    forgets: tuple[int, ...] = ()
    erases: tuple[int, ...] = ()
    moved: bool = False


class ContentHead(NamedTuple):
    """What stands before a content.

    Attributes:
        partition: The number of the batch's.
        sequence: Of its first record.
        records: How many.
        size: Bytes of the content.
    """

    partition: int
    sequence: int
    records: int
    size: int

    def packed(self) -> bytes:
        """As it stands there."""
        return _HEAD.pack(*self)


class Span(NamedTuple):
    """Where a content lies.

    Attributes:
        start: Of what is of no use without it: its head, and of the first one of a frame the
            frame's own.
        at: Of the content.
        size: Of the content.
    """

    start: int
    at: int
    size: int

    @property
    def end(self) -> int:
        """Behind it."""
        return self.at + self.size


class Frame(NamedTuple):
    """One change with its batches, as it was found.

    Attributes:
        number: Its own.
        end: Where the next one begins.
        change: What it says.
        heads: Of its batches.
        spans: Where their contents lie.
    """

    number: int
    end: int
    change: FrameChange
    heads: list[ContentHead]
    spans: list[Span]


_encoder = msgspec.msgpack.Encoder()
_decoder = msgspec.msgpack.Decoder(FrameChange)


def frame(
    mark: bytes,
    number: int,
    change: FrameChange,
    heads: Sequence[ContentHead],
    contents: Sequence[bytes],
) -> tuple[list[bytes], int]:
    """Return a frame, in pieces that follow each other, and where in it its contents' heads begin.

    A large content is a piece by itself: to copy it behind its head into fresh memory costs more
    than to sum it up.

    Raises:
        StorageError: It is too large.
    """
    said = _encoder.encode(change)
    size = _HEAD.size * len(heads) + sum([head.size for head in heads])
    if size > FRAME_BYTES_MAX - HEADER_BYTES - len(said):
        raise StorageError(
            f"cannot append {size:,} bytes to a log at once; at most {FRAME_BYTES_MAX:,} at a time"
        )
    pieces: list[bytes] = []
    small = [_CHECKED.pack(number, len(said), size), said]
    for head, content in zip(heads, contents, strict=True):
        small.append(head.packed())
        if len(content) < _ALONE_BYTES:
            small.append(content)
        else:
            pieces += (b"".join(small), content)
            small = []
    if small:
        pieces.append(b"".join(small))
    return [mark + _CHECKSUM.pack(crc32c(*pieces)), *pieces], HEADER_BYTES + len(said)


def spans_of(heads: Sequence[ContentHead], start: int, at: int) -> list[Span]:
    """Return where contents lie, of a frame that begins at a place, and their heads at another."""
    spans: list[Span] = []
    for *_, size in heads:
        at += _HEAD.size
        spans.append(Span(start, at, size))
        start = at = at + size
    return spans


def frame_at(octets: bytes, at: int, mark: bytes) -> Frame | None:
    """Return the frame that begins at a place, None if no whole one does."""
    checked = at + MARK_BYTES + _CHECKSUM.size
    if len(octets) < at + HEADER_BYTES or octets[at : at + MARK_BYTES] != mark:
        return None
    number, said, contents = _CHECKED.unpack_from(octets, checked)
    begin = at + HEADER_BYTES
    end = begin + said + contents
    if end > len(octets):
        return None
    if _CHECKSUM.unpack_from(octets, at + MARK_BYTES) != (crc32c(octets[checked:end]),):
        return None
    change = _decoder.decode(octets[begin : begin + said])
    heads: list[ContentHead] = []
    place = begin + said
    while place < end:
        heads.append(head := ContentHead(*_HEAD.unpack_from(octets, place)))
        place += _HEAD.size + head.size
    return Frame(number, end, change, heads, spans_of(heads, at, begin + said))


class Scan:
    """Reads segments from a place on, in their order, up to where the log ends.

    Args:
        mark: The log's.
        number: Of the first frame that is to be found.
    """

    def __init__(self, mark: bytes, number: int) -> None:
        self._mark = mark
        self.number = number
        """Of the next frame."""
        self.end = 0
        """Where it would begin, in the segment that was read last."""

    def frames(self, octets: bytes) -> Iterator[Frame]:
        """Yield the frames of one segment.

        Args:
            octets: From the place on where a frame may begin; places are counted from there.

        Raises:
            StorageError: A frame lies behind one that is not whole. Each was on the disk before the
                next one was written, so that is not the end of the log but damage.
        """
        self.end = 0
        while (found := frame_at(octets, self.end, self._mark)) and found.number == self.number:
            yield found
            self.number += 1
            self.end = found.end
        later = self._later(octets)
        if later is not None:
            raise StorageError(
                f"change {self.number} is not whole at byte {self.end:,}, while change {later} "
                "behind it is"
            )

    def _later(self, octets: bytes) -> int | None:
        """The number of a whole frame behind the end that is later than what is missing there."""
        at = octets.find(self._mark, self.end)
        while at >= 0:
            checked = at + MARK_BYTES + _CHECKSUM.size
            if len(octets) >= at + HEADER_BYTES:
                number: int = _CHECKED.unpack_from(octets, checked)[0]
                if number > self.number and frame_at(octets, at, self._mark):
                    return number
            at = octets.find(self._mark, at + 1)
        return None
