from __future__ import annotations

import pytest

from dafka.errors import RecordError
from dafka.records.batch import BatchBuilder
from dafka.records.client_batch import checked_batch, end_of, placed
from dafka.records.header import CRC, CRC_AT, HEADER, checked_fields, checksum, header_of


def batch(records=3):
    builder = BatchBuilder(1 << 20)
    for number in range(records):
        builder.append(1_000 + number, b"key", b"value", ())
    return bytes(builder.build())


def test_a_batch_gets_its_place_and_nothing_else_changes():
    there = placed(batch(), 2**40, 7)
    fields = checked_fields(there)
    assert (fields.base_offset, fields.leader_epoch) == (2**40, 7)
    assert fields._replace(base_offset=0, leader_epoch=0) == header_of(batch())._replace(
        leader_epoch=0
    )
    assert there[16:] == batch()[16:]
    assert end_of(there) == 2**40 + 3


def test_a_batch_of_a_client_is_checked():
    assert checked_batch(batch()).records == 3
    with pytest.raises(RecordError, match="batch header"):
        checked_batch(batch() + batch())


def test_a_batch_of_a_transaction_is_refused():
    built = batch()
    octets = bytearray(HEADER.pack(*header_of(built)._replace(attributes=0x10)))
    octets += built[HEADER.size :]
    CRC.pack_into(octets, CRC_AT, checksum(octets))
    with pytest.raises(RecordError, match="batch attributes"):
        checked_batch(bytes(octets))
