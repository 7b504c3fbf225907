from __future__ import annotations

import json
import subprocess
import sys
from contextlib import closing
from io import StringIO
from pathlib import Path

import pytest
from rich.console import Console

from dafka.cli.queries import RECORDS
from dafka.model import Partition, Record
from dafka.node.mirror import Mirror
from dafka.node.producer import Producer
from dafka.wire.fields import SEQUENCE_MAX
from tests.support.batches import make_batch, unreadable_from
from topology.output import table

pytestmark = [pytest.mark.net, pytest.mark.slow]

ODD = Partition("odd", "EF" * 16)
STRANGE = ("[red]x[/red]", "é", b"\xff".decode("utf-8", "surrogateescape"))


@pytest.fixture(scope="module")
def filled(cluster):
    """Two partitions of one topic, topics with strange names, and a record nobody can read."""
    addresses = []
    for records in (15, 3):
        with Producer(cluster.tower) as producer:
            for number in range(records):
                producer.send("orders", f"value-{number}".encode(), key=b"k\xff")
            addresses.append(producer.address)
    with Producer(cluster.tower) as producer:
        for topic in STRANGE:
            producer.send(topic, b"[blue]y[/blue]")
    with closing(Mirror(cluster.tower)) as mirror:
        mirror.publish(unreadable_from(make_batch([b"0", b"1"], partition=ODD), 1), 10)
        mirror.flush(10)
    cluster.addresses = addresses
    return cluster


def test_peek_reads_some_records_of_each_partition(filled, dafka):
    done = dafka("peek", "orders", "--store", filled.query, "--json", "--start", "1")
    rows = [json.loads(line) for line in done.stdout.splitlines()]
    by_address = {
        address: [row["sequence"] for row in rows if row["address"] == address]
        for address in filled.addresses
    }
    assert list(by_address.values()) == [list(range(1, 11)), [1, 2]]
    assert rows[0]["key"] == {"base64": "a/8="}


def test_peek_passes_over_what_nobody_can_read(filled, dafka):
    done = dafka("peek", ODD.topic, "--store", filled.query, "--json")
    assert done.returncode == 0
    assert [json.loads(line)["sequence"] for line in done.stdout.splitlines()] == [0]
    assert f"topic=odd address={ODD.address} first=1 last=1".encode() in done.stderr


def test_peek_at_one_partition_by_the_beginning_of_its_address(filled, dafka):
    done = dafka(
        *("peek", "orders", "--store", filled.query, "--json", "--count", "3"),
        *("--start", "12", "--address", filled.addresses[0][:12]),
    )
    rows = [json.loads(line) for line in done.stdout.splitlines()]
    assert [row["value"] for row in rows] == ["value-12", "value-13", "value-14"]


@pytest.mark.parametrize("topic", STRANGE[:2])
def test_peek_shows_names_and_values_as_they_are(filled, dafka, topic):
    done = dafka("peek", topic, "--store", filled.query)
    assert done.returncode == 0
    assert topic in done.stdout.decode()
    assert "[blue]y[/blue]" in done.stdout.decode()
    assert "0000" in done.stdout.decode()


def test_peek_at_a_topic_whose_name_is_not_utf_8(filled, dafka):
    for extra in ((), ("--json",)):
        done = dafka("peek", STRANGE[2], "--store", filled.query, *extra)
        assert done.returncode == 0, done.stderr.decode()[-500:]


def test_a_start_behind_the_end_shows_nothing(filled, dafka):
    done = dafka("peek", "orders", "--store", filled.query, "--json", "--start", "100")
    assert (done.returncode, done.stdout) == (0, b"")


def test_the_largest_numbers_are_no_trouble(filled, dafka):
    words = ("peek", "orders", "--store", filled.query, "--json", "--count", str(SEQUENCE_MAX))
    for start, rows in ((0, 18), (SEQUENCE_MAX, 0)):
        done = dafka(*words, "--start", str(start))
        assert (done.returncode, len(done.stdout.splitlines())) == (0, rows), done.stderr


@pytest.mark.parametrize("extra", [(), ("--json",)])
def test_a_full_disk_behind_the_output_is_one_line(filled, extra):
    words = [sys.executable, "-m", "dafka", "peek", "orders", "--store", filled.query, *extra]
    with Path("/dev/full").open("wb") as full:
        done = subprocess.run(words, stdout=full, stderr=subprocess.PIPE, check=False, timeout=60)
    assert done.returncode == 1
    assert done.stderr.startswith(b"dafka: cannot write to standard output: No space left")
    assert len(done.stderr.splitlines()) == 1


def test_a_topic_that_is_not_there_is_refused(filled, refused):
    message = refused(2, "peek", "nothing", "--store", filled.query)
    assert "'nothing'" in message
    assert "dafka topics" in message


def test_an_address_that_is_not_there_is_refused(filled, refused):
    refused(2, "peek", "orders", "--store", filled.query, "--address", "nobody")


@pytest.mark.parametrize("words", [("holes",), ("peek", "orders")])
def test_a_store_that_does_not_answer_has_exit_code_1(refused, words):
    nobody = "tcp://127.0.0.1:9"
    assert nobody in refused(1, *words, "--store", nobody, "--timeout", "0.1")


@pytest.mark.parametrize(
    "words",
    [
        *(("--count", "0"), ("--count", "many"), ("--count", "1" + 21 * "0")),
        *(("--start", "-1"), ("--start", "1" + 21 * "0")),
    ],
)
def test_a_number_out_of_range_is_refused(dafka, words):
    done = dafka("peek", "orders", *words)
    assert done.returncode == 2
    assert b"Traceback" not in done.stderr


def test_peek_shows_an_address_that_is_markup_as_it_is():
    record = Record("orders", "[/x]\x1b[2J", 0, 0, None, b"", (), 0, 0)
    console = Console(file=StringIO(), width=100)
    console.print(table(RECORDS, [record], "orders"))
    assert "[/x]\\x1b" in console.file.getvalue()
