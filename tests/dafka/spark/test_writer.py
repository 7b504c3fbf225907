from __future__ import annotations

import pickle
from types import SimpleNamespace

import pyarrow as pa
import pytest
from pyspark import cloudpickle
from pyspark.errors import AnalysisException
from pyspark.sql.functions import udf
from pyspark.sql.types import StructType

from dafka.errors import MisuseError
from dafka.spark import register
from dafka.spark.batch_reader import BatchReader
from dafka.spark.options import sink_options
from dafka.spark.resume import RepeatedError
from dafka.spark.rows import BATCH_SCHEMA
from dafka.spark.source import DafkaDataSource
from dafka.spark.topic_log import Attempt
from dafka.spark.writer import BatchWriter, StreamWriter, Written
from dafka.spark.writing import write

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
            servers=source.endpoint, subscribe="orders", minPartitions=tasks
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
        Written(attempt, write([pa.RecordBatch.from_pydict({"value": [b"v"]})], options, attempt))
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


def test_what_cannot_be_written_is_refused_before_any_job(numbers, cluster):
    writer = numbers.write.format("dafka").mode("append").options(**cluster.options)
    with pytest.raises(AnalysisException, match="column 'seventh' cannot be written"):
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
