from __future__ import annotations

import struct

import google_crc32c
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dafka.arrow.parsing import Page, varints
from dafka.errors import RecordError
from dafka.limits import EXPANDED_BYTES_MAX
from dafka.model import Batch, Partition
from dafka.records.batch import RECORDS_FROM, BatchBuilder, RawRecord, enclosed, records_of
from dafka.records.compression import Codec
from dafka.records.envelope import ENVELOPE_BYTES, FRESH
from dafka.testing.strategies import batch_of, envelopes, raw_records

PARTITION = Partition("orders", "AB" * 16)
RAW = RawRecord(0, 1_000, b"k", b"v", ())


def stretch(page, spans, index):
    at, length = int(spans.at[index]), int(spans.length[index])
    return None if length < 0 else page.octets[at : at + length]


def records_in(page):
    """Everything a page says, as `records_of` would say it."""
    found = page.headers
    return [
        (
            int(page.sequence[index]),
            int(page.timestamp_ms[index]),
            stretch(page, page.key, index),
            stretch(page, page.value, index),
            [
                (stretch(page, found.names, place).decode(), stretch(page, found.values, place))
                for place in range(found.firsts[index], found.firsts[index + 1])
            ],
            int(page.copy_flags[index]),
            int(page.origin[index]),
        )
        for index in range(len(page.sequence))
    ]


def expected(batches):
    return [
        (
            *(record.sequence, record.timestamp_ms, record.key, record.value),
            [tuple(header) for header in record.headers],
            *(record.copy_flags, record.origin),
        )
        for batch in batches
        for record in records_of(batch)
    ]


def following(first, groups):
    """Batches of these groups of records, one behind the other."""
    batches = []
    for records, envelope in groups:
        batches.append(batch_of(PARTITION, first, records, envelope))
        first += len(records)
    return batches


@given(
    st.integers(0, 2**40),
    st.lists(st.tuples(st.lists(raw_records, min_size=1, max_size=20), envelopes), min_size=1),
)
def test_arrays_say_what_the_c_reader_says(first, groups):
    batches = following(first, groups)
    assert records_in(Page(batches)) == expected(batches)


@given(
    st.lists(
        st.tuples(st.lists(raw_records, min_size=1, max_size=5), envelopes, st.sampled_from(Codec)),
        min_size=1,
        max_size=5,
    ),
    st.lists(st.integers(0, 4), min_size=130, max_size=140),
)
def test_many_batches_are_read_as_one_is(kinds, order):
    """Long and short ones, in which all are stepped over together."""
    batches = []
    for first, kind in enumerate(order):
        records, envelope, codec = kinds[kind % len(kinds)]
        batches.append(batch_of(PARTITION, first, records, envelope, codec))
    assert records_in(Page(batches)) == expected(batches)


def test_of_many_batches_a_long_one_is_read_to_its_end():
    short = [batch_of(PARTITION, first, [RAW], FRESH) for first in range(300)]
    long = Batch(PARTITION, 5, 12, enclosed(small_batch(), 5))
    batches = [*short[:150], long, *short[150:], long]
    assert records_in(Page(batches)) == expected(batches)


def test_what_is_not_asked_for_is_not_read():
    """Sequences are what the header says, and a key is read without what stands behind it."""
    content = bytearray(enclosed(small_batch(), 3))
    content[RECORDS_FROM] = 1  # a length below 0
    page = Page([Batch(PARTITION, 3, 12, with_checksum(content))])
    assert (len(page), page.sequence.tolist()) == (12, list(range(3, 15)))
    for field in ("timestamp_ms", "key", "value", "headers"):
        with pytest.raises(RecordError, match="records"):
            getattr(page, field)
    content = bytearray(enclosed(small_batch(), 3))
    content[-1 - len(b"content")] = 0x7F  # the length of the last header's value
    page = Page([Batch(PARTITION, 3, 12, with_checksum(content))])
    assert stretch(page, page.value, 11) == b"value"
    with pytest.raises(RecordError, match="records"):
        page.headers  # noqa: B018


@given(
    st.lists(
        st.tuples(st.integers(0, 20_000), st.integers(1, 40), st.integers(-(2**40), 2**40)),
        min_size=1,
        max_size=6,
    )
)
def test_runs_of_one_size_end_where_the_size_changes(runs):
    builder = BatchBuilder(8 << 20)
    total = 0
    for size, count, step in runs:
        for number in range(count):
            # A step makes the timestamp's integer, and with it the record, longer on its way.
            builder.append(2**41 + number * step, None, bytes(size), ())
            total += 1
    batch = Batch(PARTITION, 7, total, enclosed(builder.build(), 7))
    assert records_in(Page([batch])) == expected([batch])


