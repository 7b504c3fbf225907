from __future__ import annotations

import pickle
from contextlib import closing
from dataclasses import replace
from random import Random
from types import SimpleNamespace

import pyarrow as pa
import pytest
from pyspark import cloudpickle
from pyspark.errors import AnalysisException
from pyspark.sql.functions import udf
from pyspark.sql.types import StructType

from dafka.cluster import Cluster
from dafka.errors import MisuseError, NotStoredError, RecordError
from dafka.limits import RECORD_BYTES_MAX
from dafka.model import Batch, Header, Partition
from dafka.node.mirror import Mirror
from dafka.query.client import StoreClient
from dafka.records.batch import BatchBuilder, Run, enclosed
from dafka.spark import register
from dafka.spark.options import sink_options, source_options
from dafka.spark.planning import Range
from dafka.spark.reader import BatchReader
from dafka.spark.resume import OverlappedError, RepeatedError, address_for
from dafka.spark.rows import BATCH_SCHEMA, BatchRows
from dafka.spark.source import DafkaDataSource
from dafka.spark.task_log import Attempt, mirror_of
from dafka.spark.writer import BatchWriter, StreamWriter, TaskWritten, by_topic, copy, write

pytestmark = pytest.mark.slow


@pytest.fixture
def numbers(spark):
    register(spark)
    return spark.range(0, 1_000, 1, 4).selectExpr("CAST(id AS STRING) value", "id % 7 = 0 seventh")


def values(count):
    return sorted(b"%d" % number for number in range(count))


def test_a_data_frame_is_written_once_however_often_its_job_runs(numbers, cluster):
    rows = numbers.selectExpr("value", "IF(seventh, 'sevens', NULL) topic")
    writer = rows.write.format("dafka").mode("append").options(**cluster.options, topic="others")
    for _ in range(2):
        writer.option("runId", "once").save()
    held = cluster.records()
    assert cluster.values() == values(1_000)
    assert len(held) == 8, "two topics by four tasks"
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


def test_a_job_that_was_begun_with_more_tasks_is_told(numbers, cluster):
    writer = numbers.select("value").write.format("dafka").mode("append")
    writer.options(**cluster.options, topic="t", runId="once").save()
    fewer = numbers.select("value").coalesce(2).write.format("dafka").mode("append")
    with pytest.raises(Exception, match="another number of tasks"):
        fewer.options(**cluster.options, topic="t", runId="once").save()
    assert cluster.values() == values(1_000)


def test_the_last_tasks_of_a_run_that_had_more_are_found_at_its_end(cluster):
    options = sink_options({**cluster.options, "topic": "t"}, stream=True)
    attempts = [Attempt("query q", 5, task, 0) for task in range(3)]
    done = [
        TaskWritten(
            attempt, write([pa.RecordBatch.from_pydict({"value": [b"v"]})], options, attempt)
        )
        for attempt in attempts
    ]
    writer = StreamWriter(options, write)
    writer.commit(done, 5)
    with pytest.raises(RepeatedError, match=r"task 2 wrote .* had only 2 tasks now"):
        writer.commit(done[:2], 5)


def test_speculation_is_refused_before_any_job():
    kinds = []

    class Session:
        conf = {"spark.speculation": "true"}
        dataSource = SimpleNamespace(register=kinds.append)  # noqa: N815 (Spark's name)

    register(Session())
    given = {"servers": "tcp://127.0.0.1:9", "towers": "tcp://127.0.0.1:9", "topic": "t"}
    rows = StructType().add("value", "string")
    records, batches = (pickle.loads(cloudpickle.dumps(kind)) for kind in kinds)
    for make in (records(given).writer, records(given).streamWriter):
        with pytest.raises(MisuseError, match=r"set spark\.speculation to false"):
            make(rows, overwrite=False)
    reading = {"servers": given["servers"], "subscribe": "t"}
    assert isinstance(records(reading).reader(StructType().add("value", "binary")), BatchReader)
    del given["topic"]
    assert isinstance(batches(given).writer(BATCH_SCHEMA, overwrite=False), BatchWriter)


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


def attempt(run=0, task=0, query="query q"):
    return Attempt(query, run, task, 1_000)


def address(task=0):
    return address_for(Cluster(), "query q", task)


@pytest.fixture
def options(cluster):
    return sink_options({**cluster.options, "topic": "out"}, stream=True)


@pytest.fixture
def single(options):
    """Each record is a batch of its own."""
    return replace(options, batch_bytes=1)


