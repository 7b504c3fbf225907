from __future__ import annotations

import random
import struct

import google_crc32c
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from dafka.arrow.parsing import Page
from dafka.errors import RecordError
from dafka.limits import (
    BATCH_BYTES_MAX,
    BATCH_RECORDS_MAX,
    COMPARED_BYTES_MAX,
    RECORD_BYTES_MAX,
)
from dafka.model import Batch, Header, Partition, Record, replace
from dafka.records.batch import (
    BatchBuilder,
    RawRecord,
    checked_count,
    compressed_content,
    enclosed,
    expanded_content,
    has_append_time,
    is_compressed,
    raw_records,
    readable_part,
    records_of,
    run_of,
    values_of,
    without_first,
)
from dafka.records.compression import Codec
from dafka.records.envelope import ENVELOPE_BYTES, FRESH, Envelope, stamped, unpack
from dafka.testing.strategies import batch_of, batches, envelopes
from dafka.testing.strategies import raw_records as some_record
from tests.support.batches import make_batch, unreadable_from

ORDERS = Partition("orders", "A1")
BASE_OFFSET = slice(ENVELOPE_BYTES, ENVELOPE_BYTES + 8)
LEADER_EPOCH = range(ENVELOPE_BYTES + 12, ENVELOPE_BYTES + 16)


def raw(timestamp_ms=1_000, key=None, value=b"value", headers=()):
    return RawRecord(0, timestamp_ms, key, value, headers)


def mixed(sequence=7):
    records = [
        raw(1_000, b"key", b"value"),
        raw(999, None, None),
        raw(0, b"", b"", [("", b""), ("n", None)]),
        raw(2**40, None, b"x" * 300, [("h", b"1"), ("h", b"2")]),
    ]
    return batch_of(ORDERS, sequence, records, FRESH)


@given(st.lists(some_record, min_size=1, max_size=10), st.integers(0, 2**62), envelopes)
def test_records_survive(records, sequence, envelope):
    batch = batch_of(ORDERS, sequence, records, envelope)
    assert checked_count(batch.content, sequence) == len(records)
    assert list(records_of(batch)) == [
        Record(
            "orders",
            "A1",
            sequence + index,
            record.timestamp_ms,
            record.key,
            record.value,
            tuple(Header(name, value) for name, value in record.headers),
            envelope.copy_flags,
            envelope.origin,
        )
        for index, record in enumerate(records)
    ]


def test_nothing_and_empty_are_different():
    first, second, third, _ = records_of(mixed())
    assert (first.key, first.value, first.headers) == (b"key", b"value", ())
    assert (second.key, second.value) == (None, None)
    assert (third.key, third.value) == (b"", b"")
    assert third.headers == (Header("", b""), Header("n", None))


def test_records_from_a_start():
    assert [record.sequence for record in records_of(mixed(), 9)] == [9, 10]
    assert list(records_of(mixed(), 11)) == []


def test_a_record_of_the_largest_size():
    batch = batch_of_one(bytes(RECORD_BYTES_MAX))
    assert len(batch.content) <= BATCH_BYTES_MAX
    (record,) = records_of(batch)
    assert record.value == bytes(RECORD_BYTES_MAX)


def batch_of_one(value):
    builder = BatchBuilder(1)  # one record always fits
    assert builder.append(0, None, value, ())
    return Batch(ORDERS, 0, 1, enclosed(builder.build(), 0))


def test_a_full_builder_refuses_and_stays_whole():
    builder = BatchBuilder(1_000)
    appended = 0
    while builder.append(0, None, bytes(100), ()):
        appended += 1
    assert builder.count == appended
    assert builder.size <= 1_000
    content = enclosed(builder.build(), 0)
    assert checked_count(content, 0) == appended
    assert len(list(raw_records(content))) == appended


def test_as_many_records_as_a_batch_may_have():
    builder = BatchBuilder(BATCH_BYTES_MAX)
    for _ in range(BATCH_RECORDS_MAX):
        assert builder.append(0, None, None, ())
    assert not builder.append(0, None, None, ())
    assert checked_count(enclosed(builder.build(), 0), 0) == BATCH_RECORDS_MAX


