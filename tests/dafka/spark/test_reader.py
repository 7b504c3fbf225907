from __future__ import annotations

import json
import pickle
import shutil

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
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadMaxRows

from dafka.errors import MisuseError, QueryError
from dafka.limits import SPARK_FORGOTTEN_MAX
from dafka.model import Partition, Range
from dafka.process.clock import CLOCK, Clock
from dafka.spark import register
from dafka.spark.options import source_options
from dafka.spark.planning import DataLossError, RangeReader
from dafka.spark.reader import BatchReader, Narrowing, StreamReader
from dafka.spark.rows import RecordRows
from tests.support.batches import unreadable_from
from tests.support.shares import HIGH, LOW

OTHER = Partition("orders", "CD" * 16)


def reader(*ports, columns=("value", "offset"), **options):
    servers = ",".join(port if isinstance(port, str) else port.endpoint for port in ports)
    given = {"servers": servers, "subscribe": "orders", **options}
    return BatchReader(source_options(given, stream=False), RecordRows(columns))


def rows(reader):
    """What a job reads: every task of its own, by a reader that has travelled there."""
    found = []
    for task in pickle.loads(pickle.dumps(reader.partitions())):
        for table in pickle.loads(pickle.dumps(reader)).read(task):
            found += [tuple(row.values()) for row in table.to_pylist()]
    return found


@pytest.fixture
def port(serve, make_batch):
    """A store with two partitions of `orders` and one of another topic."""
    return serve(
        make_batch([b"0", b"1", b"2"]),
        make_batch([b"3", b"4"], 3),
        make_batch([b"a", b"b"], partition=OTHER),
        make_batch([b"x"], partition=Partition("other", "EF" * 16)),
    )


def test_records_that_nobody_can_read_are_passed_over_or_end_the_job(serve, make_batch):
    port = serve(
        make_batch([b"0", b"1"]),
        unreadable_from(make_batch([b"2", b"3", b"4"], 2), 1),
        unreadable_from(make_batch([b"5"], 5), 0),
        make_batch([b"6"], 6),
    )
    columns = ("value", "offset", "headers")
    refused = r"sequences 3 to 4 of .* 'orders' cannot be read by anybody, .* failOnDataLoss=false"
    with pytest.raises(DataLossError, match=refused):
        rows(reader(port, columns=columns))
    found = rows(reader(port, columns=columns, failOnDataLoss="false"))
    assert [row[:2] for row in found] == [(b"%d" % number, number) for number in (0, 1, 2, 6)]


def test_everything(port):
    expected = [(b"%d" % number, number) for number in range(5)] + [(b"a", 0), (b"b", 1)]
    assert rows(reader(port)) == expected


@pytest.fixture
def shared(serve, make_batch):
    """Two stores that keep half of the slots each, the first not that of most records."""
    high, low = serve(slots=HIGH), serve(slots=LOW)
    low.log.append([make_batch([b"0", b"1", b"2"]), make_batch([b"3", b"4"], 3)])
    high.log.append([make_batch([b"a", b"b"], partition=OTHER)])
    return high, low


def test_everything_of_stores_that_share_slots(shared):
    expected = [(b"%d" % number, number) for number in range(5)] + [(b"a", 0), (b"b", 1)]
    for stores in (shared, shared[::-1]):
        assert sorted(rows(reader(*stores, minPartitions="3"))) == expected
    with pytest.raises(QueryError, match="does not keep slots 0-2047"):
        rows(reader(shared[0]))


@pytest.mark.parametrize("tasks", ["1", "2", "3", "7", "99"])
def test_tasks_tile_what_is_read(port, tasks):
    cut = reader(port, minPartitions=tasks)
    assert len(cut.partitions()) == min(int(tasks), 7)
    assert rows(cut) == rows(reader(port))


def test_from_and_to_sequences(port):
    starting = '{{"orders": {{"{}": 2, "{}": -1}}}}'.format("AB" * 16, "CD" * 16)
    ending = '{"orders": {"%s": 4}}' % ("AB" * 16)
    found = rows(reader(port, startingOffsets=starting, endingOffsets=ending))
    assert found == [(b"2", 2), (b"3", 3)]


