"""Batches on their way between Kafka clients and logs: what is patched, and nothing else.

Base offset and leader epoch stand before the checksum. In a log the first is a sequence, and the
second the epoch of the gateway that took the batch in: above 0, so that producer id and base
sequence are known to be a Kafka producer's (`dafka.records.batch.run_of`). Clients are told the
offset, and no epoch: runs do not keep theirs, and -1 is what Kafka has for that.
"""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING

from dafka.records.batch import cut
from dafka.records.envelope import ENVELOPE_BYTES, FRESH, pack

if TYPE_CHECKING:
    from dafka.gateway.ledger import LedgerEntry
    from dafka.model import Batch

_PLACE = struct.Struct(">q4si")
"""Base offset, length as it is, leader epoch."""

_NO_EPOCH = -1


def taken_in(batch: bytes, sequence: int, epoch: int) -> bytes:
    """Return the content that a client's checked batch is kept as."""
    place = _PLACE.pack(sequence, batch[8:12], epoch)
    return b"".join((pack(FRESH), place, memoryview(batch)[_PLACE.size :]))


def served(batch: Batch, entry: LedgerEntry) -> bytes:
    """Return what of a batch lies in an entry, as clients read it.

    That is all of it, unless stores have batches that were put together another way.

    Raises:
        RecordError: It has to be taken apart, and cannot be.
    """
    part = cut(batch, entry.first, entry.first + entry.records)
    offset = entry.offset + part.sequence - entry.first
    content = memoryview(part.content)[ENVELOPE_BYTES:]
    place = _PLACE.pack(offset, bytes(content[8:12]), _NO_EPOCH)
    return b"".join((place, content[_PLACE.size :]))
