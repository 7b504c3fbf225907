from __future__ import annotations

import pytest
from pyspark.sql.datasource import (
    EqualTo,
    GreaterThan,
    GreaterThanOrEqual,
    In,
    IsNotNull,
    LessThan,
    LessThanOrEqual,
    Not,
    StringStartsWith,
)

from dafka.model import Partition
from dafka.spark import register
from dafka.spark.pushdown import Narrowing
from dafka.spark.ranges import Range

A, B = Partition("orders", "A"), Partition("other", "B")
RANGES = [Range(A, 2, 9), Range(B, 0, 5)]
ONE_EACH = [Range(A, 3, 4), Range(B, 3, 4)]
OFFSET, TOPIC, ADDRESS = ("offset",), ("topic",), ("partition",)


@pytest.mark.parametrize(
    ("conditions", "left"),
    [
        ([], RANGES),
        ([EqualTo(TOPIC, "orders"), IsNotNull(TOPIC)], [Range(A, 2, 9)]),
        ([In(ADDRESS, ("B", "C"))], [Range(B, 0, 5)]),
        ([In(TOPIC, ("orders", "other")), EqualTo(ADDRESS, "A")], [Range(A, 2, 9)]),
        ([EqualTo(TOPIC, "orders"), EqualTo(TOPIC, "other")], []),
        ([GreaterThan(OFFSET, 3), LessThan(OFFSET, 5)], [Range(A, 4, 5), Range(B, 4, 5)]),
        (
            [GreaterThanOrEqual(OFFSET, 3), LessThanOrEqual(OFFSET, 3)],
            [Range(A, 3, 4), Range(B, 3, 4)],
        ),
        ([EqualTo(OFFSET, 4)], [Range(A, 4, 5), Range(B, 4, 5)]),
    ],
)
def test_filters_that_choose_ranges(conditions, left):
    narrowing = Narrowing()
    assert all(narrowing.take(condition) for condition in conditions)
    assert list(narrowing.of(RANGES)) == left


@pytest.mark.parametrize(
    "condition",
    [
        EqualTo(("value",), b"x"),
        Not(EqualTo(TOPIC, "orders")),
        StringStartsWith(TOPIC, "o"),
        IsNotNull(("key",)),
        EqualTo(("timestamp",), 5),
    ],
)
def test_filters_that_spark_has_to_apply(condition):
    narrowing = Narrowing()
    assert not narrowing.take(condition)
    assert list(narrowing.of(RANGES)) == RANGES


@pytest.mark.slow
@pytest.mark.parametrize("pushed", ["true", "false"])
def test_a_query_gives_the_same_rows_either_way(spark, serve, make_batch, pushed, capsys):
    register(spark)
    port = serve(make_batch([b"%d" % number for number in range(20)]))
    spark.conf.set("spark.sql.python.filterPushdown.enabled", pushed)
    try:
        records = spark.read.format("dafka").options(servers=port.endpoint, subscribe="orders")
        rows = records.load().where("topic = 'orders' AND offset >= 5 AND offset < 9")
        rows = rows.where("CAST(value AS STRING) <> '7'")
        assert sorted(row.value for row in rows.collect()) == [b"5", b"6", b"8"]
        rows.explain()
        # What is pushed down is not applied to rows any more.
        assert ("offset" in capsys.readouterr().out.partition("Filter")[2].partition("\n")[0]) is (
            pushed == "false"
        )
    finally:
        spark.conf.unset("spark.sql.python.filterPushdown.enabled")
