from __future__ import annotations

import os
import pty
import subprocess
import sys
from contextlib import closing
from uuid import UUID

import pytest

from dafka.cli.topics import PARTITIONS, PartitionRow
from dafka.gateway.broker import Topic
from dafka.gateway.catalog import CATALOG, TopicState, encoded_state
from dafka.gateway.share import batches_of
from dafka.model import Partition
from dafka.node.mirror import Mirror
from dafka.node.producer import Producer
from dafka.storage.lmdb_log import Durability, LmdbLog
from tests.support.batches import make_batch, unreadable_from
from tests.support.json_outputs import rows_of
from tests.support.small_cluster import SmallCluster

pytestmark = [pytest.mark.net, pytest.mark.slow]

ODD = Partition("odd", "EF" * 16)
STRANGE = ("[red]x[/red]", "é", b"\xff".decode("utf-8", "surrogateescape"))


@pytest.fixture(scope="module")
def filled(tmp_path_factory, free_ports, reopened):
    """Two partitions of one topic, topics with strange names, a record nobody can read.

    And what a controller has said of a topic that Kafka clients have altered.
    """
    cluster = SmallCluster(tmp_path_factory.mktemp("topics"), free_ports, reopened)
    log = LmdbLog(cluster.data(), durability=Durability.OS)
    altered = Topic("kafka", 3, UUID(int=7), {"retention.ms": "60000"})
    said = [encoded_state(TopicState(altered, change=2))]
    log.append(batches_of(Partition(CATALOG, "A" * 32), 0, said))
    log.close()
    with closing(cluster):
        cluster.start_tower()
        cluster.store(deletable=True)
        for records in (15, 3):
            with Producer(cluster.endpoint) as producer:
                for at in range(records):
                    producer.send("orders", b"v", timestamp_ms=1_700_000_000_000 + at)
        with Producer(cluster.endpoint) as producer:
            for topic in (*STRANGE, "gone"):
                producer.send(topic, b"[blue]y[/blue]")
        with closing(Mirror(cluster.endpoint)) as mirror:
            mirror.publish(unreadable_from(make_batch([b"0", b"1"], partition=ODD), 1), 10)
            mirror.flush(10)
        yield cluster


@pytest.fixture
def told(filled, dafka):
    """A function that returns what a command prints that does what it should."""

    def told(*words):
        done = dafka("topics", *words, "--store", filled.query)
        assert (done.returncode, done.stderr) == (0, b""), done.stderr.decode()[-500:]
        return done.stdout.decode("utf-8", "surrogateescape")

    return told


def test_topics_with_their_partitions_and_records(told):
    found = {row["topic"]: row for row in rows_of(told("--json"))}
    assert all(row.pop("bytes") > 50 for row in found.values())  # the envelope and the batch's head
    assert (
        found.items()
        >= {
            topic: {"topic": topic, "partitions": number, "records": records}
            for topic, number, records in [
                *(("orders", 2, 18), ("odd", 1, 2)),
                *((topic, 1, 1) for topic in STRANGE),
            ]
        }.items()
    )


def test_topics_as_a_table_with_names_as_they_are(told):
    text = told()
    assert "[red]x[/red]" in text
    assert "é" in text
    assert "18" in text


def test_the_partitions_of_a_topic_and_how_old_they_are(told):
    one, other = sorted(
        rows_of(told("describe", "orders", "--json")), key=lambda row: row["records"]
    )
    assert (other["first"], other["end"], other["records"]) == (0, 15, 15)
    assert (other["oldest_ms"], other["newest_ms"]) == (1_700_000_000_000, 1_700_000_000_014)
    assert (one["records"], one["newest_ms"]) == (3, 1_700_000_000_002)
    text = told("describe", "orders")
    assert "2023-11-14 22:13:20" in text
    assert f"orders: 2 partitions, 18 records, {one['bytes'] + other['bytes']} B" in text
    (row,) = (row for row in rows_of(told("--json")) if row["topic"] == "orders")
    assert row["bytes"] == one["bytes"] + other["bytes"]
    assert other["bytes"] > one["bytes"] > 50