def test_from_a_time(serve, make_batch):
    port = serve(make_batch([b"1"], timestamp_ms=10), make_batch([b"2"], 1, timestamp_ms=20))
    assert rows(reader(port, startingTimestamp="15")) == [(b"2", 1)]


def test_to_a_time(serve, make_batch):
    """What has nothing as late as that is read to its end."""
    other = Partition("orders", "CD" * 16)
    port = serve(
        *(make_batch([b"1"], timestamp_ms=10), make_batch([b"2"], 1, timestamp_ms=20)),
        make_batch([b"a"], 0, other, timestamp_ms=10),
    )
    assert rows(reader(port, endingTimestamp="15")) == [(b"1", 0), (b"a", 0)]
    assert rows(reader(port, startingTimestamp="10", endingTimestamp="10")) == []


def test_from_and_to_times_of_some_partitions(serve, make_batch):
    other = Partition("orders", "CD" * 16)
    port = serve(
        *(make_batch([b"1"], timestamp_ms=10), make_batch([b"2"], 1, timestamp_ms=20)),
        *(make_batch([b"a"], 0, other, timestamp_ms=10), make_batch([b"b"], 1, other)),
    )
    times = '{"orders": {"%s": 15}}' % ("AB" * 16)
    assert rows(reader(port, startingOffsetsByTimestamp=times)) == [(b"2", 1), (b"a", 0), (b"b", 1)]
    assert rows(reader(port, endingOffsetsByTimestamp=times)) == [(b"1", 0), (b"a", 0), (b"b", 1)]


def test_a_time_that_nothing_is_as_late_as(serve, make_batch):
    port = serve(make_batch([b"1"], timestamp_ms=10))
    assert rows(reader(port, startingTimestamp="11")) == []
    strict = {"startingOffsetsByTimestampStrategy": "error"}
    with pytest.raises(MisuseError, match=r"'orders' has no record as late as 11: .*=latest"):
        reader(port, startingTimestamp="11", **strict).partitions()
    assert rows(reader(port, startingTimestamp="10", **strict)) == [(b"1", 0)]


def test_partitions_that_are_named(port):
    options = source_options(
        {"servers": port.endpoint, "assign": '{"orders": ["%s"]}' % ("CD" * 16)}
    )
    assert rows(BatchReader(options, RecordRows(("value", "offset")))) == [(b"a", 0), (b"b", 1)]


def test_latest_and_nothing(port):
    assert rows(reader(port, startingOffsets="latest")) == []
    assert rows(reader(port, subscribe="nothing")) == []


def test_an_end_behind_what_is_there_is_refused(port):
    ending = '{"orders": {"%s": 6}}' % ("AB" * 16)
    with pytest.raises(MisuseError, match=r"'endingOffsets': partition 'AB.* ends at 5, before 6"):
        reader(port, endingOffsets=ending).partitions()


def test_no_store(silent):
    with pytest.raises(QueryError, match=silent):
        reader(silent).partitions()


def test_exactly_what_was_planned_or_an_error(serve, make_batch, port):
    planned = reader(port)
    lagging = serve(make_batch([b"0", b"1", b"2"]))
    (task,) = planned.partitions()
    with pytest.raises(QueryError, match=r"sequence 3 .* is not there yet: the cluster ends at 3"):
        list(reader(lagging).read(task))


def test_the_empty_partition_that_spark_makes_up(port):
    assert list(reader(port).read(None)) == []


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


EVERYTHING = ReadAllAvailable()
ORDERS = Partition("orders", "AB" * 16)


@pytest.fixture(autouse=True)
def streams():
    """Those that a test began; they end with it, as Spark ends them with their query."""
    yield STREAMS
    while STREAMS:
        STREAMS.pop().stop()


STREAMS = []


def begun(*arguments):
    """A stream that ends with the test."""
    STREAMS.append(StreamReader(*arguments))
    return STREAMS[-1]