def test_rows_become_records(cluster, options):
    rows = table(
        b"1",
        None,
        key=pa.array(["a", None]),
        headers=pa.array([[("h", b"x"), ("n", None)], None], HEADERS),
        timestamp=pa.array([5_000, None], pa.timestamp("us", tz="UTC")),
        topic=pa.array(["mine", None]),
    )
    assert sorted(write([rows], options, attempt())) == ["mine", "out"]
    ((mine,), (out,)) = (
        cluster.records()[Partition(topic, address())] for topic in ("mine", "out")
    )
    assert (mine.key, mine.value, mine.timestamp_ms) == (b"a", b"1", 5)
    assert mine.headers == (Header("h", b"x"), Header("n", None))
    assert (out.key, out.value, out.timestamp_ms, out.headers) == (None, None, 1_000, ())


def test_runs_follow_each_other_and_tasks_are_apart(cluster, options):
    write([table(b"1", b"2")], options, attempt(run=0))
    write([table(b"3")], options, attempt(run=1))
    write([table(b"4")], options, attempt(run=1, task=1))
    write([], options, attempt(run=2))
    held = cluster.records()
    assert [record.value for record in held[Partition("out", address(0))]] == [b"1", b"2", b"3"]
    assert [record.value for record in held[Partition("out", address(1))]] == [b"4"]


def test_a_repeated_task_writes_nothing_twice(cluster, options):
    rows = table(*(b"%d" % number for number in range(1_000)))
    for _ in range(3):
        assert write([rows], options, attempt(run=4)) == ("out",)
    assert cluster.values() == sorted(b"%d" % number for number in range(1_000))


class KilledError(Exception):
    """The attempt ends here."""


def until_killed(options, *tables):
    """Rows, until everything published is stored and the attempt dies."""
    yield from tables
    mirror_of(options).flush(10)
    raise KilledError


