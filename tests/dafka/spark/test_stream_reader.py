from __future__ import annotations

import json
import pickle
import shutil

import pytest
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadMaxRows

from dafka.errors import QueryError
from dafka.model import Partition
from dafka.spark import register
from dafka.spark.options import source_options
from dafka.spark.rows import RecordRows
from dafka.spark.stores import DataLossError
from dafka.spark.stream_reader import StreamReader

EVERYTHING = ReadAllAvailable()
ORDERS = Partition("orders", "AB" * 16)


def reader(port, **options):
    given = {"servers": getattr(port, "endpoint", port), "subscribe": "orders", **options}
    return StreamReader(source_options(given, stream=True), RecordRows(("value",)))


def travelled(offset):
    """As it comes back from Spark's log."""
    return json.loads(json.dumps(offset))


def values(reader, start, end):
    """What the tasks of a micro-batch read, by readers that have travelled."""
    return [
        value
        for task in pickle.loads(pickle.dumps(reader.partitions(start, end)))
        for table in pickle.loads(pickle.dumps(reader)).read(task)
        for value in table["value"].to_pylist()
    ]


@pytest.fixture
def port(serve, make_batch):
    return serve(make_batch([b"0", b"1", b"2"]))


def test_micro_batches_follow_each_other(port, make_batch):
    stream = reader(port)
    start = stream.initialOffset()
    first = travelled(stream.latestOffset(start, EVERYTHING))
    assert values(stream, start, first) == [b"0", b"1", b"2"]
    assert stream.latestOffset(first, EVERYTHING) == first
    port.log.append([make_batch([b"3"], 3)])
    second = travelled(stream.latestOffset(first, EVERYTHING))
    assert values(stream, first, second) == [b"3"]
    assert travelled(stream.reportLatestOffset())["next"] == second["next"]


def test_a_time_is_where_the_stream_begins_not_where_it_goes_on(serve, make_batch):
    port = serve(make_batch([b"1"], timestamp_ms=10), make_batch([b"2"], 1, timestamp_ms=20))
    stream = reader(port, startingTimestamp="15")
    start = stream.initialOffset()
    first = travelled(stream.latestOffset(start, EVERYTHING))
    assert values(stream, start, first) == [b"2"]
    port.log.append([make_batch([b"3"], 2, timestamp_ms=5)])
    assert values(stream, first, stream.latestOffset(first, EVERYTHING)) == [b"3"]


def test_limits(port):
    stream = reader(port, maxOffsetsPerTrigger="2")
    limit = stream.getDefaultReadLimit()
    assert limit == ReadMaxRows(2)
    assert reader(port).getDefaultReadLimit() == ReadAllAvailable()
    start = stream.initialOffset()
    first = stream.latestOffset(start, limit)
    second = stream.latestOffset(first, limit)
    assert values(stream, start, first) == [b"0", b"1"]
    assert values(stream, first, second) == [b"2"]


def test_a_micro_batch_is_dealt_as_it_was_whatever_the_options_are_by_now(port):
    stream = reader(port, minPartitions="3")
    start = stream.initialOffset()
    end = travelled(stream.latestOffset(start, EVERYTHING))
    assert len(stream.partitions(start, end)) == 3
    restarted = reader(port, minPartitions="2", maxRecordsPerPartition="2")
    assert len(restarted.partitions(start, end)) == 3
    assert restarted.latestOffset(end, EVERYTHING) == end


def test_a_topic_that_is_deleted_ends_the_stream_with_a_clear_error(port, make_batch):
    stream = reader(port)
    start = stream.initialOffset()
    first = travelled(stream.latestOffset(start, ReadMaxRows(1)))
    port.log.append([], trims={ORDERS: 3})
    second = travelled(stream.latestOffset(first, EVERYTHING))
    with pytest.raises(DataLossError, match=r"'orders' are in no store .* was deleted"):
        values(stream, first, second)
    passing = reader(port, failOnDataLoss="false")
    assert values(passing, first, second) == []
    port.log.append([make_batch([b"new"], 3)])
    assert values(passing, second, passing.latestOffset(second, EVERYTHING)) == [b"new"]


def test_what_is_available_now_ends(port, make_batch):
    stream = reader(port)
    stream.prepareForTriggerAvailableNow()
    port.log.append([make_batch([b"late"], 3)])
    port.log.append([make_batch([b"new"], 0, Partition("orders", "CD" * 16))])
    start = stream.initialOffset()
    end = stream.latestOffset(start, EVERYTHING)
    assert values(stream, start, end) == [b"0", b"1", b"2"]
    assert stream.latestOffset(end, EVERYTHING) == end


def test_planning_waits_for_a_store_but_not_for_ever(silent, monkeypatch):
    monkeypatch.setattr("dafka.spark.stores.ANSWER_TIMEOUT_MS", 20)
    monkeypatch.setattr("dafka.spark.stores.PATIENCE_S", 0.0)
    with pytest.raises(QueryError, match=silent):
        reader(silent).prepareForTriggerAvailableNow()


@pytest.mark.slow
def test_a_replayed_micro_batch_is_the_same_one(spark, port, make_batch, tmp_path):
    register(spark)
    source = spark.readStream.format("dafka").options(
        servers=port.endpoint, subscribe="orders", maxOffsetsPerTrigger=2
    )
    target, checkpoint = tmp_path / "target", tmp_path / "checkpoint"

    def run():
        query = (
            source.load()
            .selectExpr("CAST(value AS STRING) value")
            .writeStream.option("checkpointLocation", str(checkpoint))
            .trigger(availableNow=True)
            .start(str(target), format="parquet")
        )
        query.awaitTermination()

    run()
    log = (checkpoint / "offsets" / "0").read_text()
    # As after a crash before the first micro-batch was committed, with more to read by now.
    for commit in (checkpoint / "commits").iterdir():
        commit.unlink()
    for name in ("1", ".1.crc"):
        (checkpoint / "offsets" / name).unlink()
    shutil.rmtree(target)
    port.log.append([make_batch([b"3"], 3)])
    run()
    assert (checkpoint / "offsets" / "0").read_text() == log
    rows = spark.read.parquet(str(target)).collect()
    assert sorted(row.value for row in rows) == ["0", "1", "2", "3"]