def stream_of(port, forgotten_max=SPARK_FORGOTTEN_MAX, clock=CLOCK, **options):
    """A stream from the first record on, unless options say otherwise."""
    given = {
        "servers": getattr(port, "endpoint", port),
        "subscribe": "orders",
        **options,
    }
    if not any(name.startswith("starting") for name in options):
        given["startingOffsets"] = "earliest"
    checked = source_options(given, stream=True)
    return begun(checked, RecordRows(("value",)), forgotten_max, clock)


def test_a_store_that_does_not_answer_costs_its_time_once_and_tasks_hear_of_it(
    silent, stream_port, make_batch
):
    given = {"servers": f"{silent},{stream_port.endpoint}", "subscribe": "orders"}
    given["startingOffsets"] = "earliest"
    stream = begun(source_options(given, stream=True), RecordRows(("value",)))
    start = stream.initialOffset()
    first = travelled(stream.latestOffset(start, EVERYTHING))
    (task,) = pickle.loads(pickle.dumps(stream.partitions(start, first)))
    assert task.silent == (silent,)
    assert pickle.loads(pickle.dumps(stream)).partitions(start, first)[0].silent == ()
    assert len(values(stream, start, first)) == 3
    stream.stop()
    assert stream.latestOffset(first, EVERYTHING) == first
    stream.stop()
    stream.stop()


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
def stream_port(serve, make_batch):
    return serve(make_batch([b"0", b"1", b"2"]))


def test_micro_batches_follow_each_other(stream_port, make_batch):
    stream = stream_of(stream_port)
    start = stream.initialOffset()
    first = travelled(stream.latestOffset(start, EVERYTHING))
    assert values(stream, start, first) == [b"0", b"1", b"2"]
    assert stream.latestOffset(first, EVERYTHING) == first
    stream_port.log.append([make_batch([b"3"], 3)])
    second = travelled(stream.latestOffset(first, EVERYTHING))
    assert values(stream, first, second) == [b"3"]
    assert travelled(stream.reportLatestOffset()) == {"behind": 0, "partitions": 1}


def test_micro_batches_of_stores_that_share_slots_follow_each_other(shared, make_batch):
    high, low = shared
    stream = stream_of(f"{high.endpoint},{low.endpoint}")
    start = stream.initialOffset()
    first = travelled(stream.latestOffset(start, EVERYTHING))
    assert sorted(values(stream, start, first)) == [b"0", b"1", b"2", b"3", b"4", b"a", b"b"]
    high.log.append([make_batch([b"c"], 2, OTHER)])
    low.log.append([make_batch([b"new"], partition=Partition("orders", "BB" * 16))])
    second = travelled(stream.latestOffset(first, EVERYTHING))
    assert sorted(values(stream, first, second)) == [b"c", b"new"]
    assert travelled(stream.reportLatestOffset()) == {"behind": 0, "partitions": 3}


def test_a_report_says_how_many_records_the_stream_is_behind(stream_port, make_batch):
    stream = stream_of(stream_port, maxOffsetsPerTrigger="2")
    start = stream.initialOffset()
    first = stream.latestOffset(start, stream.getDefaultReadLimit())
    assert stream.reportLatestOffset()["behind"] == 1
    stream_port.log.append([make_batch([b"new"], 0, Partition("orders", "CD" * 16))])
    assert stream.reportLatestOffset() == {"behind": 2, "partitions": 2}
    again = stream_of(stream_port)
    assert again.reportLatestOffset()["behind"] == 4, "nothing is planned yet"
    again.partitions(start, first)
    assert again.reportLatestOffset()["behind"] == 2, "what a crash left is planned again"


def test_a_time_is_where_the_stream_begins_not_where_it_goes_on(serve, make_batch):
    stream_port = serve(make_batch([b"1"], timestamp_ms=10), make_batch([b"2"], 1, timestamp_ms=20))
    stream = stream_of(stream_port, startingTimestamp="15")
    start = stream.initialOffset()
    first = travelled(stream.latestOffset(start, EVERYTHING))
    assert values(stream, start, first) == [b"2"]
    stream_port.log.append([make_batch([b"3"], 2, timestamp_ms=5)])
    assert values(stream, first, stream.latestOffset(first, EVERYTHING)) == [b"3"]