def test_a_batch_of_many_records_of_one_size():
    builder = BatchBuilder(8 << 20)
    for number in range(20_000):
        builder.append(1_700_000_000_000 + number // 3, b"k", b"%0100d" % number, ())
    batch = Batch(PARTITION, 0, 20_000, enclosed(builder.build(), 0))
    assert records_in(Page([batch])) == expected([batch])


def with_checksum(content):
    """The content with the checksum its octets ask for."""
    body = content[ENVELOPE_BYTES:]
    checksum = struct.pack(">I", google_crc32c.value(bytes(body[21:])))
    return bytes(content[:ENVELOPE_BYTES] + body[:17] + checksum + body[21:])


def small_batch():
    builder = BatchBuilder(1 << 20)
    for number in range(12):
        builder.append(1_000 + number, b"key", b"value", [("name", b"content")])
    return builder.build()


def test_an_appending_time_stands_for_all_records():
    content = bytearray(enclosed(small_batch(), 0))
    content[ENVELOPE_BYTES + 22] |= 0x08
    content[ENVELOPE_BYTES + 35 : ENVELOPE_BYTES + 43] = (5_000).to_bytes(8, "big")
    batch = Batch(PARTITION, 0, 12, with_checksum(content))
    assert set(Page([batch]).timestamp_ms.tolist()) == {5_000}
    assert records_in(Page([batch])) == expected([batch])


def test_wrong_octets_under_a_right_checksum_are_refused_or_read_as_by_the_c_reader():
    whole = enclosed(small_batch(), 0)
    refused = 0
    size = (len(whole) - RECORDS_FROM) // 12
    for place in range(RECORDS_FROM, len(whole)):
        if (place - RECORDS_FROM) % size == 1:
            continue  # attributes: none is defined, and we do not look at them
        for octet in (0, 1, 127, 128, 255, whole[place] ^ 1, whole[place] ^ 0x80):
            content = bytearray(whole)
            content[place] = octet
            batch = Batch(PARTITION, 0, 12, with_checksum(content))
            try:
                found = records_in(Page([batch]))
            except RecordError:
                refused += 1
                with pytest.raises(RecordError):
                    expected([batch])
            else:
                assert found == expected([batch])
    assert refused > 500


def test_damage_in_one_of_many_batches_is_found():
    whole = enclosed(small_batch(), 0)
    good = [Batch(PARTITION, 0, 12, whole)] * 130
    refused = 0
    for place in range(RECORDS_FROM, len(whole), 11):
        for octet in (0, 255, whole[place] ^ 1):
            content = bytearray(whole)
            content[place] = octet
            batch = Batch(PARTITION, 0, 12, with_checksum(content))
            page = Page([*good, batch])
            try:
                alone = records_in(Page([batch]))
            except RecordError:
                refused += 1
                with pytest.raises(RecordError):
                    records_in(page)
            else:
                assert records_in(page)[-12:] == alone
    assert refused > 20


def test_damage_is_refused():
    batch = Batch(PARTITION, 0, 12, enclosed(small_batch(), 0))
    content = bytearray(batch.content)
    content[-1] ^= 1
    with pytest.raises(RecordError, match="checksum"):
        Page([Batch(PARTITION, 0, 12, bytes(content))])
    with pytest.raises(RecordError, match="records"):
        Page([Batch(PARTITION, 0, 11, batch.content)])


@pytest.mark.parametrize(
    ("octets", "number"),
    [
        (b"\x00", 0),
        (b"\x01", -1),
        (b"\x02", 1),
        (b"\xfe\xff\xff\xff\xff\xff\xff\xff\xff\x01", 2**63 - 1),
        (b"\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01", -(2**63)),
    ],
)
def test_integers(octets, number):
    data = np.frombuffer(octets + b"\x00", np.uint8)
    numbers, behind = varints(data, np.array([0]), np.array([len(octets)]))
    assert numbers.tolist() == [number]
    assert behind.tolist() == [len(octets)]


@pytest.mark.parametrize("octets", [b"", b"\x80", b"\xff" * 11])
def test_an_integer_that_does_not_end_is_refused(octets):
    data = np.frombuffer(octets + b"\x00", np.uint8)
    with pytest.raises(RecordError):
        varints(data, np.array([0]), np.array([len(octets)]))


def test_pages_of_compressed_batches_are_bounded():
    big = RawRecord(0, 1_000, None, bytes(EXPANDED_BYTES_MAX // 4), ())
    some = [batch_of(PARTITION, number, [big], FRESH, Codec.ZSTD) for number in range(4)]
    assert len(Page(some[:3]).sequence) == 3
    with pytest.raises(RecordError, match="batch records"):
        Page(some)
