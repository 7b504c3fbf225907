from __future__ import annotations

import struct
import zlib

import cramjam
import pytest
from aiokafka.record.default_records import DefaultRecordBatch, DefaultRecordBatchBuilder
from hypothesis import given
from hypothesis import strategies as st

from dafka.errors import MisuseError, RecordError
from dafka.limits import EXPANDED_BYTES_MAX
from dafka.model import Batch, Partition, replace
from dafka.records.batch import (
    BatchBuilder,
    checked_header,
    cut,
    enclosed,
    is_compressed,
    plain,
    raw_records,
    readable_part,
    records_of,
    values_of,
    without_first,
)
from dafka.records.compression import Codec, compressed, expanded
from dafka.records.digest import digest_of_records
from dafka.records.envelope import ENVELOPE_BYTES
from tests.support.hostile_node import garbled

ORDERS = Partition("orders", "A1")
ALL = list(Codec)
CODECS = [codec for codec in Codec if codec is not Codec.NONE]
VALUES = [b"value %d" % number for number in range(1_000)]


def batch_of(values, codec, sequence=7, *, append_time=False):
    builder = BatchBuilder(EXPANDED_BYTES_MAX, codec=codec, append_time=append_time)
    for value in values:
        assert builder.append(1_000, b"key", value, [("h", b"1")])
    content = enclosed(builder.build(), sequence)
    return Batch(ORDERS, sequence, len(values), content)


@given(st.binary(max_size=2_000), st.sampled_from(ALL))
def test_what_is_compressed_is_expanded_to_what_it_was(octets, codec):
    assert expanded(compressed(octets, codec), codec, 2_000) == octets


@pytest.mark.parametrize("codec", CODECS)
def test_a_compressed_batch_has_the_same_records_under_a_right_checksum(codec):
    batch, same = batch_of(VALUES, codec), batch_of(VALUES, Codec.NONE)
    assert is_compressed(batch.content)
    assert checked_header(batch.content, 7) == checked_header(same.content, 7)._replace(codec=codec)
    assert len(batch.content) < len(same.content) / 2
    assert list(records_of(batch)) == list(records_of(same))
    assert values_of(batch, 100) == VALUES[93:]
    assert plain(batch.content)[ENVELOPE_BYTES + 61 :] == same.content[ENVELOPE_BYTES + 61 :]
    assert digest_of_records([batch], 7, 1_007) == digest_of_records([same], 7, 1_007)


@pytest.mark.parametrize("codec", CODECS)
def test_parts_of_a_compressed_batch_are_compressed(codec):
    batch = batch_of(VALUES, codec)
    for part in (without_first(batch, 300), cut(batch, 10, 500)):
        assert checked_header(part.content, part.sequence).codec is codec
        assert values_of(part) == VALUES[part.sequence - 7 : part.end - 7]
    assert readable_part(batch).content == batch.content


@pytest.mark.parametrize("codec", CODECS)
def test_the_time_of_who_took_it_in_is_kept(codec):
    batch = batch_of(VALUES, codec, append_time=True)
    assert checked_header(batch.content, 7).log_append_time
    assert {record.timestamp_ms for record in records_of(batch)} == {1_000}


@pytest.mark.parametrize("codec", CODECS)
def test_what_does_not_get_smaller_stays_as_it_is(codec):
    assert not is_compressed(batch_of([b"x"], codec).content)


@pytest.mark.parametrize("codec", CODECS)
def test_batches_of_another_library_are_read_and_the_other_way_round(codec):
    other = DefaultRecordBatchBuilder(2, codec, 0, -1, -1, -1, 1 << 20)
    for number, value in enumerate(VALUES):
        other.append(number, 1_000, b"key", value, [("h", b"1")])
    content = enclosed(other.build(), 7)
    assert checked_header(content, 7).codec is codec
    assert [record.value for record in raw_records(content)] == VALUES
    ours = DefaultRecordBatch(bytearray(batch_of(VALUES, codec).content[ENVELOPE_BYTES:]))
    assert ours.validate_crc()
    assert [record.value for record in ours] == VALUES


def bomb(codec, size):
    """A little that stands for much: built by hand, as a builder of ours would refuse."""
    octets = bytes(size)
    if codec is Codec.SNAPPY:
        # In xerial's framing, whose blocks do not say what they come to together.
        block = bytes(cramjam.snappy.compress_raw(octets[: size // 4 + 1]))
        header = b"\x82SNAPPY\x00" + struct.pack(">ii", 1, 1)
        return header + 4 * (struct.pack(">i", len(block)) + block)
    return compressed(octets, codec)


@pytest.mark.parametrize("codec", CODECS)
def test_what_stands_for_too_much_is_refused(codec):
    small = bomb(codec, EXPANDED_BYTES_MAX)
    assert len(small) < EXPANDED_BYTES_MAX / 15
    with pytest.raises(RecordError, match="batch records"):
        expanded(bomb(codec, EXPANDED_BYTES_MAX + 1), codec, EXPANDED_BYTES_MAX)
    with pytest.raises(RecordError, match="batch records"):
        expanded(small, codec, 0)
    if codec is not Codec.SNAPPY:
        assert expanded(small, codec, EXPANDED_BYTES_MAX) == bytes(EXPANDED_BYTES_MAX)


@pytest.mark.parametrize("codec", CODECS)
@pytest.mark.parametrize("damaged", [b"", b"\xff" * 40, b"\x82SNAPPY\x00" + b"\xff" * 40])
def test_what_is_damaged_is_refused(codec, damaged):
    with pytest.raises(RecordError, match="batch records"):
        expanded(damaged, codec, EXPANDED_BYTES_MAX)


@pytest.mark.parametrize("codec", CODECS)
@pytest.mark.parametrize("left_out", [1, 20])
def test_what_was_cut_off_is_refused(codec, left_out):
    whole = compressed(b"".join(VALUES), codec)
    with pytest.raises(RecordError, match="batch records"):
        expanded(whole[:-left_out], codec, EXPANDED_BYTES_MAX)


def test_what_follows_a_gzip_member_is_refused():
    with pytest.raises(RecordError, match="batch records"):
        expanded(compressed(b"x", Codec.GZIP) + b"y", Codec.GZIP, EXPANDED_BYTES_MAX)


def test_readers_pass_over_what_cannot_be_expanded():
    batch = batch_of(VALUES, Codec.GZIP)
    damaged = replace(batch, content=garbled(batch.content, 150, b"\xff\xff\xff"))
    passed = []
    assert list(records_of(damaged, passed_over=lambda one, end: passed.append((one, end)))) == []
    assert passed == [(damaged, 7)]
    assert readable_part(damaged) is None


def test_kafkas_clients_gzip_at_any_level():
    octets = b"".join(VALUES)
    assert expanded(zlib.compress(octets, 9, 31), Codec.GZIP, 1 << 20) == octets


def test_codecs_have_kafkas_names():
    assert [Codec.named(name) for name in ("none", "gzip", "snappy", "lz4", "zstd")] == ALL
    with pytest.raises(MisuseError, match="no compression 'brotli'; there are none, gzip"):
        Codec.named("brotli")