def test_every_single_byte_corruption_is_refused():
    content = mixed().content
    harmless = set()
    for position in range(len(content)):
        for difference in (1, 0x80, 0xFF):
            damaged = bytearray(content)
            damaged[position] ^= difference
            if passes(bytes(damaged)):
                harmless.add(position)
                # Kafka's leader epoch, outside the CRC; we give it no meaning.
                assert list(raw_records(bytes(damaged))) == list(raw_records(content))
    assert harmless == set(LEADER_EPOCH)


def passes(content, sequence=7):
    try:
        checked_count(content, sequence)
    except RecordError:
        return False
    return True


@given(batches, st.integers(0, 2**40))
def test_the_base_offset_places_the_batch_and_nothing_else(batch, sequence):
    moved = bytearray(batch.content)
    moved[BASE_OFFSET] = sequence.to_bytes(8, "big")
    content = bytes(moved)
    assert passes(content, sequence)
    assert not passes(content, sequence + 1)
    before = [record._replace(sequence=0) for record in raw_records(batch.content)]
    assert [record._replace(sequence=0) for record in raw_records(content)] == before
    assert [record.sequence for record in raw_records(content)] == list(
        range(sequence, sequence + batch.count)
    )


@pytest.mark.parametrize("size", [0, 1, 19, 20, 60, 80, 81, 100])
def test_every_cut_is_refused(size):
    assert not passes(mixed().content[:size])
    assert len(mixed().content) > 100


def mended(content, sequence=7):
    """Make length, place and checksum right again."""
    fixed = bytearray(content)
    struct.pack_into(">q", fixed, 20, sequence)
    struct.pack_into(">i", fixed, 28, len(fixed) - 32)
    struct.pack_into(">I", fixed, 37, google_crc32c.value(bytes(fixed[41:])))
    return bytes(fixed)


def test_malice_with_a_right_checksum_is_refused_or_read():
    chance = random.Random(46)
    content = mixed().content
    outcomes = {"read": 0, "refused": 0}
    for _ in range(20_000):
        forged = bytearray(content)
        for _ in range(chance.randint(1, 4)):
            position = chance.randrange(36, len(forged))
            match chance.randrange(4):
                case 0 | 1:
                    forged[position] = chance.choice((0, 1, 127, 128, 255, chance.randrange(256)))
                case 2 if len(forged) > 120:
                    del forged[position : position + chance.randint(1, 5)]
                case _:
                    forged[position:position] = chance.randbytes(chance.randint(1, 9))
        octets = mended(forged)
        try:
            count = checked_count(octets, 7)
            found = list(raw_records(octets))
        except RecordError:
            outcomes["refused"] += 1
        else:
            assert [record.sequence for record in found] == list(range(7, 7 + count))
            outcomes["read"] += 1
    assert min(outcomes.values()) > 100


def test_records_that_do_not_follow_each_other_are_refused():
    content = batch_of(ORDERS, 0, [raw(0, None, b"a"), raw(0, None, b"b")], FRESH).content
    # The second record: length, attributes, timestamp delta, offset delta (1, as zigzag 2).
    position = content.rindex(bytes((0, 0, 2)))
    forged = bytearray(content)
    forged[position + 2] = 4
    octets = mended(forged, 0)
    assert checked_count(octets, 0) == 2
    with pytest.raises(RecordError, match="batch records"):
        list(raw_records(octets))
    forged_batch, told = Batch(ORDERS, 0, 2, octets), []
    for read in (records_of, values_of):
        with pytest.raises(RecordError, match="batch records"):
            list(read(forged_batch))
    assert values_of(forged_batch, 0, lambda *place: told.append(place)) == [b"a"]
    assert told == [(forged_batch, 1)], "every reader passes over the same"


