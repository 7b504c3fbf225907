from __future__ import annotations

from dataclasses import replace

import pyarrow as pa
import pytest
from kafka.partitioner.default import murmur2
from pyspark.errors import AnalysisException
from pyspark.sql.functions import udf
from pyspark.sql.types import StructType

from dafka.errors import MisuseError, NotStoredError, RecordError
from dafka.limits import RECORD_BYTES_MAX
from dafka.model import Header, Partition, Range, range_of, slot_of
from dafka.query.client import StoreClient
from dafka.records.batch import is_compressed
from dafka.records.compression import Codec
from dafka.records.envelope import unpack
from dafka.spark import register
from dafka.spark.commit import RunCommit, RunName
from dafka.spark.options import sink_options, source_options
from dafka.spark.rows import BatchRows
from dafka.spark.source import DafkaDataSource
from dafka.spark.staging import Attempt
from dafka.spark.writer import BatchWriter, StreamWriter, by_topic, copy, dealt, stage
from tests.support.shares import also_shared

pytestmark = pytest.mark.slow


@pytest.fixture
def numbers(spark):
    register(spark)
    return spark.range(0, 1_000, 1, 4).selectExpr("CAST(id AS STRING) value", "id % 7 = 0 seventh")


def values(count):
    return sorted(b"%d" % number for number in range(count))


@also_shared("cluster")
def test_a_data_frame_is_written_once_however_often_its_job_runs(numbers, cluster):
    rows = numbers.selectExpr("value", "IF(seventh, 'sevens', NULL) topic")
    writer = rows.write.format("dafka").mode("append").options(**cluster.options, topic="others")
    for _ in range(2):
        writer.option("runId", "once").save()
    held = cluster.published()
    assert cluster.values() == values(1_000)
    assert len(held) == 2, "two topics, each with the one partition that a gateway would give it"
    assert sum(len(log) for (topic, _), log in held.items() if topic == "sevens") == 143


def test_a_task_that_dies_half_way_is_repeated_without_a_trace(numbers, cluster, spark, tmp_path):
    marker = str(tmp_path / "died")

    @udf(returnType="string", useArrow=False)
    def die_once(value):
        import os

        if value == "500" and not os.path.exists(marker):  # noqa: PTH110
            open(marker, "w").close()  # noqa: PTH123
            os.kill(os.getpid(), 9)
        return value

    spark.conf.set("spark.sql.execution.arrow.maxRecordsPerBatch", 100)
    dying = numbers.coalesce(1).select(die_once("value").alias("value"))
    dying.write.format("dafka").mode("append").options(**cluster.options, topic="t").save()
    spark.conf.unset("spark.sql.execution.arrow.maxRecordsPerBatch")
    assert cluster.values() == values(1_000)


@also_shared("cluster")
def test_a_repeated_micro_batch_is_written_once(spark, cluster, tmp_path, serve, make_batch):
    register(spark)
    source = serve(make_batch([b"%d" % number for number in range(50)]))
    checkpoint = tmp_path / "checkpoint"

    def run(tasks=2):
        stream = spark.readStream.format("dafka").options(
            servers=source.endpoint,
            subscribe="orders",
            startingOffsets="earliest",
            minPartitions=tasks,
        )
        rows = stream.load().select("key", "value").writeStream.format("dafka")
        rows = rows.options(**cluster.options, topic="out", checkpointLocation=str(checkpoint))
        rows.trigger(availableNow=True).start().awaitTermination()

    run()
    # As after a crash between the last record and Spark's note of it.
    for commit in (checkpoint / "commits").iterdir():
        commit.unlink()
    run(tasks=3)
    source.log.append([make_batch([b"50"], 50)])
    run()
    assert cluster.values() == values(51)


