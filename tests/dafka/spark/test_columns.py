from __future__ import annotations

import pytest
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import IntegerType, StructField, StructType

from dafka.arrow.columns import record_batch
from dafka.arrow.parsing import Page
from dafka.errors import MisuseError
from dafka.model import Partition, Range
from dafka.spark.columns import HEADERS, TYPES, all_columns, check_rows, checked_columns

PARTITION = Partition("orders", "AB" * 16)


def test_the_epoch_of_flags_is_there_where_it_is_asked_for():
    assert "epoch" not in all_columns(headers=True).fieldNames()
    assert checked_columns(StructType([StructField("epoch", IntegerType())])) == ("epoch",)


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
