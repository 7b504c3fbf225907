from __future__ import annotations

import pytest
from aiokafka.record.default_records import DefaultRecordBatchBuilder
from aiokafka.record.util import decode_varint
from hypothesis import given
from hypothesis import strategies as st

from dafka.limits import BATCH_RECORDS_MAX
from dafka.records.batch import BatchBuilder, Run, checked_count, enclosed, has_append_time
from dafka.records.compression import Codec
from dafka.records.large import LARGE_BYTES, LargeRecords, varint

ROOM = 1 << 24
NO_RUN = Run(-1, -1)
LARGE = bytes(LARGE_BYTES)
"""A batch that begins with it is one of large records."""

times = st.integers(0, 2**62 - 1) | st.integers(1_000, 1_005)
values = (
    st.binary(max_size=40) | st.integers(500, 520).map(bytes) | st.integers(0, 9_000).map(bytes)
)
chunks = st.lists(st.tuples(times, st.lists(values, max_size=90)), max_size=4)


def by_aiokafka(records, run=NO_RUN):
    builder = DefaultRecordBatchBuilder(2, 0, 0, run.number, -1, run.first, ROOM)
    for place, (timestamp_ms, key, value, headers) in enumerate(records):
        assert builder.append(place, timestamp_ms, key, value, [*headers]) is not None
    return builder.build()


def alone(timestamp_ms, value):
    return timestamp_ms, None, value, ()


@given(chunks)
def test_a_batch_is_what_aiokafka_makes_of_the_same_values(chunks):
    builder = BatchBuilder(ROOM, Run(7, 3))
    for timestamp_ms, chunk in chunks:
        assert builder.extend(timestamp_ms, chunk, 0) == len(chunk)
    records = [alone(timestamp_ms, value) for timestamp_ms, chunk in chunks for value in chunk]
    assert builder.count == len(records)
    assert builder.size >= len(builder.build())
    if records:
        assert builder.build() == by_aiokafka(records, Run(7, 3))


@given(
    st.lists(
        st.tuples(
            times, st.none() | values, st.none() | values, st.just(()) | st.just((("h", b"1"),))
        ),
        min_size=1,
        max_size=12,
    )
)
def test_what_is_more_than_a_value_may_come_at_any_place(records):
    builder = BatchBuilder(ROOM)
    for record in records:
        assert builder.append(*record)
    assert builder.build() == by_aiokafka(records)


@pytest.mark.parametrize("count", [64, 65, 8_192, 8_193, BATCH_RECORDS_MAX])
def test_places_of_more_octets(count):
    builder = BatchBuilder(ROOM)
    chunk = [LARGE, *[b"x"] * count]
    assert builder.extend(5, chunk, 0) == min(count + 1, BATCH_RECORDS_MAX)
    records = [alone(5, value) for value in chunk[: builder.count]]
    assert builder.build() == by_aiokafka(records)


@given(st.lists(values, min_size=1, max_size=60), st.integers(100, 9_000), st.integers(0, 3))
def test_what_does_not_fit_is_left(chunk, bytes_max, before):
    builder = BatchBuilder(bytes_max)
    for _ in range(before):
        builder.append(1_000, None, b"before", ())
    there = builder.count
    added = builder.extend(1_234, chunk, 0)
    assert builder.count == there + added
    assert len(builder.build()) < bytes_max or builder.count == 1
    if added < len(chunk):
        # One at a time no more of them would have fitted.
        assert not builder.append(1_234, None, chunk[added], ())
        assert builder.count == there + added


def test_the_first_always_fits():
    one_by_one, at_once = BatchBuilder(LARGE_BYTES), BatchBuilder(LARGE_BYTES)
    assert one_by_one.append(1, None, LARGE, ())
    assert not one_by_one.append(1, None, b"", ())
    assert at_once.extend(1, [LARGE, b""], 0) == 1
    assert one_by_one.build() == at_once.build()


def test_a_refused_record_leaves_no_trace():
    builder, other = BatchBuilder(1_000), BatchBuilder(1_000)
    for each in (builder, other):
        assert each.append(1_000, None, LARGE, ())
    assert not builder.append(2_000, None, LARGE, ())
    assert builder.build() == other.build()


def test_what_can_change_is_copied_at_once():
    value = bytearray(b"before")
    builder = BatchBuilder(ROOM)
    assert builder.extend(1, [LARGE, value, b"last"], 0) == 3
    value[:] = b"behind"
    assert builder.build() == by_aiokafka([alone(1, v) for v in (LARGE, b"before", b"last")])


@pytest.mark.parametrize("value", ["text", 5, [1], object()])
def test_what_is_no_value_is_refused_and_what_came_before_stays(value):
    builder = BatchBuilder(ROOM)
    with pytest.raises((TypeError, ValueError, AttributeError, BufferError)):
        builder.extend(1, [LARGE, value, b"last"], 0)
    assert builder.count == 1
    assert builder.build() == by_aiokafka([alone(1, LARGE)])


@pytest.mark.parametrize("timestamp_ms", ["1", 2**63])
def test_what_is_no_time_is_refused(timestamp_ms):
    assert LargeRecords().append(timestamp_ms, None, LARGE, ROOM) is None
    with pytest.raises((TypeError, OverflowError)):
        BatchBuilder(ROOM).append(timestamp_ms, None, b"", ())


@given(st.integers(-(2**63), 2**63 - 1))
def test_numbers_survive(number):
    octets = varint(number)
    assert decode_varint(octets) == (number, len(octets))


@given(chunks, st.integers(0, 2**62), st.booleans(), st.booleans())
def test_parts_are_enclosed_as_the_whole_is(chunks, sequence, append_time, compresses):
    made = []
    for _ in range(2):
        codec = Codec.ZSTD if compresses else Codec.NONE
        builder = BatchBuilder(ROOM, append_time=append_time, codec=codec)
        builder.append(1_000, None, LARGE, ())
        for timestamp_ms, chunk in chunks:
            builder.extend(timestamp_ms, chunk, 0)
        made.append(builder)
    one, other = made
    content = enclosed(one.parts(), sequence)
    assert content == enclosed(other.build(), sequence)
    assert checked_count(content, sequence) == one.count
    assert has_append_time(content) == append_time