def test_a_job_that_is_run_again_may_have_other_tasks_but_no_other_rows(numbers, cluster):
    def save(rows):
        writer = rows.write.format("dafka").mode("append")
        writer.options(**cluster.options, topic="t", runId="once").save()

    rows = numbers.select("value")
    save(rows)
    save(rows.coalesce(1))
    with pytest.raises(Exception, match="1000 rows that are not these 143"):
        save(numbers.where("seventh").select("value"))
    assert cluster.values() == values(1_000)


def test_queries_whose_batches_have_one_name_do_not_lose_any(spark, cluster, tmp_path):
    """Also if all batches of a query have it: the batch's number counts, too."""
    register(spark)

    def write(rows, _):
        writer = rows.write.format("dafka").mode("append")
        writer.options(**cluster.options, topic="t", runId="mine").save()

    for query in range(2):
        texts = tmp_path / f"texts-{query}"
        for file in range(2):
            first = query * 200 + file * 100
            rows = spark.range(first, first + 100, 1, 2).selectExpr("CAST(id AS STRING) value")
            rows.write.mode("append").text(str(texts))
        stream = spark.readStream.option("maxFilesPerTrigger", 2).text(str(texts))
        checkpoint = tmp_path / f"checkpoint-{query}"
        writer = stream.writeStream.foreachBatch(write)
        writer = writer.option("checkpointLocation", str(checkpoint)).trigger(availableNow=True)
        writer.start().awaitTermination()
    assert cluster.values() == values(400)
    assert len(cluster.published()) == 1, "batches go on in the partition of those before"


def test_partitions_stay_few_whatever_writes_and_by_however_many_tasks(spark, cluster, tmp_path):
    """Twenty runs of foreachBatch, none of which has a name."""
    register(spark)
    texts = tmp_path / "texts"
    for file in range(20):
        spark.range(file * 30, file * 30 + 30, 1, 1).selectExpr("CAST(id AS STRING)").write.mode(
            "append"
        ).text(str(texts))

    def write(rows, batch):
        keyed = rows.selectExpr("CAST(CAST(value AS LONG) % 11 AS STRING) AS key", "value")
        writer = keyed.repartition(batch % 5 + 1).write.format("dafka").mode("append")
        writer.options(**cluster.options, topic="t", partitions=4).save()

    stream = spark.readStream.option("maxFilesPerTrigger", 1).text(str(texts))
    writer = stream.writeStream.foreachBatch(write).trigger(availableNow=True)
    query = writer.option("checkpointLocation", str(tmp_path / "checkpoint")).start()
    query.awaitTermination()
    assert len([one for one in query.recentProgress if one["numInputRows"]]) == 20
    assert cluster.values() == values(600)
    logs = cluster.published()
    assert len(logs) == 4
    for partition, records in logs.items():
        numbers = {(murmur2(record.key) & 0x7FFF_FFFF) % 4 for record in records}
        assert numbers == {range_of(slot_of(partition.address), 4)}, "as a client of Kafka has it"


