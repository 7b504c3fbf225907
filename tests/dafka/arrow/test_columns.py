"""Arrow columns out of batches."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from dafka.arrow.columns import TYPES, record_batch
from dafka.arrow.parsing import Page
from dafka.model import Partition, Range
from dafka.records.batch import records_of
from dafka.records.envelope import FRESH, Envelope
from dafka.testing.strategies import batch_of, raw_records
from tests.support.batches import make_batch

PARTITION = Partition("orders", "AB" * 16)


SHOWABLE = [name for name in TYPES if name != "timestamp"]
"""Python has no words for years above 9999."""


def rows(batches, start, end, columns=SHOWABLE):
    wanted = [Range(batches[0].partition, start, end)] * len(batches)
    return record_batch(Page(batches), wanted, columns).to_pylist()


@given(
    st.lists(st.lists(raw_records, min_size=1, max_size=8), min_size=1, max_size=4),
    st.integers(0, 40),
    st.integers(0, 40),
)
def test_rows_are_the_records_from_start_to_end(groups, start, end):
    batches, first = [], 5
    for records in groups:
        batches.append(batch_of(PARTITION, first, records, Envelope(3, 5)))
        first += len(records)
    expected = [
        record
        for batch in batches
        for record in records_of(batch)
        if start <= record.sequence < end
    ]
    found = rows(batches, start, end)
    assert [
        (row["key"], row["value"], row["offset"], row["copy_flags"], row["origin"]) for row in found
    ] == [
        (record.key, record.value, record.sequence, record.copy_flags, record.origin)
        for record in expected
    ]
    assert [[tuple(header.values()) for header in row["headers"]] for row in found] == [
        [tuple(header) for header in record.headers] for record in expected
    ]
    assert {(row["topic"], row["partition"]) for row in found} <= {PARTITION}


SHORT = st.lists(raw_records, min_size=1, max_size=3)


@given(
    st.lists(
        st.tuples(st.lists(SHORT, min_size=1, max_size=3), st.integers(0, 4), st.integers(0, 9)),
        min_size=1,
        max_size=4,
    )
)
def test_rows_of_many_partitions_are_those_of_each(partitions):
    batches, wanted, alone = [], [], []
    for number, (groups, start, end) in enumerate(partitions):
        partition, sequence, own = Partition(f"topic{number % 2}", f"{number:032X}"), 0, []
        for group in groups:
            own.append(batch_of(partition, sequence, group, FRESH))
            sequence = own[-1].end
        batches += own
        wanted += [Range(partition, start, end)] * len(own)
        alone += rows(own, start, end)
    assert record_batch(Page(batches), wanted, SHOWABLE).to_pylist() == alone


def test_timestamps_are_microseconds_and_those_too_large_the_largest():
    batch = make_batch([b"v"], timestamp_ms=1_700_000_000_123)
    table = record_batch(Page([batch]), [Range(PARTITION, 0, 1)], ["timestamp"])
    assert table["timestamp"].cast("int64").to_pylist() == [1_700_000_000_123_000]
    late = make_batch([b"v"], timestamp_ms=2**62)
    table = record_batch(Page([late]), [Range(PARTITION, 0, 1)], ["timestamp"])
    assert table["timestamp"].cast("int64").to_pylist() == [(2**63 // 1_000 - 1) * 1_000]


def test_all_64_flags_are_kept():
    batch = make_batch([b"v"], envelope=Envelope(1, 2**64 - 1))
    assert rows([batch], 0, 1, ["copy_flags"]) == [{"copy_flags": -1}]


def test_flags_have_their_epoch():
    batch = make_batch([b"x"], envelope=Envelope(1, 0b1, 7))
    assert rows([batch], 0, 1, ["epoch"]) == [{"epoch": 7}]


def test_a_topic_that_is_not_text_is_shown_as_far_as_it_is():
    batch = make_batch([b"v"], partition=Partition("caf\udce9", "AB" * 16))
    assert rows([batch], 0, 1, ["topic"]) == [{"topic": "caf\ufffd"}]
