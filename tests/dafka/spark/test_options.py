from __future__ import annotations

import re
from functools import partial

import pytest

from dafka.cluster import Cluster
from dafka.errors import MisuseError
from dafka.model import Partition
from dafka.node.store import Store
from dafka.node.tower import Tower
from dafka.process.files import write_secret
from dafka.records.compression import Codec
from dafka.spark import register
from dafka.spark.bounds import TopicSelection
from dafka.spark.options import (
    RECORDS_PER_TASK,
    ClusterOptions,
    sink_options,
    source_options,
)
from dafka.storage.lmdb_log import Durability
from dafka.transport.curve import authenticator
from dafka.transport.keys import load_credentials, new_keys


def test_without_keys_nothing_is_said():
    cluster = ClusterOptions(("tcp://a:1",)).open()
    assert (cluster.stores, cluster.credentials, cluster.insecure) == (("tcp://a:1",), None, False)


def test_a_cluster_may_be_open():
    assert ClusterOptions(("a",), insecure=True).open().insecure
    assert ClusterOptions(("a",), wire="libdafka").open().wire == "libdafka"


def test_a_wire_that_nobody_speaks_is_refused():
    given = {"servers": "tcp://a:1", "towers": "tcp://a:2", "topic": "t", "wire": "morse"}
    with pytest.raises(MisuseError, match="wire 'morse' is not known"):
        sink_options(given, stream=False)


def test_keys_are_read_where_the_process_runs(tmp_path):
    (cluster, _), (public, secret) = new_keys(), new_keys()
    access, key = tmp_path / "access.toml", tmp_path / "job.secret"
    access.write_text(f"cluster = '{cluster}'\n[keys.job]\npublic = '{public}'\n")
    write_secret(key, secret)
    options = ClusterOptions(("a",), access=str(access), key=str(key))
    assert secret not in repr(options)
    assert options.open().credentials.public == public


def test_a_file_that_is_not_there():
    with pytest.raises(MisuseError, match="nowhere"):
        ClusterOptions(("a",), access="/nowhere", key="/nowhere").open()


RIGHTS = '["orders*", "__staged*", "__consumer_offsets*"]'


@pytest.fixture
def guarded(tmp_path, free_ports, reopened):
    """Options that lead to a cluster with keys: `job` may read and write `orders`, and stage."""
    pairs = {name: new_keys() for name in ("cluster", "job", "stranger")}
    lines = [f'cluster = "{pairs["cluster"][0]}"']
    for name, topics in (("job", RIGHTS), ("stranger", "[]")):
        rights = f'public = "{pairs[name][0]}"', f"read = {topics}", f"write = {topics}"
        lines += [f"[keys.{name}]", *rights]
    (tmp_path / "access.toml").write_text("\n".join(lines))
    for name, (_, secret) in pairs.items():
        write_secret(tmp_path / f"{name}.secret", secret)
    first = free_ports(3)
    tower, query = (f"tcp://127.0.0.1:{port}" for port in (first, first + 2))
    own = load_credentials(tmp_path / "access.toml", tmp_path / "cluster.secret")
    place = Cluster(tower, credentials=own)
    store = partial(Store, tmp_path / "store", place, query=query, durability=Durability.OS)
    with (
        reopened(partial(Tower, place)),
        reopened(store),
    ):
        yield {
            "servers": query,
            "towers": tower,
            "access": str(tmp_path / "access.toml"),
            "key": str(tmp_path / "job.secret"),
        }
    authenticator.stop()


@pytest.mark.slow
def test_a_job_in_a_cluster_with_keys(spark, guarded, tmp_path):
    """Written and read by processes that have nothing but the names of key files."""
    register(spark)
    rows = spark.range(100).selectExpr("CAST(id AS STRING) value")
    rows.write.format("dafka").mode("append").options(**guarded, topic="orders").save()
    reading = spark.read.format("dafka").options(**guarded, subscribe="orders")
    assert reading.load().count() == 100
    with pytest.raises(Exception, match="not permitted"):
        reading.option("key", str(tmp_path / "stranger.secret")).load().count()


