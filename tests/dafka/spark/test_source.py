from __future__ import annotations

import pytest
from pyspark.errors import AnalysisException

from dafka.records.envelope import Envelope
from dafka.spark import register
from dafka.spark.source import DafkaDataSource
from tests.support.shares import also_shared

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


@pytest.fixture
def named(spark):
    """A name that no table and no view has, before and after."""
    yield "named"
    spark.catalog.dropTempView("named")
    spark.sql("DROP TABLE IF EXISTS named")


COLUMNS = "(key BINARY, value BINARY)"
ROW = "VALUES (CAST('k' AS BINARY), CAST('v' AS BINARY))"


def test_a_view_is_inserted_into(dafka, spark, cluster, named):
    here = ", ".join(f"{name} '{text}'" for name, text in cluster.options.items())
    spark.sql(
        f"CREATE TEMPORARY VIEW {named} {COLUMNS} USING dafka OPTIONS ({here}, topic 'orders')"
    )
    spark.sql(f"INSERT INTO {named} {ROW}")
    assert cluster.values() == [b"v"]
    with pytest.raises(AnalysisException, match="a log only grows"):
        spark.sql(f"INSERT OVERWRITE {named} {ROW}")


@also_shared("cluster")
def test_a_table_of_the_catalog_has_the_options_of_each_query(dafka, spark, cluster, named):
    here = ", ".join(f"{name} = '{text}'" for name, text in cluster.options.items())
    spark.sql(f"CREATE TABLE {named} (key BINARY, value BINARY, offset BIGINT) USING dafka")
    spark.sql(f"INSERT INTO {named} WITH ({here}, topic = 'orders') (key, value) {ROW}")
    (row,) = spark.sql(f"SELECT * FROM {named} WITH ({here}, subscribe = 'orders')").collect()
    assert (row.key, row.value) == (b"k", b"v")
    given = {**cluster.options, "subscribe": "orders"}
    assert spark.read.options(**given).table(named).count() == 1
    assert spark.readStream.options(**given).table(named).isStreaming


INSTEAD = "no option is given; .* CREATE TEMPORARY VIEW in place of CREATE TABLE"


def test_what_the_catalog_keeps_of_a_table_no_query_is_told(dafka, spark, port, named):
    """As Spark 4.3 has it: where a later one tells queries, this fails, and tables can be used."""
    made = f"USING dafka OPTIONS (servers '{port.endpoint}', subscribe 'orders')"
    with pytest.raises(AnalysisException, match="CREATE TEMPORARY VIEW in place of CREATE TABLE"):
        spark.sql(f"CREATE TABLE {named} {made}")
    with pytest.raises(AnalysisException, match="CREATE TEMPORARY VIEW in place of CREATE TABLE"):
        spark.catalog.createTable(named, source="dafka", servers=port.endpoint, subscribe="orders")
    spark.sql(f"CREATE TABLE {named} {COLUMNS} {made}")
    with pytest.raises(AnalysisException, match=INSTEAD):
        spark.sql(f"SELECT * FROM {named}").collect()
    with pytest.raises(AnalysisException, match=INSTEAD):
        spark.sql(f"INSERT INTO {named} {ROW}")


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