def test_what_cannot_be_read_has_no_time(filled, dafka):
    done = dafka("topics", "describe", "odd", "--store", filled.query, "--json")
    (row,) = rows_of(done.stdout.decode())
    assert (done.returncode, row["records"], row["newest_ms"]) == (0, 2, None)
    assert row["oldest_ms"] is not None


def test_a_time_that_is_no_day_is_shown_as_it_is():
    row = PartitionRow("t", "A", 0, 1, 1, None, 2**63 - 1, 0)
    oldest, newest = (column.value(row) for column in PARTITIONS[-2:])
    assert (oldest, newest) == (f"{2**63 - 1:,} ms", "1970-01-01 00:00:00")


def test_a_topic_is_dropped_only_if_that_is_meant(filled, told):
    assert "nothing is dropped yet" in told("delete", "gone")
    (shown,) = rows_of(told("delete", "gone", "--json"))
    assert shown == {
        "topic": "gone",
        "dropped": False,
        "stores": [{"store": filled.query, "partitions": 1, "records": 1}],
    }
    assert "gone" in told()
    assert told("delete", "gone", "--yes") == f"dropped 1 record of 'gone' from {filled.query}\n"
    assert "gone" not in told()


@pytest.mark.parametrize(("answer", "left"), [("n", 1), ("y", 0)])
def test_at_a_terminal_it_is_asked(filled, told, answer, left):
    topic = f"asked-{answer}"
    with Producer(filled.endpoint) as producer:
        producer.send(topic, b"v")
    ours, theirs = pty.openpty()
    words = [sys.executable, "-m", "dafka", "topics", "delete", topic, "--store", filled.query]
    os.write(ours, f"{answer}\n".encode())
    done = subprocess.run(
        words, stdin=theirs, capture_output=True, timeout=60, text=True, check=False
    )
    os.close(theirs)
    os.close(ours)
    assert done.returncode == 0, done.stderr
    assert "to be dropped of" in done.stdout
    assert [row["topic"] for row in rows_of(told("--json"))].count(topic) == left


def test_what_is_set_of_a_topic_and_by_whom(told, tmp_path):
    found = {row["setting"]: row["value"] for row in rows_of(told("config", "kafka", "--json"))}
    assert found == {
        "partitions": "3",
        "stage": "live",
        "id": str(UUID(int=7)),
        "retention.ms": "60000",
    }
    assert "nothing is set of 'orders'" in told("config", "orders")


def test_a_topology_file_says_how_long_a_topic_is_kept_and_where(told, tmp_path):
    file = tmp_path / "kept.yaml"
    file.write_text(
        "version: 1\nname: kept\nclusters:\n"
        "  - {name: a, id: 1, towers: ['tcp://[::1]:1'],\n"
        "     stores: [{query: 'tcp://[::1]:3', data: a}]}\n"
        "  - {name: b, id: 2, towers: ['tcp://[::1]:5'],\n"
        "     stores: [{query: 'tcp://[::1]:7', data: b}]}\n"
        "tree: {level: 1, children: [a, b]}\n"
        "retention: [{topics: 'ord*', age_s: 60}]\n"
    )
    found = rows_of(told("config", "orders", "--json", "--topology", str(file)))
    assert [(row["setting"], row["value"], row["said_by"]) for row in found] == [
        ("clusters", "a, b", "kept.yaml"),
        ("copied", "yes", "kept.yaml"),
        ("retention age_s", "60", "kept.yaml"),
    ]


def test_a_topology_file_that_cannot_be_used_is_refused(filled, refused):
    words = ("topics", "config", "orders", "--topology", "none.yaml", "--store", filled.query)
    assert "cannot read 'none.yaml'" in refused(2, *words)


@pytest.mark.parametrize("command", ["describe", "config"])
def test_a_topic_that_is_not_there_is_refused(filled, refused, command):
    message = refused(2, "topics", command, "nothing", "--store", filled.query)
    assert "'nothing'" in message
    assert "dafka topics" in message