@pytest.mark.slow
def test_a_key_that_may_not_do_what_a_sink_does_is_refused_before_any_job(guarded, tmp_path):
    sink_options(guarded, stream=False)
    stranger = {**guarded, "key": str(tmp_path / "stranger.secret")}
    access = tmp_path / "access.toml"
    text = access.read_text()
    for stream in (True, False):
        with pytest.raises(MisuseError, match="to read and write __staged, __consumer_offsets be"):
            sink_options(stranger, stream=stream)
    access.write_text(text.replace(', "__consumer_offsets*"', ""))
    with pytest.raises(MisuseError, match="to read and write __consumer_offsets beside"):
        sink_options(guarded, stream=False)
    access.write_text(text.replace("[keys.job]", '[keys.job]\ngroups = ["billing*"]'))
    with pytest.raises(MisuseError, match=r"needs the groups __sink\.\*"):
        sink_options(guarded, stream=True)


SERVER = "tcp://127.0.0.1:5558"
NEEDED = {"servers": SERVER, "subscribe": "orders"}
ORDERS = Partition("orders", "AB")


def test_what_is_not_said():
    options = source_options(NEEDED)
    assert options.cluster.servers == (SERVER,)
    assert options.topics == TopicSelection(("orders",))
    assert options.starting.of(ORDERS, range(3, 9)) == 3
    assert options.ending.of(ORDERS, range(3, 9)) == 9
    assert options.records_per_trigger is None
    assert (options.tasks_min, options.records_per_task) == (1, RECORDS_PER_TASK)
    assert options.fail_on_data_loss
    assert not options.headers


def test_everything_said():
    options = source_options(
        {
            "SERVERS": f"{SERVER}, tcp://127.0.0.1:6558",
            "subscribePattern": "ord.*",
            "startingOffsets": "latest",
            "maxOffsetsPerTrigger": "10",
            "minPartitions": "2",
            "maxRecordsPerPartition": "5",
            "failOnDataLoss": "False",
            "includeHeaders": "TRUE",
        }
    )
    assert options.cluster.servers == (SERVER, "tcp://127.0.0.1:6558")
    assert options.topics.wants("orders")
    assert not options.topics.wants("my-orders")
    assert options.starting.of(ORDERS, range(3, 9)) == 9
    assert options.records_per_trigger == 10
    assert (options.tasks_min, options.records_per_task) == (2, 5)
    assert not options.fail_on_data_loss
    assert options.headers


def test_several_topics():
    topics = source_options({**NEEDED, "subscribe": "a, b"}).topics
    assert [topic for topic in ("a", "b", "ab") if topics.wants(topic)] == ["a", "b"]


def test_sequences_of_some_partitions():
    text = '{"orders": {"AB": 4, "CD": -1, "EF": -2}}'
    options = source_options({**NEEDED, "startingOffsets": text})
    there = range(3, 9)
    found = [options.starting.of(Partition("orders", a), there) for a in ("AB", "CD", "EF", "X")]
    assert found == [4, 9, 3, 3]
    ending = source_options({**NEEDED, "endingOffsets": '{"orders": {"AB": 4}}'}).ending
    assert [ending.of(Partition("orders", address), there) for address in ("AB", "X")] == [4, 9]


