"""The envelope: twenty bytes before the record batch, the only part that changes on the way.

| offset | bytes | field |
|---|---|---|
| 0 | 2 | magic `DA F5` |
| 2 | 1 | version `01` |
| 3 | 1 | reserved, zero |
| 4 | 2 | epoch of the tree's levels; zero until levels have ever been changed |
| 6 | 2 | origin: number of the cluster the records were first published on; 0 is "this one" |
| 8 | 8 | copy flags: one bit per tree level crossed |
| 16 | 4 | CRC32C of bytes 0 to 15 |

Only distributors write flags and origin. What an application publishes, also when it derives it
from a copied record, gets a fresh envelope and so reaches every cluster.
"""

from __future__ import annotations

import struct
from typing import NamedTuple

import google_crc32c

ENVELOPE_BYTES = 20

ORIGIN_MAX = 65_535
"""The largest number of a cluster: it has two bytes."""

_MAGIC = 0xDAF5
_VERSION = 1
_FIELDS = struct.Struct(">HBBHHQ")
_CHECKSUM = struct.Struct(">I")


class Envelope(NamedTuple):
    """Where a batch comes from and which levels it has crossed.

    Attributes:
        origin: Number of its first cluster, 1 to 65535; 0 while it has not been copied.
        copy_flags: 64 bits; bit level - 1 is set when it has crossed that level.
        epoch: Generation of the tree's levels.
    """

    origin: int = 0
    copy_flags: int = 0
    epoch: int = 0


FRESH = Envelope()
"""Published here, copied nowhere."""


def pack(envelope: Envelope) -> bytes:
    """Return the twenty bytes of `envelope`."""
    fields = _FIELDS.pack(_MAGIC, _VERSION, 0, envelope.epoch, envelope.origin, envelope.copy_flags)
    return fields + _CHECKSUM.pack(google_crc32c.value(fields))


_FRESH_OCTETS = pack(FRESH)


def unpack(content: bytes) -> Envelope | None:
    """Return the envelope `content` begins with, or None if it has none that is whole."""
    if content[:ENVELOPE_BYTES] == _FRESH_OCTETS:
        return FRESH
    if len(content) < ENVELOPE_BYTES:
        return None
    fields = content[: _FIELDS.size]
    magic, version, reserved, epoch, origin, copy_flags = _FIELDS.unpack(fields)
    if (magic, version, reserved) != (_MAGIC, _VERSION, 0):
        return None
    (checksum,) = _CHECKSUM.unpack_from(content, _FIELDS.size)
    if google_crc32c.value(fields) != checksum:
        return None
    return Envelope(origin, copy_flags, epoch)


def stamped(content: bytes, envelope: Envelope) -> bytes:
    """Return `content` under another envelope; the record batch is not touched."""
    return b"".join((pack(envelope), memoryview(content)[ENVELOPE_BYTES:]))
