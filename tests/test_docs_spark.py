"""docs/spark.md stays true: its example runs, its tables are the options there are."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from dafka.errors import MisuseError
from dafka.model import Partition
from dafka.node.producer import Producer
from dafka.node.store import Store
from dafka.node.tower import Tower
from dafka.query.client import StoreClient
from dafka.spark import session
from dafka.spark.columns import TYPES, WRITABLE
from dafka.spark.options import (
    RECORDS_PER_TASK,
    SINK_OPTIONS,
    SOURCE_OPTIONS,
    sink_options,
    source_options,
)

PAGE = (Path(__file__).parent.parent / "docs" / "spark.md").read_text()
SOURCE, SINK = PAGE.partition("## Source")[2].split("## Sink")


def options_in(text):
    cells = re.findall(r"^\| (`.*?`) \|", text, re.MULTILINE)
    return {name for cell in cells for name in re.findall(r"`(\w+)`", cell)}


def test_options_and_columns():
    assert options_in(SOURCE) == set(SOURCE_OPTIONS)
    assert options_in(SINK.partition("## Jobs")[0]) == set(SINK_OPTIONS)
    assert str(RECORDS_PER_TASK) in SOURCE
    columns = SOURCE.partition("Columns:")[2]
    assert all(f"`{name}`" in columns for name in TYPES)
    assert all(f"`{name}`" in SINK for name in WRITABLE)


KAFKA = PAGE.partition("## Jobs that were written for Kafka")[2].partition("## Values")[0]
"""What it says of each option of Spark's Kafka source and sink."""

SAID = {
    "subscribe": "orders",
    "subscribePattern": "o.*",
    "assign": '{"orders": ["AB"]}',
    "startingOffsets": "earliest",
    "endingOffsets": "latest",
    "startingTimestamp": "5",
    "startingOffsetsByTimestamp": '{"orders": {"AB": 5}}',
    "startingOffsetsByTimestampStrategy": "error",
    "endingTimestamp": "5",
    "endingOffsetsByTimestamp": '{"orders": {"AB": 5}}',
    "failOnDataLoss": "false",
    "includeHeaders": "true",
    "maxOffsetsPerTrigger": "5",
    "minOffsetsPerTrigger": "5",
    "maxTriggerDelay": "5m",
    "minPartitions": "5",
    "maxRecordsPerPartition": "5",
    "kafkaConsumer.pollTimeoutMs": "5",
    "fetchOffset.numRetries": "5",
    "fetchOffset.retryIntervalMs": "5",
    "groupIdPrefix": "job",
    "kafka.group.id": "job",
    "kafka.max.partition.fetch.bytes": "5",
    "kafka.security.protocol": "SASL_SSL",
    "kafka.sasl.mechanism": "PLAIN",
    "kafka.ssl.truststore.location": "/x",
}
"""All of them, as Spark documents them, with something that one may say."""

SAME = [name for name in SAID if name in SOURCE_OPTIONS]
REFUSED = [name for name in SAID if name.startswith("kafka.s")]
PASSED = [name for name in SAID if name not in (*SAME, *REFUSED)]
SELECTING = ("subscribe", "subscribePattern", "assign")
ONE_WAY = {"servers": "tcp://127.0.0.1:5558", "subscribe": "orders"}


@pytest.mark.parametrize("name", SAID)
def test_every_option_of_kafka_has_its_row(name):
    family = re.sub(r"^(kafka\.(?:security|sasl|ssl))\..*|^kafka\.max.*", r"\1", name)
    written = {"": "`kafka.*` else"}.get(family, f"`{family}.*`" if family != name else f"`{name}`")
    (row,) = (line for line in KAFKA.splitlines() if line.startswith("|") and written in line)
    said = row.split("|")[2].strip()
    kind = "the same" if name in SAME else "refused" if name in REFUSED else "passed over"
    assert said.startswith(kind)


ROWS = dict(re.findall(r"^\| (.*?) \| (.*?) \|$", KAFKA, re.MULTILINE)[1:])

