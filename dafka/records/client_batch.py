"""Record batches of Kafka clients: stored as they come, and served with the offset that they got.

Unlike a content (`dafka.records.batch`) there is no envelope in front, the base offset says nothing
yet, and the producer's id, epoch and sequence are those of Kafka's idempotent producers.
"""

from __future__ import annotations

import struct

from dafka.errors import RecordError
from dafka.records.header import (
    CRC_FROM,
    LENGTH,
    LENGTH_AT,
    TRANSACTIONAL_MASK,
    HeaderFields,
    checked_fields,
)

_PLACE = struct.Struct(">qii")
"""Base offset, length and leader epoch: what stands in front of the magic."""

_LAST_DELTA = struct.Struct(">i")
_LAST_DELTA_AT = CRC_FROM + 2


def checked_batch(batch: bytes) -> HeaderFields:
    """Return the header of what a client sent as one batch.

    Raises:
        RecordError: It is not one batch, is damaged, or part of a transaction.
    """
    fields = checked_fields(batch)
    if fields.attributes & TRANSACTIONAL_MASK:
        raise RecordError("batch attributes")
    return fields


def placed(batch: bytes, offset: int, leader_epoch: int) -> bytes:
    """Return a checked batch under the offset that it got, by a leader of this epoch."""
    (length,) = LENGTH.unpack_from(batch, LENGTH_AT)
    place = _PLACE.pack(offset, length, leader_epoch)
    return b"".join((place, memoryview(batch)[_PLACE.size :]))


def end_of(batch: bytes) -> int:
    """Return the offset behind the last record of a batch that has its place."""
    (offset, _, _), (delta,) = (
        _PLACE.unpack_from(batch),
        _LAST_DELTA.unpack_from(batch, _LAST_DELTA_AT),
    )
    return int(offset + delta + 1)