def test_a_stream_begins_with_what_comes_from_now_on(stream_port, make_batch):
    given = {"servers": stream_port.endpoint, "subscribe": "orders"}
    stream = begun(source_options(given, stream=True), RecordRows(("value",)))
    start = stream.initialOffset()
    first = travelled(stream.latestOffset(start, EVERYTHING))
    assert values(stream, start, first) == []
    stream_port.log.append([make_batch([b"3"], 3)])
    stream_port.log.append([make_batch([b"new"], 0, Partition("orders", "CD" * 16))])
    second = travelled(stream.latestOffset(first, EVERYTHING))
    assert values(stream, first, second) == [b"3", b"new"]


passed_s = [0.0]
"""By the clock of a stream: at module level, as a reader takes its clock along where it travels."""


def seconds():
    return passed_s[0]


def test_a_micro_batch_waits_until_there_is_enough_or_it_is_late(stream_port, make_batch):
    options = {"minOffsetsPerTrigger": "3", "maxTriggerDelay": "10s"}
    stream = stream_of(stream_port, clock=Clock(seconds=seconds), **options)
    start = stream.initialOffset()
    first = travelled(stream.latestOffset(start, EVERYTHING))
    stream_port.log.append([make_batch([b"3"], 3)])
    assert stream.latestOffset(first, EVERYTHING) == first
    stream_port.log.append([make_batch([b"4", b"5"], 4)])
    second = travelled(stream.latestOffset(first, EVERYTHING))
    assert values(stream, first, second) == [b"3", b"4", b"5"]
    stream_port.log.append([make_batch([b"6"], 6)])
    assert stream.latestOffset(second, EVERYTHING) == second
    passed_s[0] += 10
    third = travelled(stream.latestOffset(second, EVERYTHING))
    assert values(stream, second, third) == [b"6"]


def test_what_is_available_now_is_not_waited_for(stream_port, make_batch):
    stream = stream_of(stream_port, minOffsetsPerTrigger="2")
    start = stream.initialOffset()
    first = stream.latestOffset(start, EVERYTHING)
    stream_port.log.append([make_batch([b"3"], 3)])
    stream.prepareForTriggerAvailableNow()
    assert values(stream, first, stream.latestOffset(first, EVERYTHING)) == [b"3"]


def test_limits(stream_port):
    stream = stream_of(stream_port, maxOffsetsPerTrigger="2")
    limit = stream.getDefaultReadLimit()
    assert limit == ReadMaxRows(2)
    assert stream_of(stream_port).getDefaultReadLimit() == ReadAllAvailable()
    start = stream.initialOffset()
    first = stream.latestOffset(start, limit)
    second = stream.latestOffset(first, limit)
    assert values(stream, start, first) == [b"0", b"1"]
    assert values(stream, first, second) == [b"2"]


def test_a_micro_batch_is_dealt_as_it_was_whatever_the_options_are_by_now(stream_port):
    stream = stream_of(stream_port, minPartitions="3")
    start = stream.initialOffset()
    end = travelled(stream.latestOffset(start, EVERYTHING))
    assert len(stream.partitions(start, end)) == 3
    restarted = stream_of(stream_port, minPartitions="2", maxRecordsPerPartition="2")
    assert len(restarted.partitions(start, end)) == 3
    assert restarted.latestOffset(end, EVERYTHING) == end


def test_a_topic_that_is_deleted_ends_the_stream_with_a_clear_error(stream_port, make_batch):
    stream = stream_of(stream_port)
    start = stream.initialOffset()
    first = travelled(stream.latestOffset(start, ReadMaxRows(1)))
    stream_port.log.append([], trims={ORDERS: 3})
    second = travelled(stream.latestOffset(first, EVERYTHING))
    with pytest.raises(DataLossError, match=r"'orders' are in no store .* was deleted"):
        values(stream, first, second)
    passing = stream_of(stream_port, failOnDataLoss="false")
    assert values(passing, first, second) == []
    stream_port.log.append([make_batch([b"new"], 3)])
    assert values(passing, second, passing.latestOffset(second, EVERYTHING)) == [b"new"]