@pytest.mark.parametrize("place", range(4))
def test_what_comes_before_an_unreadable_record_is_read(place):
    batch = unreadable_from(make_batch([b"0", b"1", b"2", b"3"], 5), place)
    told = []
    values = [b"%d" % number for number in range(place)]
    for start in (0, 6):
        expected = values[max(0, start - 5) :]
        found = records_of(batch, start, lambda *place: told.append(place))
        assert [record.value for record in found] == expected
        assert values_of(batch, start, lambda *place: told.append(place)) == expected
    assert told == [(batch, 5 + place)] * 4
    for read in (records_of, values_of):
        with pytest.raises(RecordError, match="batch records"):
            list(read(batch))
    readable = readable_part(batch)
    if place:
        assert list(records_of(readable)) == list(records_of(batch, 0, lambda *_: None))
        assert readable.end == 5 + place
    else:
        assert readable is None


def varint(number):
    number <<= 1
    octets = bytearray()
    while number > 127:
        octets.append(number & 127 | 128)
        number >>= 7
    return bytes((*octets, number))


@pytest.mark.parametrize("size", [1 << 16, 1 << 31, (1 << 63) - 64, (1 << 63) - 1])
def test_a_length_that_nothing_can_have_is_refused(size):
    # The C reader adds it to where it is, and the sum is beyond its numbers.
    one = batch_of(ORDERS, 0, [raw()], FRESH).content
    record = bytes((0, 0, 0)) + varint(size) + b"x" * 20
    octets = bytearray(mended(one[: ENVELOPE_BYTES + 61] + varint(len(record)) + record, 0))
    assert checked_count(octets, 0) == 1
    for read in (raw_records, lambda octets: records_of(Batch(ORDERS, 0, 1, octets))):
        with pytest.raises(RecordError, match="batch records"):
            list(read(bytes(octets)))


@pytest.mark.parametrize(
    ("reason", "position", "octets"),
    [
        ("envelope", 0, b"\0"),
        ("batch header", 36, b"\1"),
        ("batch attributes", 42, b"\5"),
        ("batch attributes", 42, b"\x20"),
        ("batch count", 77, b"\0\0\0\0"),
        ("batch count", 77, b"\xff\xff\xff\xff"),
        ("batch count", 77, b"\0\0\0\5"),
        ("batch count", 43, b"\0\0\0\0"),
    ],
)
def test_refusals_despite_a_right_checksum(reason, position, octets):
    forged = bytearray(mixed().content)
    forged[position : position + len(octets)] = octets
    with pytest.raises(RecordError) as refusal:
        checked_count(mended(forged), 7)
    assert refusal.value.reason == reason


def test_refusals():
    content = mixed().content
    for reason, octets, sequence in (
        ("batch size", b"", 7),
        ("batch size", content + bytes(BATCH_BYTES_MAX), 7),
        ("batch header", content + b"\0", 7),
        ("batch sequence", content, 8),
        ("batch checksum", content[:-1] + bytes((content[-1] ^ 1,)), 7),
    ):
        with pytest.raises(RecordError) as refusal:
            checked_count(octets, sequence)
        assert refusal.value.reason == reason


def test_records_of_believes_the_content_not_the_batch():
    with pytest.raises(RecordError, match="batch count"):
        list(records_of(replace(mixed(), count=3)))


@given(batches, envelopes)
def test_a_batch_travels_under_another_envelope(batch, envelope):
    content = stamped(batch.content, envelope)
    assert checked_count(content, batch.sequence) == batch.count
    assert content[ENVELOPE_BYTES:] == batch.content[ENVELOPE_BYTES:]


@given(batches, st.data())
def test_without_the_first_the_rest_stays_as_it_was(batch, data):
    dropped = data.draw(st.integers(0, batch.count - 1))
    rest = without_first(batch, dropped)
    assert rest.partition == batch.partition
    assert (rest.sequence, rest.end) == (batch.sequence + dropped, batch.end)
    assert unpack(rest.content) == unpack(batch.content)
    assert list(records_of(rest)) == list(records_of(batch))[dropped:]