def test_the_rows_of_a_key_are_in_the_order_of_the_runs_of_all_queries(spark, cluster, tmp_path):
    """Three runs of two queries, each of a file, one query after the other."""
    register(spark)
    for number in range(6):
        texts, first = tmp_path / f"texts-{number % 2}", number * 220
        rows = spark.range(first, first + 220, 1, 4).selectExpr("CAST(id AS STRING)")
        rows.write.mode("append").text(str(texts))
        stream = spark.readStream.text(str(texts))
        keyed = stream.selectExpr("CAST(CAST(value AS LONG) % 11 AS STRING) AS key", "value")
        writer = keyed.repartition(number % 3 + 1).writeStream.format("dafka")
        writer = writer.options(**cluster.options, topic="t", partitions=3)
        writer = writer.option("checkpointLocation", str(tmp_path / f"checkpoint-{number % 2}"))
        writer.trigger(availableNow=True).start().awaitTermination()
    logs = cluster.published().values()
    assert len(logs) == 3
    assert cluster.values() == values(1_320)
    keys = [record.key for records in logs for record in records]
    for key in set(keys):
        (log,) = (records for records in logs if any(record.key == key for record in records))
        runs = [int(record.value) // 220 for record in log if record.key == key]
        assert runs == sorted(runs)
        assert len(runs) == 120


def test_a_run_whose_tasks_are_not_all_done_is_not_committed(cluster):
    writer = StreamWriter(sink_options({**cluster.options, "topic": "t"}, stream=True), stage)
    with pytest.raises(AssertionError, match="when all tasks are done"):
        writer.commit([None], 5)
    writer.commit([], 6)
    assert cluster.records() == {}


def test_columns_that_are_none_of_a_record_are_left_out(numbers, cluster):
    rows = numbers.selectExpr("*", "'AB' partition", "5L AS offset")
    writer = rows.write.format("dafka").mode("append").options(**cluster.options)
    writer.option("topic", "t").save()
    assert cluster.values() == values(1_000)


def test_what_cannot_be_written_is_refused_before_any_job(numbers, cluster):
    writer = numbers.write.format("dafka").mode("append").options(**cluster.options)
    with pytest.raises(AnalysisException, match="a column 'topic' or the option 'topic'"):
        writer.save()
    with pytest.raises(AnalysisException, match="a log only grows"):
        numbers.write.format("dafka").mode("overwrite").options(**cluster.options).save()
    assert cluster.records() == {}


def test_writers_are_made_of_checked_options(cluster):
    rows = StructType().add("value", "string")
    source = DafkaDataSource({**cluster.options, "topic": "t"})
    assert isinstance(source.writer(rows, overwrite=False), BatchWriter)
    assert isinstance(source.streamWriter(rows, overwrite=True), StreamWriter)
    with pytest.raises(MisuseError, match="'topic'"):
        DafkaDataSource(cluster.options).streamWriter(rows, overwrite=False)


HEADERS = pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))


def table(*values, **columns):
    arrays = {"value": pa.array(values, pa.binary()), **columns}
    return pa.RecordBatch.from_pydict(arrays)


def write(tables, options, run=0, task=0):
    """What one task and the driver do."""
    key = "query q"
    segments = stage(tables, options, Attempt(key, run, task, 1_000))
    RunCommit(options, RunName(key, run), segments).commit()


@pytest.fixture
def options(cluster):
    return sink_options({**cluster.options, "topic": "out"}, stream=True)


def test_rows_become_records(cluster, options):
    rows = table(
        b"1",
        None,
        key=pa.array(["a", None]),
        headers=pa.array([[("h", b"x"), ("n", None)], None], HEADERS),
        timestamp=pa.array([5_000, None], pa.timestamp("us", tz="UTC")),
        topic=pa.array(["mine", None]),
    )
    write([rows], options)
    ((mine,), (out,)) = (
        records for _, records in sorted(cluster.published().items(), key=lambda one: one[0].topic)
    )
    assert (mine.key, mine.value, mine.timestamp_ms) == (b"a", b"1", 5)
    assert mine.headers == (Header("h", b"x"), Header("n", None))
    assert (out.key, out.value, out.timestamp_ms, out.headers) == (None, None, 1_000, ())


def test_it_goes_on_while_a_store_is_away(cluster, options):
    write([table(b"1")], options, run=0)
    cluster.running.close()
    cluster.open()
    write([table(b"2")], options, run=1)
    assert cluster.values() == [b"1", b"2"]


def test_rows_are_dealt_by_topic_in_order():
    rows = table(b"1", b"2", b"3", topic=pa.array(["a", "b", "a"]))
    found = [(topic, part["value"].to_pylist()) for topic, part in by_topic(rows, None)]
    assert found == [("a", [b"1", b"3"]), ("b", [b"2"])]


KEYS = [b"a", None, b"b", b"a", None, b"c"]


def shares(rows, partitions, keyless):
    found = dealt(rows, partitions, keyless)
    return {number: part["value"].to_pylist() for number, part in found}


