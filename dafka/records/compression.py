"""The codecs of record batches, and what a reader does to be safe from what they expand to.

A few kilobytes can stand for gigabytes, and nothing in front of them says so that could be
believed. So a batch is expanded into room that was measured out before. Source: KIP-98, "Message
Format"; for snappy, both framings that Kafka's clients send: the plain one and xerial's blocks.
"""

from __future__ import annotations

import zlib
from enum import IntEnum
from typing import TYPE_CHECKING

import cramjam

from dafka.errors import MisuseError, RecordError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

_GZIP_LEVEL = 6
_ZSTD_LEVEL = 3
"""What these libraries take by themselves: more costs several times the CPU for a tenth less."""

_GZIP_WINDOW = 31
"""zlib's word for the largest window, in gzip's frame."""

_FIRST_RATIO = 4
"""Room to begin with, by what came: most records do not get smaller than this."""

_ROOM_MIN = 64 * 1024

_NO_ROOM = "failed to write whole buffer"

_XERIAL = b"\x82SNAPPY\x00"
_XERIAL_BYTES = 16
"""Its name, its version, and the version that can read it."""

_BLOCK_SIZE_BYTES = 4


class Codec(IntEnum):
    """How the records of a batch are compressed; numbers are those of the batch's attributes."""

    NONE = 0
    GZIP = 1
    SNAPPY = 2
    LZ4 = 3
    ZSTD = 4

    @classmethod
    def named(cls, name: str) -> Codec:
        """Return the one that Kafka's `compression.type` calls so.

        Raises:
            MisuseError: There is none.
        """
        for codec in cls:
            if codec.name.lower() == name:
                return codec
        names = ", ".join(codec.name.lower() for codec in cls)
        raise MisuseError(f"there is no compression {name!r}; there are {names}")


def compressed(records: bytes, codec: Codec) -> bytes:
    """Return `records` as Kafka's clients of every make can read them."""
    match codec:
        case Codec.NONE:
            return records
        case Codec.GZIP:
            return zlib.compress(records, _GZIP_LEVEL, _GZIP_WINDOW)
        case Codec.SNAPPY:
            return bytes(cramjam.snappy.compress_raw(records))
        case Codec.LZ4:
            # Java's reader takes no blocks that depend on each other.
            stream = cramjam.lz4.Compressor(content_checksum=False, block_linked=False)
            stream.compress(records)
            return bytes(stream.finish())
        case Codec.ZSTD:
            return bytes(cramjam.zstd.compress(records, level=_ZSTD_LEVEL))


def expanded(records: bytes | memoryview, codec: Codec, bytes_max: int) -> bytes:
    """Return what `records` stand for.

    Raises:
        RecordError: They are damaged, or stand for more than `bytes_max`.
    """
    if bytes_max <= 0:  # to zlib it would be no bound
        raise RecordError("batch records")
    match codec:
        case Codec.NONE:
            return bytes(records)
        case Codec.GZIP:
            return _gunzipped(records, bytes_max)
        case Codec.SNAPPY:
            return b"".join(_blocks(memoryview(records), bytes_max))
        case Codec.LZ4:
            return _grown(cramjam.lz4.decompress_into, records, bytes_max)
        case Codec.ZSTD:
            return _grown(cramjam.zstd.decompress_into, records, bytes_max)


def _gunzipped(records: bytes | memoryview, bytes_max: int) -> bytes:
    stream = zlib.decompressobj(_GZIP_WINDOW)
    try:
        found = stream.decompress(records, bytes_max)
    except zlib.error as error:
        raise RecordError("batch records") from error
    if not stream.eof or stream.unused_data:
        raise RecordError("batch records")
    return found


def _grown(
    into: Callable[[bytes | memoryview, bytearray], int],
    records: bytes | memoryview,
    bytes_max: int,
) -> bytes:
    """Expand into more and more room: what it takes is known only when it has fitted."""
    size = max(_ROOM_MIN, _FIRST_RATIO * len(records))
    while True:
        size = min(size, bytes_max)
        room = bytearray(size)
        try:
            return bytes(memoryview(room)[: into(records, room)])
        except cramjam.DecompressionError as error:
            # Only its words say whether the room was too small or the records are damaged.
            if size == bytes_max or _NO_ROOM not in str(error):
                raise RecordError("batch records") from error
        size *= 4


def _blocks(records: memoryview, left: int) -> Iterator[bytes]:
    """The blocks of snappy's: one, or as many as xerial's framing has."""
    for block in _framed(records) if bytes(records[: len(_XERIAL)]) == _XERIAL else [records]:
        try:
            size = cramjam.snappy.decompress_raw_len(block)
            if size > left:
                raise RecordError("batch records")
            left -= size
            yield bytes(cramjam.snappy.decompress_raw(block))
        except cramjam.DecompressionError as error:
            raise RecordError("batch records") from error


def _framed(records: memoryview) -> Iterator[memoryview]:
    at = _XERIAL_BYTES
    while at < len(records):
        behind = at + _BLOCK_SIZE_BYTES
        end = behind + int.from_bytes(records[at:behind], "big")
        if end > len(records) or behind > len(records):
            raise RecordError("batch records")
        yield records[behind:end]
        at = end
