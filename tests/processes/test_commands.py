"""`--wire` and `--content`, and deleting a topic, as somebody at a terminal does it."""

from __future__ import annotations

import json
import signal
import subprocess
import sys

import pytest

from tests.support.commands import run_dafka

pytestmark = [pytest.mark.net, pytest.mark.slow]


class Terminal:
    """A cluster of processes, and commands at it."""

    def __init__(self, first, directory):
        self.tower, self.query = f"tcp://127.0.0.1:{first}", f"tcp://127.0.0.1:{first + 2}"
        self._directory = directory
        self._running = []

    def started(self, *words):
        process = subprocess.Popen(
            [sys.executable, "-m", "dafka", *words], stderr=subprocess.PIPE, text=True
        )
        self._running.append(process)
        return process

    def cluster(self, *of_store):
        self.started("tower", "--endpoint", self.tower)
        data = str(self._directory / "store")
        where = ("--data", data, "--tower", self.tower, "--query", self.query)
        self.started("store", *where, *of_store)

    def run(self, *words, given=""):
        done = run_dafka(*words, given=given.encode(), COLUMNS="200", NO_COLOR="1")
        done.stdout, done.stderr = done.stdout.decode(), done.stderr.decode()
        return done

    def produced(self, *words, given):
        done = self.run("produce", "--tower", self.tower, *words, given=given)
        assert done.returncode == 0, done.stderr

    def consumed(self, topic, count, *words):
        """What a consumer that reads from the beginning prints."""
        options = ("--tower", self.tower, "--from-beginning", "--max", str(count))
        done = self.run("consume", topic, *options, "--timeout", "20", *words)
        assert done.returncode == 0, done.stderr
        return done.stdout.splitlines()

    def close(self):
        for process in self._running:
            process.send_signal(signal.SIGINT)
        for process in self._running:
            process.communicate(timeout=120)


@pytest.fixture
def terminal(free_ports, tmp_path):
    terminal = Terminal(free_ports(3), tmp_path)
    yield terminal
    terminal.close()


def test_all_contents_in_the_dialect_of_the_c_implementation(terminal):
    wire = ("--wire", "libdafka")
    terminal.cluster(*wire)
    for content, key in (("raw", None), ("classic", "k"), ("batches", "k")):
        line = json.dumps({"value": content, "key": key}) + "\n"
        terminal.produced("orders", "--json", "--content", content, *wire, given=line)
    rows = [json.loads(line) for line in terminal.consumed("orders", 3, "--json", *wire)]
    assert sorted((row["value"], row["key"]) for row in rows) == [
        ("batches", "k"),
        ("classic", "k"),
        ("raw", None),
    ]


def test_raw_and_classic_in_our_own_dialect(terminal):
    terminal.cluster()
    for content in ("raw", "classic"):
        terminal.produced("orders", "--content", content, given=f"{content}\n")
    assert sorted(terminal.consumed("orders", 2)) == ["classic", "raw"]


@pytest.mark.parametrize(
    ("words", "complaint"),
    [
        (("produce", "orders", "--content", "soup"), "content 'soup' is not known"),
        (("produce", "orders", "--wire", "telex"), "wire 'telex' is not known"),
        (("consume", "orders", "--wire", "telex"), "wire 'telex' is not known"),
        (("store", "--data", "d", "--wire", "telex"), "wire 'telex' is not known"),
    ],
)
def test_what_is_not_known_is_refused_in_one_line(
    terminal, tmp_path, monkeypatch, words, complaint
):
    monkeypatch.chdir(tmp_path)
    done = terminal.run(*words, "--tower", terminal.tower)
    assert done.returncode == 2
    (line,) = done.stderr.splitlines()
    assert complaint in line
    assert "rfc46 or libdafka" in line or "batches, classic or raw" in line
    assert not list(tmp_path.iterdir())  # refused before anything was made


def test_a_topic_is_deleted_where_that_is_allowed(terminal):
    terminal.cluster("--allow-delete")
    terminal.produced("orders", given="1\n2\n3\n")
    terminal.produced("others", given="4\n")
    at = ("--store", terminal.query)
    told = terminal.run("topics", "delete", "orders", *at).stdout
    assert "nothing is dropped yet: give --yes" in told
    assert "orders" in terminal.run("topics", *at).stdout
    done = terminal.run("topics", "delete", "orders", *at, "--yes", "--json")
    assert json.loads(done.stdout)["stores"] == [
        {"store": terminal.query, "partitions": 1, "records": 3}
    ]
    assert "others" in (table := terminal.run("topics", *at).stdout)
    assert "orders" not in table
    done = terminal.run("topics", "delete", "orders", *at, "--yes")
    assert done.stdout == f"dropped 0 records of 'orders' from {terminal.query}\n"
    # Producers go on behind it.
    terminal.produced("orders", given="5\n")
    assert terminal.consumed("orders", 1) == ["5"]


def test_a_topic_is_not_deleted_where_that_is_not_allowed(terminal):
    terminal.cluster()
    terminal.produced("orders", given="1\n")
    at = ("--store", terminal.query)
    done = terminal.run("topics", "delete", "orders", *at, "--yes")
    assert done.returncode != 0
    (line,) = done.stderr.splitlines()
    assert "not started to allow that" in line
    assert terminal.run("topics", "delete", "", *at, "--yes").returncode == 2
    assert "orders" in terminal.run("topics", *at).stdout