SHOWN_BY = {
    "`kafka.bootstrap.servers`": (
        "test_bootstrap.py",
        "test_a_gateway_says_where_its_cluster_is",
    ),
    "`topic`": ("test_options.py", "test_options_of_a_sink"),
    "columns `key`, `value`, `topic`, `headers`": ("test_writer.py", "test_rows_become_records"),
    "partitioning by key": ("test_partitioning.py", "test_keys_go_where_a_client_of_kafka_sends_"),
    "column `partition`": ("test_writer.py", "test_the_column_partition_is_written_to"),
    "other columns": ("test_writer.py", "test_columns_that_are_none_of_a_record_are_left_out"),
}
"""What rows say that are no options of a source, and the tests that hold them to it."""


def test_every_row_has_a_test():
    options = {name for row in ROWS for name in re.findall(r"`([\w.*]+)`", row)}
    families = re.compile(r"(kafka\.(?:security|sasl|ssl)\.|kafka\.(?=max)).*")
    named = {name for row in SHOWN_BY for name in re.findall(r"`([\w.]+)`", row)}
    assert options - named == {families.sub(r"\1*", name) for name in SAID}
    assert [row for row in ROWS if "`" not in row] == [row for row in SHOWN_BY if "`" not in row]
    tests = Path(__file__).parent / "dafka" / "spark"
    for row, (file, name) in SHOWN_BY.items():
        assert row in ROWS
        assert f"def {name}" in (tests / file).read_text()


@pytest.mark.parametrize("name", SAME)
def test_what_is_said_to_be_the_same_is_taken(name):
    given = {"servers": ONE_WAY["servers"]} if name in SELECTING else ONE_WAY
    assert source_options({**given, name: SAID[name]})


@pytest.mark.parametrize("name", REFUSED)
def test_what_is_said_to_be_refused_is(name):
    with pytest.raises(MisuseError, match=re.escape(f"option '{name}'")):
        source_options({**ONE_WAY, name: SAID[name]})


@pytest.mark.parametrize("name", PASSED)
def test_what_is_said_to_be_passed_over_is_with_a_warning(name, caplog):
    with_it = source_options({**ONE_WAY, name: SAID[name]}, stream=True)
    assert with_it == source_options(ONE_WAY, stream=True)
    assert name.lower() in caplog.text
    sink = {"servers": ONE_WAY["servers"], "towers": ONE_WAY["servers"]}
    assert sink_options({**sink, name: SAID[name]}, stream=True) == sink_options(sink, stream=True)


@pytest.mark.slow
def test_the_example_runs(spark, tmp_path, free_ports, monkeypatch, capsys):
    example = re.search(r"```python\n(.*?)```", PAGE, re.DOTALL)
    assert example is not None
    port = free_ports(3)
    tower, query = f"tcp://127.0.0.1:{port}", f"tcp://127.0.0.1:{port + 2}"
    file = tmp_path / "one.yaml"
    file.write_text(
        f"version: 1\nname: one\ntree: cluster-1\nclusters: [{{name: cluster-1, id: 1, "
        f'towers: ["{tower}"], stores: [{{query: "{query}", data: "x"}}]}}]'
    )
    code = example[1].replace("config/four-clusters.yaml", str(file))
    code = code.replace("data/checkpoint", str(tmp_path / "checkpoint"))
    monkeypatch.setattr(session, "open_session", lambda *_: spark)
    with Tower(tower), Store(tmp_path / "store", tower, query=query):
        with Producer(tower) as producer:
            producer.send("orders", b"hello", key=b"k")
        exec(compile(code, "docs/spark.md", "exec"), {})
        assert f"|{producer.address[:17]}...|    1|" in capsys.readouterr().out
        with StoreClient(query) as client:
            (shouted,) = client.heads("shouted")
            (batch,) = client.read(Partition(*shouted), 0)
    assert b"HELLO" in batch.content