def test_rows_go_where_a_client_of_kafka_sends_them_in_order():
    rows = table(*(b"%d" % row for row in range(6)), key=pa.array(KEYS))
    expected = {}
    for row, key in enumerate(KEYS):
        number = 2 if key is None else (murmur2(key) & 0x7FFF_FFFF) % 3
        expected.setdefault(number, []).append(b"%d" % row)
    assert shares(rows, 3, 2) == expected
    assert shares(rows, 1, 0) == {0: [b"%d" % row for row in range(6)]}
    assert shares(rows.drop_columns("key"), 3, 1) == {1: [b"%d" % row for row in range(6)]}
    assert shares(rows.slice(0, 0), 3, 1) == {}


def test_a_number_in_the_column_partition_chooses_it():
    numbers = pa.array([2, None, 0], pa.int32())
    rows = table(b"0", b"1", b"2", partition=numbers, key=pa.array([b"a", b"b", b"c"]))
    hashed = (murmur2(b"b") & 0x7FFF_FFFF) % 3
    found = shares(rows, 3, 0)
    assert b"1" in found.pop(hashed) if hashed == 1 else b"1" in found[hashed]
    assert found[2][0] == b"0"
    assert b"2" in found[0]
    for wrong in (3, -1):
        rows = table(b"0", partition=pa.array([wrong], pa.int64()))
        with pytest.raises(MisuseError, match=rf"partition {wrong}, and sinks have 3 .* 0 to 2"):
            shares(rows, 3, 0)


def test_the_column_partition_is_written_to(numbers, cluster):
    """Also if a query has read it from a source, where it is an address: then it is left out."""
    rows = numbers.selectExpr("value", "CAST(value AS INT) % 5 AS partition")
    writer = rows.write.format("dafka").mode("append").options(**cluster.options, topic="t")
    writer.option("partitions", 5).save()
    logs = cluster.published().values()
    assert len(logs) == 5
    for records in logs:
        assert len({int(record.value) % 5 for record in records}) == 1
    assert cluster.values() == values(1_000)


def test_a_row_without_a_topic_is_refused():
    with pytest.raises(MisuseError, match="no topic"):
        list(by_topic(table(b"1", topic=pa.array([None], pa.string())), None))
    with pytest.raises(MisuseError, match="NUL"):
        list(by_topic(table(b"1", topic=pa.array(["a\0b"])), None))


@pytest.mark.parametrize("header", [None, (None, b"x")])
def test_a_header_without_a_key_is_refused(options, header):
    rows = table(b"1", headers=pa.array([[("h", None), header]], HEADERS))
    with pytest.raises(MisuseError, match="a header needs a key; its value may be null"):
        write([rows], options)


@pytest.mark.parametrize("columns", [{}, {"key": pa.array([None, None], pa.binary())}])
def test_a_row_that_is_too_large_is_refused(options, columns):
    rows = table(b"1", bytes(RECORD_BYTES_MAX + 1), **columns)
    with pytest.raises(MisuseError, match="a row for topic 'out' has 8323073 bytes"):
        write([rows], options)


@pytest.mark.parametrize("columns", [{}, {"key": pa.array([b"k"] * 4)}])
def test_rows_larger_than_a_batch_have_batches_of_their_own(cluster, options, columns):
    large = bytes(options.batch_bytes * 2)
    write([table(b"1", large, large, b"2", **columns)], options)
    (held,) = cluster.published().values()
    assert [len(record.value) for record in held] == [1, len(large), len(large), 1]


ORDERS = Partition("orders", "AB" * 16)
OTHER = Partition("caf\udce9", "CD" * 16)
ATTEMPT = Attempt("query", 0, 0, 0)
STARTS = f'{{"orders": {{"{ORDERS.address}": 2}}}}'


@pytest.fixture
def source(serve, make_batch):
    return serve(
        make_batch([b"0", b"1", b"2"]), make_batch([b"3"], 3), make_batch([b"a"], partition=OTHER)
    )


@pytest.fixture
def copy_options(cluster):
    return sink_options(cluster.options, stream=True)


