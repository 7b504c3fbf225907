"""The primitive fields of RFC 46: number-1, number-4, number-8, string, longstr.

Numbers are unsigned and big-endian; a string is its length and its bytes. Text is UTF-8 with
surrogate escapes, because the RFC allows any bytes in names and they must survive a round trip.
"""

from __future__ import annotations

import struct
from functools import lru_cache

from dafka.errors import WireError
from dafka.limits import ADDRESS_BYTES_MAX, NAMES_MAX

_U32 = struct.Struct(">I")
_U64 = struct.Struct(">Q")
_names: dict[str, str] = {}


def text(octets: bytes) -> str:
    """Bytes of a name as text; every byte string has exactly one text.

    And every name is there only once: what is kept of ten thousand partitions is mostly names, and
    one that is met again need not be hashed again. Not by `sys.intern`: some Pythons never forget.
    """
    name = octets.decode("utf-8", "surrogateescape")
    known = _names.get(name)
    if known is not None:
        return known
    if len(octets) > ADDRESS_BYTES_MAX:
        return name  # of a question at a query port: it names nothing
    if len(_names) >= NAMES_MAX:
        _names.clear()
    _names[name] = name
    return name


def octets_of(name: str) -> bytes:
    """The inverse of `text`."""
    return name.encode("utf-8", "surrogateescape")


def number_4(value: int) -> bytes:
    """Encode an unsigned 32-bit number."""
    return _U32.pack(value)


def number_8(value: int) -> bytes:
    """Encode an unsigned 64-bit number."""
    return _U64.pack(value)


@lru_cache(NAMES_MAX)
def string(name: str) -> bytes:
    """Encode a string of at most 255 bytes: one length octet, then the bytes."""
    # Remembered: thousands of messages are about the same partitions, from the same node.
    octets = octets_of(name)
    return bytes((len(octets),)) + octets


def longstr(name: str) -> bytes:
    """Encode a string with a 32-bit length."""
    octets = octets_of(name)
    return _U32.pack(len(octets)) + octets


class Reader:
    """Reads fields off one frame, checking every length against what is left first."""

    __slots__ = ("_frame", "_position")

    def __init__(self, frame: bytes, position: int = 0) -> None:
        self._frame = frame
        self._position = position

    @property
    def remaining(self) -> int:
        """Bytes not read yet."""
        return len(self._frame) - self._position

    def _take(self, size: int) -> bytes:
        end = self._position + size
        if end > len(self._frame):
            raise WireError("truncated")
        octets = self._frame[self._position : end]
        self._position = end
        return octets

    def number_1(self) -> int:
        """Read an octet."""
        return self._take(1)[0]

    def number_4(self) -> int:
        """Read an unsigned 32-bit number."""
        return int.from_bytes(self._take(4), "big")

    def numbers_4(self, count: int) -> tuple[int, ...]:
        """Read so many unsigned 32-bit numbers."""
        return struct.unpack(f">{count}I", self._take(4 * count))

    def number_8(self) -> int:
        """Read an unsigned 64-bit number."""
        start = self._position
        self._position = start + 8
        if self._position > len(self._frame):
            raise WireError("truncated")
        number: int = _U64.unpack_from(self._frame, start)[0]
        return number

    def string(self) -> str:
        """Read a string with a one-octet length."""
        # By itself, not out of the parts above: every message has two or three, and calls cost.
        frame, start = self._frame, self._position + 1
        if start > len(frame):
            raise WireError("truncated")
        end = self._position = start + frame[start - 1]
        if end > len(frame):
            raise WireError("truncated")
        return text(frame[start:end])

    def longstr(self) -> str:
        """Read a string with a 32-bit length."""
        return self._take(self.number_4()).decode("utf-8", "surrogateescape")
