from __future__ import annotations

import pytest

from dafka.errors import RecordError
from dafka.limits import BATCH_RECORDS_MAX
from dafka.records.batch import BatchBuilder, Run
from dafka.records.compression import Codec
from dafka.records.header import CRC, CRC_AT, HEADER, checked_fields, checksum, header_of


def batch(records=3, codec=Codec.NONE):
    builder = BatchBuilder(1 << 20, Run(9, 5), codec=codec)
    for number in range(records):
        builder.append(1_000 + number, b"key", b"value" * 100, ())
    return bytes(builder.build())


def changed(**fields):
    """A batch whose header says something else, under a checksum that says so."""
    built = batch()
    octets = bytearray(HEADER.pack(*header_of(built)._replace(**fields)) + built[HEADER.size :])
    CRC.pack_into(octets, CRC_AT, checksum(octets))
    return bytes(octets)


@pytest.mark.parametrize("codec", Codec)
def test_a_header_says_what_was_built(codec):
    fields = checked_fields(batch(codec=codec))
    assert (fields.records, fields.producer_id, fields.base_sequence) == (3, 9, 5)
    assert (fields.first_timestamp_ms, fields.max_timestamp_ms) == (1_000, 1_002)
    assert fields.attributes == codec


def test_a_batch_may_begin_further_on():
    assert checked_fields(b"envelope" + batch(), 8) == checked_fields(batch())


@pytest.mark.parametrize(
    ("octets", "reason"),
    [
        (b"", "batch size"),
        (batch()[:60], "batch size"),
        (batch()[:-1], "batch header"),
        (batch() + b"0", "batch header"),
        (changed(magic=1), "batch header"),
        (changed(attributes=0x20), "batch attributes"),
        (changed(attributes=5), "batch attributes"),
        (changed(records=0, last_offset_delta=-1), "batch count"),
        (changed(records=-1, last_offset_delta=-2), "batch count"),
        (changed(records=2), "batch count"),
        (
            changed(records=BATCH_RECORDS_MAX + 1, last_offset_delta=BATCH_RECORDS_MAX),
            "batch count",
        ),
        (batch()[:-1] + b"!", "batch checksum"),
    ],
)
def test_what_is_no_batch_is_refused(octets, reason):
    with pytest.raises(RecordError) as refused:
        checked_fields(octets)
    assert refused.value.reason == reason