def test_what_is_available_now_ends(stream_port, make_batch):
    stream = stream_of(stream_port)
    stream.prepareForTriggerAvailableNow()
    stream_port.log.append([make_batch([b"late"], 3)])
    stream_port.log.append([make_batch([b"new"], 0, Partition("orders", "CD" * 16))])
    start = stream.initialOffset()
    end = stream.latestOffset(start, EVERYTHING)
    assert values(stream, start, end) == [b"0", b"1", b"2"]
    assert stream.latestOffset(end, EVERYTHING) == end


def test_planning_waits_for_a_store(stream_port, monkeypatch):
    there, asked = RangeReader.there, []

    def lost_once(stores, topics):
        asked.append(topics)
        if len(asked) == 1:
            raise QueryError("no answer")
        return there(stores, topics)

    monkeypatch.setattr(RangeReader, "there", lost_once)
    stream_of(stream_port).prepareForTriggerAvailableNow()
    assert len(asked) == 2


SHORT = 300
"""Producers that live at the same time; each publishes one record and is gone."""


def test_a_checkpoint_does_not_grow_with_every_producer_that_ever_was(stream_port, make_batch):
    stream, log = stream_of(stream_port, forgotten_max=SHORT), stream_port.log
    offset, read, sizes = stream.initialOffset(), [], []
    for life in range(10):
        lives = [Partition("orders", f"{life * SHORT + one:032X}") for one in range(SHORT)]
        log.append([make_batch([b"%d" % life], partition=one) for one in lives])
        following = travelled(stream.latestOffset(offset, EVERYTHING))
        read += values(stream, offset, following)
        offset = following
        sizes.append(len(json.dumps(offset)))
        log.append([], trims=dict.fromkeys(lives, 1))
        log.append([], forgets=lives)
    assert len(read) == 10 * SHORT + 3  # nothing twice, nothing skipped
    assert max(sizes) < 40_000  # of all that ever were it would be 126 kB, and go on growing
    back = lives[0]
    log.append([make_batch([b"back"], 1, back)])
    following = travelled(stream.latestOffset(offset, EVERYTHING))
    assert values(stream, offset, following) == [b"back"]


def test_what_was_forgotten_before_the_stream_has_read_it_is_lost_data(stream_port, make_batch):
    stream = stream_of(stream_port)
    start = stream.initialOffset()
    first = travelled(stream.latestOffset(start, ReadMaxRows(1)))
    stream_port.log.append([], trims={ORDERS: 3})
    stream_port.log.append([], forgets=[ORDERS])
    second = travelled(stream.latestOffset(first, EVERYTHING))
    with pytest.raises(DataLossError, match=r"'orders' are in no store .* was deleted"):
        values(stream, first, second)
    passing = stream_of(stream_port, failOnDataLoss="false")
    assert values(passing, first, second) == []
    assert passing.latestOffset(second, EVERYTHING) == second


def test_a_store_that_is_away_may_still_list_what_others_have_forgotten(
    stream_port, serve, make_batch, silent
):
    both = ",".join((stream_port.endpoint, silent))
    stream = stream_of(both)
    first = stream.latestOffset(stream.initialOffset(), EVERYTHING)
    stream_port.log.append([make_batch([b"x"], partition=OTHER)])
    stream_port.log.append([], trims={ORDERS: 3})
    stream_port.log.append([], forgets=[ORDERS])
    second = stream.latestOffset(first, EVERYTHING)
    assert second["forgotten"] == []
    third = stream_of(stream_port).latestOffset(second, EVERYTHING)
    assert third == second, "nothing has moved"


@pytest.mark.slow
def test_a_replayed_micro_batch_is_the_same_one(spark, stream_port, make_batch, tmp_path):
    register(spark)
    source = spark.readStream.format("dafka").options(
        servers=stream_port.endpoint,
        subscribe="orders",
        startingOffsets="earliest",
        maxOffsetsPerTrigger=2,
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
    stream_port.log.append([make_batch([b"3"], 3)])
    run()
    assert (checkpoint / "offsets" / "0").read_text() == log
    rows = spark.read.parquet(str(target)).collect()
    assert sorted(row.value for row in rows) == ["0", "1", "2", "3"]
