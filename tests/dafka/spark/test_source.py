from __future__ import annotations

import pytest
from pyspark.errors import AnalysisException

from dafka.records.envelope import Envelope
from dafka.spark import register
from dafka.spark.source import DafkaDataSource

pytestmark = pytest.mark.slow


@pytest.fixture
def dafka(spark):
    register(spark)

    def read(**options):
        return spark.read.format("dafka").options(**options)

    return read


@pytest.fixture
def port(serve, make_batch):
    return serve(
        make_batch([b"%d" % number for number in range(100)], envelope=Envelope(3, 5)),
        make_batch([b"%d" % number for number in range(100, 150)], 100, timestamp_ms=1_500),
    )


def test_a_cluster_is_a_data_frame(dafka, port):
    records = dafka(servers=port.endpoint, subscribe="orders", minPartitions=3, includeHeaders=True)
    rows = records.load().orderBy("offset").collect()
    assert [row.value for row in rows] == [b"%d" % number for number in range(150)]
    assert rows[100].asDict(recursive=True) == {
        "key": b"key",
        "value": b"100",
        "topic": "orders",
        "partition": "AB" * 16,
        "offset": 100,
        "timestamp": rows[100].timestamp,
        "timestampType": 0,
        "headers": [{"key": "h", "value": b"1"}],
        "copy_flags": 0,
        "origin": 0,
    }
    assert rows[100].timestamp.microsecond == 500_000
    assert (rows[0].copy_flags, rows[0].origin) == (5, 3)


def test_a_view_in_sql(dafka, spark, port):
    made = f"USING dafka OPTIONS (servers '{port.endpoint}', subscribe 'orders')"
    spark.sql(f"CREATE TEMPORARY VIEW latest {made}")
    (row,) = spark.sql("SELECT count(*) n FROM latest WHERE offset >= 100").collect()
    assert row.n == 50
    with pytest.raises(AnalysisException, match="CREATE TEMPORARY VIEW in place of CREATE TABLE"):
        spark.sql(f"CREATE TABLE orders {made}")


def test_sql_and_columns_of_choice(dafka, spark, port):
    chosen = (
        dafka(servers=port.endpoint, subscribe="orders")
        .schema("value BINARY, offset BIGINT")
        .load()
    )
    chosen.createOrReplaceTempView("orders")
    (row,) = spark.sql("SELECT count(*) n, max(offset) most FROM orders").collect()
    assert (row.n, row.most) == (150, 149)


@pytest.mark.parametrize(
    ("given", "complaint"),
    [
        ({"startingOffset": "latest"}, "did you mean 'startingOffsets'"),
        ({"maxRecordsPerPartition": "-1"}, "'maxRecordsPerPartition' must be a whole number"),
    ],
)
def test_bad_options_are_refused_before_any_job(dafka, given, complaint):
    needed = {"servers": "tcp://127.0.0.1:9", "subscribe": "orders"}
    with pytest.raises(AnalysisException, match=complaint):
        dafka(**needed, **given).load()


def test_the_format_has_a_name():
    assert DafkaDataSource.name() == "dafka"
