from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import IntegerType, StructField, StructType

from dafka.errors import MisuseError
from dafka.model import Partition
from dafka.records.batch import records_of
from dafka.records.envelope import FRESH, Envelope
from dafka.spark.columns import (
    HEADERS,
    TYPES,
    all_columns,
    check_rows,
    checked_columns,
    record_batch,
)
from dafka.spark.parsing import Page
from dafka.spark.planning import Range
from dafka.testing.strategies import batch_of, raw_records

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


def test_timestamps_are_microseconds_and_those_too_large_the_largest(make_batch):
    batch = make_batch([b"v"], timestamp_ms=1_700_000_000_123)
    table = record_batch(Page([batch]), [Range(PARTITION, 0, 1)], ["timestamp"])
    assert table["timestamp"].cast("int64").to_pylist() == [1_700_000_000_123_000]
    late = make_batch([b"v"], timestamp_ms=2**62)
    table = record_batch(Page([late]), [Range(PARTITION, 0, 1)], ["timestamp"])
    assert table["timestamp"].cast("int64").to_pylist() == [(2**63 // 1_000 - 1) * 1_000]


def test_all_64_flags_are_kept(make_batch):
    batch = make_batch([b"v"], envelope=Envelope(1, 2**64 - 1))
    assert rows([batch], 0, 1, ["copy_flags"]) == [{"copy_flags": -1}]


def test_the_epoch_of_flags_is_there_where_it_is_asked_for(make_batch):
    batch = make_batch([b"x"], envelope=Envelope(1, 0b1, 7))
    assert rows([batch], 0, 1, ["epoch"]) == [{"epoch": 7}]
    assert "epoch" not in all_columns(headers=True).fieldNames()
    assert checked_columns(StructType([StructField("epoch", IntegerType())])) == ("epoch",)


def test_a_topic_that_is_not_text_is_shown_as_far_as_it_is(make_batch):
    batch = make_batch([b"v"], partition=Partition("caf\udce9", "AB" * 16))
    assert rows([batch], 0, 1, ["topic"]) == [{"topic": "caf\ufffd"}]


def test_arrow_types_are_what_spark_expects(make_batch):
    table = record_batch(Page([make_batch([b"v"])]), [Range(PARTITION, 0, 1)], list(TYPES))
    everything = StructType([StructField(name, kind) for name, kind in TYPES.items()])
    assert table.schema.equals(to_arrow_schema(everything, timezone="UTC"))


def test_headers_are_a_column_only_where_asked_for():
    assert all_columns(headers=True).fieldNames() == [name for name in TYPES if name != "epoch"]
    assert "headers" not in all_columns(headers=False).fieldNames()


def test_a_schema_may_choose_columns():
    chosen = StructType().add("value", "binary").add("offset", "long")
    assert checked_columns(chosen) == ("value", "offset")


@pytest.mark.parametrize(
    ("name", "kind", "complaint"),
    [
        ("valu", "binary", "no column 'valu': there are 'key', 'value'"),
        ("value", "string", "column 'value' is of type binary, not string"),
        ("offset", "integer", "column 'offset' is of type bigint, not int"),
    ],
)
def test_other_columns_are_refused(name, kind, complaint):
    with pytest.raises(MisuseError, match=complaint):
        checked_columns(StructType().add(name, kind))


def test_no_columns_are_refused():
    with pytest.raises(MisuseError, match="at least one"):
        checked_columns(StructType([]))


def test_rows_that_can_be_written():
    check_rows(StructType().add("value", "string"), topic="t")
    everything = StructType().add("value", "binary").add("topic", "string").add("key", "string")
    check_rows(everything.add("timestamp", "timestamp").add("headers", HEADERS), topic=None)
    check_rows(StructType().add("value", "string").add("partition", "integer"), topic="t")


@pytest.mark.parametrize(
    ("name", "kind", "complaint"),
    [
        ("key", "long", "column 'key' must be binary or string, not bigint"),
        ("topic", "string", "a column 'value' is needed"),
        ("value", "string", "a column 'topic' or the option 'topic' is needed"),
    ],
)
def test_rows_that_cannot_be_written(name, kind, complaint):
    with pytest.raises(MisuseError, match=complaint):
        check_rows(StructType().add(name, kind), topic=None)