def test_the_time_of_taking_in_stays_with_what_is_cut():
    builder = BatchBuilder(1_000, append_time=True)
    for value in (b"a", b"b", b"c"):
        builder.append(7, None, value, ())
    whole = Batch(ORDERS, 4, 3, enclosed(builder.build(), 4))
    assert has_append_time(whole.content)
    rest = without_first(whole, 1)
    assert has_append_time(rest.content)
    assert [(one.timestamp_ms, one.value) for one in records_of(rest)] == [(7, b"b"), (7, b"c")]
    page = Page([whole, mixed(7)])
    assert page.timestamp_type.tolist() == [1, 1, 1, 0, 0, 0, 0]
    assert page.timestamp_ms.tolist()[:4] == [7, 7, 7, 1_000]


def test_the_rest_may_be_larger_than_the_whole():
    records = [raw(0), raw(2**40), *(raw(0) for _ in range(200))]
    batch = batch_of(ORDERS, 0, records, Envelope(7, 5, 0))
    rest = without_first(batch, 1)
    assert len(rest.content) > len(batch.content)
    assert list(records_of(rest)) == list(records_of(batch))[1:]


def test_a_rest_too_large_for_a_batch_is_an_error():
    builder = BatchBuilder(BATCH_BYTES_MAX - ENVELOPE_BYTES)
    builder.append(0, None, None, ())
    builder.append(2**40, None, None, ())
    while builder.append(0, None, bytes(80), ()):
        pass
    batch = Batch(ORDERS, 0, builder.count, enclosed(builder.build(), 0))
    assert batch.count <= BATCH_RECORDS_MAX
    assert passes(batch.content, 0)
    with pytest.raises(RecordError, match="batch size"):
        without_first(batch, 1)


def test_what_was_checked_at_receipt_is_not_summed_up_again():
    batch = mixed()
    content = bytearray(batch.content)
    content[ENVELOPE_BYTES + 17] ^= 1  # of the checksum itself: the records are whole
    unsound = replace(batch, content=bytes(content))
    for read in (records_of, values_of):
        assert list(read(unsound, checked=True)) == list(read(batch))
        with pytest.raises(RecordError):
            list(read(unsound))


codecs = st.sampled_from([codec for codec in Codec if codec is not Codec.NONE])


@given(batches, envelopes, codecs)
def test_what_is_compressed_on_its_way_is_what_it_was(batch, envelope, codec):
    assume(not is_compressed(batch.content))
    content = stamped(batch.content, envelope)
    smaller = compressed_content(content, codec)
    assert len(smaller) <= len(content)
    assert is_compressed(smaller) == (len(smaller) < len(content))
    whole = replace(batch, content=content)
    assert list(records_of(replace(batch, content=smaller))) == list(records_of(whole))
    assert run_of(smaller) == run_of(content)
    assert has_append_time(smaller) == has_append_time(content)
    assert expanded_content(smaller, 1 << 20) == content
    assert compressed_content(content, Codec.NONE) is content


@pytest.mark.parametrize("codec", [codec for codec in Codec if codec is not Codec.NONE])
def test_each_codec_makes_less_of_what_repeats(codec):
    content = batch_of(ORDERS, 3, [raw(value=b"x" * 500)] * 20, FRESH).content
    smaller = compressed_content(content, codec)
    assert len(smaller) < len(content) // 5
    assert checked_count(smaller, 3) == 20
    assert expanded_content(smaller, 1 << 20) == content
    again = compressed_content(smaller, Codec.ZSTD)
    assert again is smaller, "who compressed first has chosen"
    with pytest.raises(RecordError, match="batch records"):
        expanded_content(smaller, len(content) // 2)


def test_what_is_more_than_stores_compare_is_not_compressed():
    large = batch_of(ORDERS, 0, [raw(value=bytes(COMPARED_BYTES_MAX))], FRESH).content
    assert compressed_content(large, Codec.ZSTD) is large


def test_what_does_not_get_smaller_stays_as_it_is():
    noise = batch_of(ORDERS, 0, [raw(value=random.Random(1).randbytes(1_000))], FRESH).content
    assert compressed_content(noise, Codec.ZSTD) is noise
