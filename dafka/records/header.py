"""The 61 bytes that Kafka's record batch v2 begins with: what stands where, and if it is right.

Source: KIP-98, "Message Format". Base offset and leader epoch stand outside the checksum.
"""

from __future__ import annotations

import struct
from typing import NamedTuple

import google_crc32c

from dafka.errors import RecordError
from dafka.limits import BATCH_RECORDS_MAX
from dafka.records.compression import Codec

HEADER = struct.Struct(">qiibIhiqqqhii")
"""The fields of `HeaderFields`."""

LENGTH = struct.Struct(">i")
LENGTH_AT = 8
LENGTH_FROM = 12
"""The length field counts the bytes after itself."""

CRC = struct.Struct(">I")
CRC_AT = 17
CRC_FROM = 21
"""The CRC covers everything from the attributes on."""

ATTRIBUTES = struct.Struct(">H")
"""Which the covered part begins with."""

NEWEST_FROM = 35
"""Where the largest timestamp stands."""

TIMESTAMP = struct.Struct(">q")
RUN_FROM = 12
RUN = struct.Struct(">i27xqhi")
"""Where leader epoch, producer id, producer epoch and base sequence stand, and how."""

MAGIC = 2
CODEC_MASK = 0x07
LOG_APPEND_MASK = 0x08
TRANSACTIONAL_MASK = 0x10
CONTROL_MASK = 0x20
NO_PRODUCER = NO_LEADER = -1


class HeaderFields(NamedTuple):
    """A header, field by field, under the names that Kafka has for them.

    Attributes:
        base_offset: The first record's.
        length: Bytes behind this field.
        leader_epoch: Who gave the offset.
        magic: The format's number.
        crc: Of what stands behind it.
        attributes: Codec, kind of timestamp, transactional, control.
        last_offset_delta: One less than the records.
        first_timestamp_ms: What the records' timestamps count from.
        max_timestamp_ms: The latest of them.
        producer_id: -1 for none.
        producer_epoch: -1 for none.
        base_sequence: The first record's, among those of the producer; -1 for none.
        records: How many there are.
    """

    base_offset: int
    length: int
    leader_epoch: int
    magic: int
    crc: int
    attributes: int
    last_offset_delta: int
    first_timestamp_ms: int
    max_timestamp_ms: int
    producer_id: int
    producer_epoch: int
    base_sequence: int
    records: int


def header_of(batch: bytes, at: int = 0) -> HeaderFields:
    """Return the header of a batch that was checked, and begins at `at`."""
    return HeaderFields._make(HEADER.unpack_from(batch, at))


def checked_fields(batch: bytes, at: int = 0) -> HeaderFields:
    """Return the header of what should be one batch, from `at` to the end.

    Raises:
        RecordError: It is not one batch of records that we can keep.
    """
    if len(batch) < at + HEADER.size:
        raise RecordError("batch size")
    fields = HeaderFields._make(HEADER.unpack_from(batch, at))
    if fields.magic != MAGIC or fields.length != len(batch) - at - LENGTH_FROM:
        raise RecordError("batch header")
    if fields.attributes & CONTROL_MASK or fields.attributes & CODEC_MASK > Codec.ZSTD:
        raise RecordError("batch attributes")
    records = fields.records
    if not 1 <= records <= BATCH_RECORDS_MAX or fields.last_offset_delta != records - 1:
        raise RecordError("batch count")
    if checksum(batch, at) != fields.crc:
        raise RecordError("batch checksum")
    return fields


def seal(header: bytearray, records: bytes) -> None:
    """Write length and checksum of a batch of `records`, which are not copied, into its header."""
    LENGTH.pack_into(header, LENGTH_AT, len(header) - LENGTH_FROM + len(records))
    crc = google_crc32c.extend(google_crc32c.value(bytes(header[CRC_FROM:])), records)
    CRC.pack_into(header, CRC_AT, crc)


def checksum(batch: bytes, at: int = 0) -> int:
    """What the CRC of a batch has to be."""
    return int(google_crc32c.value(bytes(memoryview(batch)[at + CRC_FROM :])))
