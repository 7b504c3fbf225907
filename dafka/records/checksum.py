"""CRC-32C, by the processor's instruction where it has one."""

from __future__ import annotations

import google_crc32c


def crc32c(*pieces: bytes) -> int:
    """Return the CRC-32C of octets, which may be in pieces; none is copied."""
    crc = 0
    for octets in pieces:
        crc = google_crc32c.extend(crc, octets)
    return crc
