from __future__ import annotations

import signal
import subprocess
import sys
import urllib.request

import pytest

from dafka.cli.store import retention_of, slots_of
from dafka.errors import MisuseError
from dafka.model import ALL_SLOTS, Slots
from dafka.node.producer import Producer
from dafka.query.client import StoreClient
from dafka.storage.retention import HoldBounds, Retention

pytestmark = [pytest.mark.net, pytest.mark.slow]


@pytest.fixture
def serve():
    """A function that starts a command and waits until it says that it is up."""
    started = []

    def serve(*words):
        running = subprocess.Popen(
            [sys.executable, "-m", "dafka", *words], stderr=subprocess.PIPE, text=True
        )
        started.append(running)
        line = running.stderr.readline()
        assert f"{words[0]} is up" in line, line + running.stderr.read()
        return running

    yield serve
    for running in started:
        if running.poll() is None:
            running.kill()
        running.communicate()


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_tower_and_store_serve_until_a_signal_ends_them(serve, tmp_path, free_ports, number):
    first = free_ports(5)
    tower, query = f"tcp://127.0.0.1:{first}", f"tcp://127.0.0.1:{first + 2}"
    processes = [
        serve("tower", "--endpoint", tower, "--metrics", f"127.0.0.1:{first + 3}"),
        serve(
            *("store", "--data", str(tmp_path / "data"), "--tower", tower, "--query", query),
            *("--durability", "os", "--number", "1", "--metrics", f"127.0.0.1:{first + 4}"),
        ),
    ]
    with Producer(tower) as producer:
        producer.send("orders", b"x")
    with StoreClient(query) as client:
        assert client.topics() == ["orders"]
    for port, series in ((first + 3, b"dafka_peers"), (first + 4, b'dafka_build_info{version="')):
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=60) as answer:
            assert series in answer.read()
    for running in processes:
        running.send_signal(number)
    for running in processes:
        _, error = running.communicate(timeout=120)
        assert running.returncode == 0, error
        assert "Traceback" not in error


def test_retention_rules_as_written():
    assert retention_of(["logs-*,age_s=60,bytes=9", "a,b,bytes=1"]) == [
        Retention(topics="logs-*", age_ms=60_000, bytes_max=9),
        Retention(topics="a,b", bytes_max=1),
    ]
    held = ["x,age_s=60,bytes=9,hold_age_s=61,hold_bytes=10", "y,age_s=60,hold_age_s=99"]
    assert retention_of(held) == [
        Retention(
            topics="x", age_ms=60_000, bytes_max=9, hold=HoldBounds(age_ms=61_000, bytes_max=10)
        ),
        Retention(topics="y", age_ms=60_000, hold=HoldBounds(age_ms=99_000)),
    ]


@pytest.mark.parametrize(
    "rule",
    [
        "x,age_s=5,hold_age_s=5",
        "x,bytes=5,hold_age_s=9",
        "x,bytes=5,hold_bytes=4",
        "x,hold_age_s=9",
    ],
)
def test_a_hold_is_above_the_bound_that_it_is_beside(rule):
    with pytest.raises(MisuseError, match="cannot be used"):
        retention_of([rule])


@pytest.mark.parametrize("rule", ["x", "", "x,age_s=0", "x,age_s=-1", ",bytes=1", "x,bytes=1e9"])
def test_a_rule_that_is_none(rule):
    with pytest.raises(MisuseError, match="cannot be used"):
        retention_of([rule])


@pytest.mark.parametrize(
    "pattern",
    [
        "_schemas",
        "_*",
        "__consumer_offsets",
        "__*",
        "_[a-z]*",
        "__ledger",
        "__topics",
        "__catalog",
        "__changes",
    ],
)
def test_no_rule_drops_what_a_cluster_needs_for_ever(pattern):
    with pytest.raises(MisuseError, match="see by themselves what is needed: take the rule out"):
        retention_of([f"{pattern},age_s=3"])
    # Heartbeats are not, nor what an application calls so; and `*` is not for such topics.
    words = [f"{name},age_s=3" for name in ("__heartbeat", "_mine", "*")]
    assert len(retention_of(words)) == 3


def test_a_store_needs_a_directory(dafka):
    done = dafka("store")
    assert done.returncode == 2
    assert b"--data" in done.stderr


def test_a_store_whose_query_port_is_taken_is_refused(cluster, refused, tmp_path):
    words = ("store", "--data", str(tmp_path / "d"), "--tower", cluster.tower)
    assert cluster.query in refused(2, *words, "--query", cluster.query)


def test_a_directory_that_is_a_file_is_refused(cluster, refused, tmp_path, free_ports):
    (tmp_path / "file").write_text("")
    words = ("store", "--data", str(tmp_path / "file"), "--tower", cluster.tower)
    assert "file" in refused(2, *words, "--query", f"tcp://127.0.0.1:{free_ports(1)}")


@pytest.mark.parametrize(
    ("words", "what"),
    [
        (("store", "--data", "{tmp}", "--tower", "here", "--query", "{query}"), "'here'"),
        (("store", "--data", "{tmp}", "--query", "here"), "'here'"),
        (("store", "--data", "{tmp}", "--query", "{query}", "--host", "192.0.2.1"), "192.0.2.1"),
    ],
    ids=range(3),
)
def test_a_mistake_is_one_line_and_exit_code_2(refused, tmp_path, free_ports, words, what):
    query = f"tcp://127.0.0.1:{free_ports(1)}"
    words = [word.format(tmp=tmp_path / "data", query=query) for word in words]
    assert what in refused(2, *words)


@pytest.mark.parametrize("words", [("--durability", "hope"), ("--number", "65536")])
def test_an_unknown_durability_or_cluster_is_refused(dafka, tmp_path, words):
    done = dafka("store", "--data", str(tmp_path), *words)
    assert done.returncode == 2
    assert words[1].encode() in done.stderr
    assert b"Traceback" not in done.stderr


def test_slots_are_read_as_they_are_written():
    assert slots_of("") == ALL_SLOTS
    assert slots_of("0-99,200-4095") == Slots.of([range(100), range(200, 4_096)])
    with pytest.raises(MisuseError, match="--slots cannot be used: '9-3' is no range of slots"):
        slots_of("9-3")