@pytest.mark.parametrize(
    ("given", "complaint"),
    [
        ({"subscribe": "orders"}, "'servers' is needed"),
        ({**NEEDED, "servers": "localhost"}, "'servers': endpoint 'localhost'"),
        ({"servers": SERVER}, "'subscribe'"),
        ({**NEEDED, "subscribePattern": "o.*"}, "is needed, and not two"),
        ({"servers": SERVER, "subscribePattern": "("}, "'subscribePattern' is no regular"),
        ({**NEEDED, "subscribe": "orders,,"}, "'subscribe': topic ''"),
        ({**NEEDED, "startingOffset": "latest"}, "did you mean 'startingOffsets'? known"),
        (
            {**NEEDED, "banana": "1"},
            "unknown option 'banana': there is none like it; known are servers, towers, ",
        ),
        ({**NEEDED, "startingOffsets": "newest"}, "'startingOffsets' must be 'earliest' or"),
        ({**NEEDED, "endingOffsets": "earliest"}, "'endingOffsets' must be 'latest' or"),
        ({**NEEDED, "endingOffsets": '{"orders": {"AB": -2}}'}, "'endingOffsets'"),
        ({**NEEDED, "startingOffsets": '{"orders": {"AB": "1"}}'}, "not '1'"),
        ({**NEEDED, "startingOffsets": '{"orders": {"AB": true}}'}, "not True"),
        ({**NEEDED, "startingOffsets": '{"orders": 4}'}, "'startingOffsets'"),
        ({**NEEDED, "startingOffsets": "[" * 100_000}, "'startingOffsets'"),
        ({**NEEDED, "maxOffsetsPerTrigger": "0"}, "'maxOffsetsPerTrigger' must be a whole"),
        ({**NEEDED, "minPartitions": "many"}, "'minPartitions' must be a whole number"),
        ({**NEEDED, "startingTimestamp": "now"}, "'startingTimestamp' must be milliseconds"),
        ({**NEEDED, "startingTimestamp": "9" * 5_000}, "'startingTimestamp' must be milliseconds"),
        ({**NEEDED, "minOffsetsPerTrigger": "1" * 5_000}, "'minOffsetsPerTrigger' must be a whole"),
        (
            {**NEEDED, "minOffsetsPerTrigger": "6", "maxOffsetsPerTrigger": "5"},
            "'minOffsetsPerTrigger' must be at most 'maxOffsetsPerTrigger', 5: 6",
        ),
        ({**NEEDED, "assign": "{}"}, "is needed, and not two"),
        ({"servers": SERVER, "assign": "{}"}, "'assign' names no partition"),
        ({"servers": SERVER, "assign": '{"orders": [0]}'}, "is a string, not 0"),
        ({"servers": SERVER, "assign": '{"orders": 0}'}, "'assign' must be"),
        ({**NEEDED, "startingOffsetsByTimestamp": "5"}, "'startingOffsetsByTimestamp' must be"),
        (
            {**NEEDED, "startingOffsetsByTimestampStrategy": "x"},
            "'startingOffsetsByTimestampStrategy' must be 'error' or 'latest'",
        ),
        (
            {**NEEDED, "endingTimestamp": "5", "endingOffsets": "latest"},
            "'endingOffsets' cannot be used here: 'endingTimestamp' says where to end",
        ),
        ({**NEEDED, "maxTriggerDelay": "1 week"}, "'maxTriggerDelay' must be a number and one of"),
        (
            {**NEEDED, "startingTimestamp": "5", "startingOffsets": "latest"},
            "'startingOffsets' cannot be used here: 'startingTimestamp' says",
        ),
        ({**NEEDED, "failOnDataLoss": "maybe"}, "'failOnDataLoss' must be true or false"),
    ],
)
def test_what_cannot_be_used_is_named(given, complaint):
    with pytest.raises(MisuseError, match=re.escape(complaint)):
        source_options(given)


@pytest.mark.parametrize(
    ("text", "milliseconds"), [("250", 250), ("2 ms", 2), ("15M", 900_000), ("1min", 60_000)]
)
def test_how_long_is_written_as_spark_does(text, milliseconds):
    assert source_options({**NEEDED, "maxTriggerDelay": text}).trigger_delay_ms == milliseconds


def test_options_of_the_other_kind_of_query_are_refused():
    with pytest.raises(MisuseError, match="a batch has no triggers"):
        source_options({**NEEDED, "maxOffsetsPerTrigger": "5"}, stream=False)
    with pytest.raises(MisuseError, match=r"'maxTriggerDelay' .* a batch has no triggers"):
        source_options({**NEEDED, "maxTriggerDelay": "1h"}, stream=False)
    for name in ("endingOffsets", "endingTimestamp", "endingOffsetsByTimestamp"):
        with pytest.raises(MisuseError, match=f"'{name}' .* a stream has no end"):
            source_options({**NEEDED, name: "1"}, stream=True)