def tables(source, *ranges):
    reading = source_options({"servers": source.endpoint, "subscribe": "orders"})
    return list(BatchRows().read(ranges, reading))


def test_names_stay_and_what_is_there_is_not_there_twice(cluster, copy_options, source):
    copy(tables(source, Range(ORDERS, 0, 3)), copy_options, ATTEMPT)
    everything = tables(source, Range(ORDERS, 1, 4), Range(OTHER, 0, 1))
    for _ in range(2):
        copy(everything, copy_options, ATTEMPT)
    held = cluster.records()
    assert [(record.sequence, record.value) for record in held[ORDERS]] == [
        (number, b"%d" % number) for number in range(4)
    ]
    assert [record.value for record in held[OTHER]] == [b"a"]


def test_flags_origin_and_epoch_are_the_columns(cluster, copy_options, source):
    rows = tables(source, Range(ORDERS, 0, 4))
    for name, value in (("copy_flags", -(2**63)), ("origin", 7), ("epoch", 9)):
        index = rows[0].schema.get_field_index(name)
        column = rows[0].column(index)
        changed = [value] * len(column)
        rows[0] = rows[0].set_column(index, rows[0].schema.field(index), type_of(column, changed))
    copy(rows, copy_options, ATTEMPT)
    assert {(record.copy_flags, record.origin) for record in cluster.records()[ORDERS]} == {
        (2**63, 7)
    }
    with StoreClient(cluster.query) as client:
        assert {unpack(one.content).epoch for one in client.scan(ORDERS, 0, 4)} == {9}


def type_of(column, values):
    import pyarrow as pa

    return pa.array(values, column.type)


def test_batches_are_compressed_if_that_is_wanted_and_are_the_same_records(
    cluster, copy_options, serve, make_batch
):
    source = serve(make_batch([b"x" * 5_000] * 3))
    copy_options = replace(copy_options, codec=Codec.ZSTD)
    for _ in range(2):
        copy(tables(source, Range(ORDERS, 0, 3)), copy_options, ATTEMPT)
    assert [record.value for record in cluster.records()[ORDERS]] == [b"x" * 5_000] * 3
    with StoreClient(cluster.query) as client:
        (batch,) = client.scan(ORDERS, 0, 3)
    assert is_compressed(batch.content)
    assert len(batch.content) < 1_000


def test_a_damaged_batch_is_not_compressed_as_that_would_hide_it(copy_options, source):
    (table,) = tables(source, Range(OTHER, 0, 1))
    index = table.schema.get_field_index("content")
    (content,) = table.column(index).to_pylist()
    damaged = table.set_column(
        index,
        table.schema.field(index),
        type_of(table.column(index), [content[:-1] + bytes([content[-1] ^ 1])]),
    )
    with pytest.raises(RecordError):
        copy([damaged], replace(copy_options, codec=Codec.ZSTD), ATTEMPT)


def test_a_hole_that_nobody_fills_fails_the_task(copy_options, source):
    copy_options = replace(copy_options, silence_s=0.3)
    with pytest.raises(NotStoredError, match="'orders'"):
        copy(tables(source, Range(ORDERS, 2, 4)), copy_options, ATTEMPT)


def test_what_the_source_has_no_more_is_passed_over(cluster, source):
    copy_options = sink_options({**cluster.options, "logStarts": STARTS}, stream=True, copying=True)
    copy(tables(source, Range(ORDERS, 2, 4)), copy_options, ATTEMPT)
    with StoreClient(cluster.query) as client:
        assert client.ranges() == {ORDERS: range(2, 4)}


def test_a_row_without_an_envelope_is_refused(copy_options, source):
    (table,) = tables(source, Range(OTHER, 0, 1))
    index = table.schema.get_field_index("content")
    damaged = table.set_column(
        index, table.schema.field(index), type_of(table.column(index), [b"raw"])
    )
    with pytest.raises(RecordError, match="envelope"):
        copy([damaged], copy_options, ATTEMPT)
