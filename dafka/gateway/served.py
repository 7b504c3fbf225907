"""Batches on their way between Kafka clients and logs: what is patched, and nothing else.

Base offset and leader epoch stand before the checksum. In a log the first is a sequence, and the
second the epoch of the gateway that took the batch in: above 0, so that producer id and base
sequence are known to be a Kafka producer's (`dafka.records.batch.run_of`). Clients are told the
offset, and no epoch: runs do not keep theirs, and -1 is what Kafka has for that.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from dafka.records.batch import cut
from dafka.records.client_batch import placed
from dafka.records.envelope import ENVELOPE_BYTES, FRESH, pack

if TYPE_CHECKING:
    from dafka.gateway.ledger import LedgerEntry
    from dafka.model import Batch

_NO_EPOCH = -1


def taken_in(batch: bytes, sequence: int, epoch: int) -> bytes:
    """Return the content that a client's checked batch is kept as."""
    return pack(FRESH) + placed(batch, sequence, epoch)


def served(batch: Batch, entry: LedgerEntry) -> bytes:
    """Return what of a batch lies in an entry, as clients read it.

    That is all of it, unless stores have batches that were put together another way.

    Raises:
        RecordError: It has to be taken apart, and cannot be.
    """
    part = cut(batch, entry.first, entry.first + entry.records)
    offset = entry.offset + part.sequence - entry.first
    return placed(part.content[ENVELOPE_BYTES:], offset, _NO_EPOCH)
