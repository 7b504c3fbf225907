"""What a consumer tells the other members of its group, as far as it is looked at: its topics."""

from __future__ import annotations

import struct

from dafka.errors import RequestError
from dafka.gateway.layout import RequestReader
from dafka.limits import REQUEST_ITEMS_MAX

CONSUMERS = "consumer"
"""The kind of group whose members tell this."""

_I16 = struct.Struct(">h")
_I32 = struct.Struct(">i")


def subscribed_topics(told: bytes) -> frozenset[str] | None:
    """Return the topics; None if none can be read."""
    reader = RequestReader(told, REQUEST_ITEMS_MAX)
    try:
        reader.numbers(_I16)  # its version: topics stand at the same place in all
        return frozenset(
            reader.octets(reader.length(_I16, nullable=False)).decode()
            for _ in range(reader.items(_I32, nullable=False))
        )
    except (RequestError, UnicodeDecodeError):
        return None