@pytest.mark.parametrize("seed", range(4))
def test_attempts_killed_anywhere_leave_every_row_once(cluster, single, seed):
    """Also when the rows come in another order each time, as they do after a shuffle."""
    random = Random(seed)
    values = [b"%d" % (number // 2) for number in range(40)]
    write([table(b"before")], single, attempt(run=0))
    for _ in range(4):
        random.shuffle(values)
        until = random.randrange(40)
        with pytest.raises(KilledError):
            write(until_killed(single, table(*values[:until])), single, attempt(run=1))
    random.shuffle(values)
    write([table(*values[:20]), table(*values[20:])], single, attempt(run=1))
    write([table(b"behind")], single, attempt(run=2))
    (held,) = cluster.records().values()
    assert sorted(record.value for record in held[1:-1]) == sorted(values)
    assert (held[0].value, held[-1].value) == (b"before", b"behind")


def test_other_rows_than_before_are_an_error(cluster, options):
    write([table(b"1", b"2", b"3")], options, attempt())
    with pytest.raises(RepeatedError, match=r"2 records that this task wrote .* not among"):
        write([table(b"1")], options, attempt())
    assert cluster.values() == [b"1", b"2", b"3"]


def test_of_other_rows_nothing_gets_out(cluster, single):
    """However many, however often they are tried, and in whatever order."""
    single = replace(single, held_bytes_max=1)
    rows = table(b"1", b"2", b"3", key=pa.array([b"k"] * 3))
    with pytest.raises(KilledError):
        write(until_killed(single, rows), single, attempt())
    for _ in range(2):
        with pytest.raises(RepeatedError, match="another number of tasks"):
            write([table(b"x", b"2", b"y", b"1", b"z", b"w")], single, attempt())
    assert cluster.values() == [b"1", b"2"]
    write([table(b"0", b"3", b"2", b"1", key=pa.array([b"k"] * 4))], single, attempt())
    assert cluster.values() == [b"0", b"1", b"2", b"3"]


@pytest.mark.parametrize("columns", [{}, {"key": pa.array([b"k"] * 3)}])
def test_a_task_that_was_done_and_has_more_rows_now_is_refused(cluster, options, columns):
    """As when the rows are dealt to fewer tasks than before."""
    rows = table(b"1", b"2", b"3", **columns)
    write([rows], options, attempt())
    write([rows], options, attempt())
    with pytest.raises(RepeatedError, match=r"all of its 3 records .* another number of tasks"):
        write([rows, rows], options, attempt())
    assert cluster.values() == [b"1", b"2", b"3"]


def test_rows_are_told_apart_by_their_timestamps(cluster, single):
    def stamped(*seconds):
        stamps = pa.array([second * 1_000_000 for second in seconds], pa.timestamp("us", tz="UTC"))
        return table(*[b"v"] * len(seconds), timestamp=stamps)

    with pytest.raises(KilledError):
        write(until_killed(single, stamped(1, 2, 3)), single, attempt())
    write([stamped(3, 2, 1)], single, attempt())
    (held,) = cluster.records().values()
    assert [record.timestamp_ms for record in held] == [1_000, 2_000, 3_000]


@pytest.fixture
def overlapping(cluster, options, until):
    """A function: rows of an attempt, while another one of its task has written `others`."""

    def overlapping(rows, others):
        yield table(rows[0])
        builder = BatchBuilder(1 << 20, Run(0, 0))
        for value in others:
            builder.append(1_000, None, value, ())
        content = enclosed(builder.build(last=True), 0)
        with closing(Mirror(options.cluster.open())) as zombie:
            zombie.publish(Batch(Partition("out", address()), 0, len(others), content), 10)
            until(cluster.records)
        yield table(*rows[1:])

    return overlapping


VALUES = [b"1", b"2", b"3"]


def test_an_attempt_that_overlaps_with_another_one_says_so_and_the_next_puts_it_right(
    cluster, options, overlapping
):
    """The store has the other one's records under the same names, in another order."""
    options = replace(options, silence_s=0.5)
    with pytest.raises(OverlappedError, match=r"0 to 2 of partition \w+ of topic 'out'") as raised:
        write(overlapping(VALUES, VALUES[::-1]), options, attempt())
    assert raised.value.retriable
    write([table(*VALUES)], options, attempt())
    assert cluster.values() == VALUES


def test_acknowledgements_of_another_attempt_are_not_taken_for_its_own(
    options, overlapping, monkeypatch
):
    """They may be under way when this one publishes: then its flush ends at once."""
    monkeypatch.setattr(Mirror, "flush", lambda *_: None)
    with pytest.raises(OverlappedError):
        write(overlapping(VALUES, VALUES[::-1]), options, attempt())


def test_an_attempt_that_overlaps_with_its_like_does_no_harm(cluster, options, overlapping):
    write(overlapping(VALUES, VALUES), options, attempt())
    assert cluster.values() == VALUES


def test_it_goes_on_while_a_store_is_away(cluster, options):
    write([table(b"1")], options, attempt(run=0))
    cluster.running.close()
    cluster.open()
    write([table(b"2")], options, attempt(run=1))
    assert cluster.values() == [b"1", b"2"]


def test_rows_are_dealt_by_topic_in_order():
    rows = table(b"1", b"2", b"3", topic=pa.array(["a", "b", "a"]))
    found = [(topic, part["value"].to_pylist()) for topic, part in by_topic(rows, None)]
    assert found == [("a", [b"1", b"3"]), ("b", [b"2"])]


def test_a_row_without_a_topic_is_refused():
    with pytest.raises(MisuseError, match="no topic"):
        list(by_topic(table(b"1", topic=pa.array([None], pa.string())), None))
    with pytest.raises(MisuseError, match="NUL"):
        list(by_topic(table(b"1", topic=pa.array(["a\0b"])), None))


@pytest.mark.parametrize("header", [None, (None, b"x")])
def test_a_header_without_a_key_is_refused(options, header):
    rows = table(b"1", headers=pa.array([[("h", None), header]], HEADERS))
    with pytest.raises(MisuseError, match="a header needs a key; its value may be null"):
        write([rows], options, attempt())


@pytest.mark.parametrize("columns", [{}, {"key": pa.array([None, None], pa.binary())}])
def test_a_row_that_is_too_large_is_refused(options, columns):
    rows = table(b"1", bytes(RECORD_BYTES_MAX + 1), **columns)
    with pytest.raises(MisuseError, match="a row for topic 'out' has 8323073 bytes"):
        write([rows], options, attempt())


@pytest.mark.parametrize("columns", [{}, {"key": pa.array([b"k"] * 4)}])
def test_rows_larger_than_a_batch_have_batches_of_their_own(cluster, options, columns):
    large = bytes(options.batch_bytes * 2)
    write([table(b"1", large, large, b"2", **columns)], options, attempt())
    (held,) = cluster.records().values()
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


def test_flags_and_origin_are_the_columns(cluster, copy_options, source):
    rows = tables(source, Range(ORDERS, 0, 4))
    for name, value in (("copy_flags", -(2**63)), ("origin", 7)):
        index = rows[0].schema.get_field_index(name)
        column = rows[0].column(index)
        changed = [value] * len(column)
        rows[0] = rows[0].set_column(index, rows[0].schema.field(index), type_of(column, changed))
    copy(rows, copy_options, ATTEMPT)
    assert {(record.copy_flags, record.origin) for record in cluster.records()[ORDERS]} == {
        (2**63, 7)
    }


def type_of(column, values):
    import pyarrow as pa

    return pa.array(values, column.type)


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