def test_a_stream_begins_at_the_end_and_a_batch_at_the_beginning():
    there = range(3, 9)
    for stream, begin in ((True, 9), (False, 3)):
        assert source_options(NEEDED, stream=stream).starting.of(ORDERS, there) == begin
        given = {**NEEDED, "startingOffsets": '{"orders": {"X": 4}}'}
        assert source_options(given, stream=stream).starting.of(ORDERS, there) == 3


SINK = {"servers": SERVER, "towers": "tcp://127.0.0.1:5556"}


def test_options_of_a_sink():
    options = sink_options({**SINK, "checkpointLocation": "/x", "queryName": "q"}, stream=True)
    assert (options.cluster.servers, options.cluster.towers) == (
        (SERVER,),
        ("tcp://127.0.0.1:5556",),
    )
    assert (options.topic, options.min_acks, options.run_id) == (None, 1, None)
    assert options.partitions is None
    assert sink_options({**SINK, "partitions": "4096"}, stream=True).partitions == 4_096
    with pytest.raises(MisuseError, match="'partitions' cannot be used here: whole batches have"):
        sink_options({**SINK, "partitions": "4"}, stream=True, copying=True)
    both = {**SINK, "servers": f"{SERVER},{SERVER}", "minAcks": "2", "topic": "t", "runId": "r"}
    options = sink_options(both, stream=False)
    assert (options.topic, options.min_acks, options.run_id) == ("t", 2, "r")


@pytest.mark.parametrize(("stores", "min_acks"), [(1, 1), (2, 1), (3, 2), (4, 2), (5, 3)])
def test_so_many_stores_have_a_record_that_each_majority_has_one(stores, min_acks):
    servers = ",".join(f"tcp://127.0.0.1:{5600 + number}" for number in range(stores))
    given = {**SINK, "servers": servers}
    assert sink_options(given, stream=True).min_acks == min_acks
    assert sink_options(given, stream=True, copying=True).min_acks == 1


def test_compression_is_for_whole_batches():
    given = {**SINK, "compression": "zstd"}
    assert sink_options(given, stream=True, copying=True).codec is Codec.ZSTD
    assert sink_options(SINK, stream=True, copying=True).codec is Codec.NONE
    with pytest.raises(MisuseError, match="unknown option 'compression'"):
        sink_options(given, stream=True)
    with pytest.raises(MisuseError, match="option 'compression': there is no compression 'lzma'"):
        sink_options({**SINK, "compression": "lzma"}, stream=True, copying=True)


def test_log_starts_are_for_whole_batches():
    text = '{"orders": {"AB": 4}}'
    options = sink_options({**SINK, "logStarts": text}, stream=True, copying=True)
    assert options.log_starts == {ORDERS: 4}
    with pytest.raises(MisuseError, match="unknown option 'logstarts'"):
        sink_options({**SINK, "logStarts": text}, stream=True)
    for text in ("latest", '{"orders": {"AB": -1}}'):
        with pytest.raises(MisuseError, match=r"'logStarts' must be '.\"TOPIC\""):
            sink_options({**SINK, "logStarts": text}, stream=True, copying=True)


@pytest.mark.parametrize(
    ("given", "complaint"),
    [
        ({"servers": SERVER}, "'towers' is needed"),
        ({**SINK, "access": "/x"}, "'access' and 'key' .* go together"),
        ({**SINK, "minAcks": "2"}, "'minAcks' must be 1 to 1"),
        ({**SINK, "partitions": "4097"}, "'partitions' must be 1 to 4096: 4097"),
        ({**SINK, "partitions": "0"}, "'partitions' must be a whole number above 0"),
        ({**SINK, "topic": ""}, "'topic': topic '' cannot be used"),
        ({**SINK, "runId": "r"}, "'runId' cannot be used here"),
        ({**SINK, "subscribe": "r"}, "unknown option 'subscribe'"),
    ],
)
def test_what_a_sink_cannot_use_is_named(given, complaint):
    with pytest.raises(MisuseError, match=complaint):
        sink_options(given, stream=True)
