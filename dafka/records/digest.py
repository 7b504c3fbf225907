"""Digests of ranges of records, by which logs are compared without their contents travelling.

Envelopes are left out: they differ between clusters by design, as compression may. There are three
digests of a range: one of its records, for logs that have the same ones in other batches; one of
its batches as they were before they were compressed, at the cost of hashing their bytes, a
hundredth of parsing them; and one of the batches' headers alone. These name the producer's run and
place, the times of the first and the last record, and the checksum with which the records came:
enough to tell histories apart, not to find damage. Where a link has compressed they differ, and the
others decide.
"""

from __future__ import annotations

import hashlib
import struct
from typing import TYPE_CHECKING

from dafka.errors import RecordError
from dafka.limits import COMPARED_BYTES_MAX
from dafka.model import replace
from dafka.records.batch import RECORDS_FROM, checked_header, expanded_content, raw_records
from dafka.records.envelope import ENVELOPE_BYTES

if TYPE_CHECKING:
    from collections.abc import Sequence

    from dafka.model import Batch
    from dafka.records.batch import RawRecord

DIGEST_BYTES = 16

_BATCH = struct.Struct(">QI")
"""Sequence and count, before the bytes of each batch."""

NO_TIME = -1
"""For that of records whose time is no part of what they are."""

_RECORD = struct.Struct(">QqIII")
"""Sequence, timestamp, length of key and value plus one (0: none), number of headers."""

_HEADER = struct.Struct(">II")
"""Length of a header's name, and of its value plus one (0: none)."""


def expanded_batches(batches: Sequence[Batch], bytes_max: int) -> list[Batch]:
    """Return the first of these as they were before they were compressed, at least one.

    Args:
        batches: In order, checked.
        bytes_max: What they may come to. One that stands for more than `COMPARED_BYTES_MAX`, or
            cannot be read, stays as it is, and alone.
    """
    found: list[Batch] = []
    size = 0
    for batch in batches:
        try:
            content = expanded_content(batch.content, COMPARED_BYTES_MAX)
        except RecordError:
            return found or [batch]
        size += len(content)
        if found and size > bytes_max:
            break
        same = content is batch.content
        found.append(batch if same else replace(batch, content=content))
    return found


def digest_of_batches(batches: Sequence[Batch]) -> bytes:
    """Return the digest of whole batches as they stand, less their envelopes."""
    return _digest(batches, None)


def digest_of_headers(batches: Sequence[Batch]) -> bytes:
    """Return the digest of what batches say of themselves."""
    return _digest(batches, RECORDS_FROM)


def _digest(batches: Sequence[Batch], end: int | None) -> bytes:
    """Digest each content up to `end`."""
    state = hashlib.blake2b(digest_size=DIGEST_BYTES)
    for batch in batches:
        state.update(_BATCH.pack(batch.sequence, batch.count))
        state.update(memoryview(batch.content)[ENVELOPE_BYTES:end])
    return state.digest()


def digest_of_records(batches: Sequence[Batch], start: int, end: int) -> bytes:
    """Return the digest of the records from `start` to below `end`, however they are batched.

    Args:
        batches: Consecutive ones that hold all of them.
        start: Sequence of the first record.
        end: The sequence after the last one.

    Raises:
        RecordError: A batch is damaged, or they do not hold all of the records.
    """
    state = hashlib.blake2b(digest_size=DIGEST_BYTES)
    expected = start
    for batch in batches:
        header = checked_header(batch.content, batch.sequence)
        if header.records != batch.count:
            raise RecordError("batch count")
        parts: list[bytes] = []
        for record in raw_records(batch.content):
            if start <= record.sequence < end:
                if record.sequence != expected:
                    raise RecordError("batch sequence")
                expected += 1
                if header.log_append_time:
                    record = record._replace(timestamp_ms=NO_TIME)
                parts += _octets(record)
        state.update(b"".join(parts))
    if expected != end:
        raise RecordError("batch sequence")
    return state.digest()


def _octets(record: RawRecord) -> list[bytes]:
    """A record's fields, written so that no two records are written alike."""
    sequence, timestamp_ms, key, value, headers = record
    octets = [
        _RECORD.pack(
            sequence,
            timestamp_ms,
            0 if key is None else len(key) + 1,
            0 if value is None else len(value) + 1,
            len(headers),
        ),
        key or b"",
        value or b"",
    ]
    for name, content in headers:
        encoded = name.encode()
        lengths = _HEADER.pack(len(encoded), 0 if content is None else len(content) + 1)
        octets += [lengths, encoded, content or b""]
    return octets
