"""A whole topology as real processes: everything arrives, and survives kill -9 of every kind."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import threading
import time
import urllib.request
from collections import Counter
from pathlib import Path

import pytest

from dafka import Producer
from dafka.query.client import StoreClient
from dafka.records.batch import records_of
from distributor.local.pidfile import find
from distributor.survey import survey
from distributor.verify.compare import verify
from tests.support.topologies import changed
from topology import load

pytestmark = [pytest.mark.net, pytest.mark.slow]


def everything_at(query: str) -> Counter[tuple[str, bytes | None]]:
    """Every record of a store, by topic and value."""
    found: Counter[tuple[str, bytes | None]] = Counter()
    with StoreClient(query) as client:
        for partition, head in client.heads().items():
            for batch in client.scan(partition, 0, head + 1):
                found.update((record.topic, record.value) for record in records_of(batch))
    return found


class Traffic(threading.Thread):
    """A producer on one cluster that sends until told to stop, and remembers what was stored."""

    def __init__(self, name: str, tower: str) -> None:
        super().__init__(name=name, daemon=True)
        self.producer = Producer(tower, linger_ms=5)
        self.sent = 0
        self.stored: list[range] = []
        self._stopping = threading.Event()

    def run(self) -> None:
        while not self._stopping.is_set():
            begin = self.sent
            for number in range(begin, begin + 20):
                future = self.producer.send("orders", f"{self.name}-{number}".encode())
            self.sent += 20
            future.add_done_callback(
                lambda done, records=range(begin, begin + 20): (
                    self.stored.append(records) if done.exception() is None else None
                )
            )
            time.sleep(0.05)

    def finish(self) -> None:
        self._stopping.set()
        self.join(60)
        self.producer.close(60)


def test_kill_9_of_every_kind_of_child_loses_and_repeats_nothing(
    up, topology_file, wait_until, request
):
    topology = load(topology_file)
    wait_until(lambda: all(holding.store for holding in survey(topology, 300)), "all stores answer")
    traffic = [Traffic(cluster.name, cluster.towers[0]) for cluster in topology.clusters]
    for thread in traffic:
        request.addfinalizer(lambda thread=thread: thread.producer.close(0))
        thread.start()
    wait_until(up.is_up, "all processes have begun")
    before = up.children()
    for words in (
        ("dafka store", "c1 "),
        ("distributor run", "c3", "--level 1"),
        ("dafka tower", f"{topology.clusters[1].towers[0]}"),
        ("distributor run", "c1", "--level 3"),
        ("dafka store", "c3 "),
        ("dafka tower", f"{topology.clusters[2].towers[0]}"),
    ):
        time.sleep(0.7)
        up.kill_one(*words)
    time.sleep(1.0)
    for thread in traffic:
        thread.finish()

    sent = sum(thread.sent for thread in traffic)
    assert sent > 1_000, "too little traffic to prove anything"
    # close() has waited for every ACK, so all that was sent is acknowledged.
    assert sum(len(records) for thread in traffic for records in thread.stored) == sent
    wait_until(
        lambda: {holding.records for holding in survey(topology)} == {sent},
        f"all clusters hold {sent} records",
    )
    expected = {
        ("orders", f"{thread.name}-{number}".encode()): 1
        for thread in traffic
        for number in range(thread.sent)
    }
    for cluster in topology.clusters:
        assert everything_at(cluster.stores[0].query) == expected
    verdict = verify(topology, deep=True)
    assert verdict.equal, verdict.differences
    wait_until(lambda: up.children().keys() == before.keys(), "every process runs again")
    after = up.children()
    assert sum(after[command] != before[command] for command in before) == 6

    pids = list(after.values())
    assert up.stop() == 0
    assert not [pid for pid in pids if Path(f"/proc/{pid}").exists()]


def test_status_verify_and_metrics_of_a_running_topology(up, topology_file, wait_until):
    topology = load(topology_file)
    wait_until(lambda: all(holding.store for holding in survey(topology, 300)), "all stores answer")
    with Producer(topology.clusters[0].towers[0]) as producer:
        for number in range(500):
            producer.send("orders", str(number).encode(), key=b"k")
    wait_until(lambda: {holding.records for holding in survey(topology)} == {500}, "500 everywhere")

    def run(*words: str) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-m", "distributor", *words]
        return subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)

    status = run("status", str(topology_file), "--json")
    assert status.returncode == 0
    facts = json.loads(status.stdout)
    assert [cluster["records"] for cluster in facts["clusters"]] == [500] * 4
    assert len(facts["links"]) == 8
    assert all(link["lag_records"] == 0 and link["error"] == "" for link in facts["links"])

    verdict = run("verify", str(topology_file), "--json")
    assert verdict.returncode == 0
    assert json.loads(verdict.stdout)["equal"] is True

    metrics = topology.metrics
    assert metrics is not None
    texts = []
    for port in range(metrics.first_port, metrics.first_port + 16):
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=60) as answer:
            texts.append(answer.read().decode())
    everything = "\n".join(texts)
    for series in (
        'dafka_records_total{direction="in",role="store"}',
        'dafka_bytes_total{direction="out",role="link"}',
        'dafka_batches_total{direction="in",role="link"}',
        "dafka_peers{",
        "dafka_store_head_records{",
        "dafka_store_append_seconds_bucket{",
        'distributor_lag_records{level="3",source="c1",target="c3"} 0.0',
        'distributor_lag_seconds{level="3",source="c1",target="c3"} 0.0',
        'distributor_hop_seconds_count{level="3",source="c1",target="c3"}',
        'distributor_records_total{level="3",result="forwarded",source="c1",target="c3"} 500.0',
    ):
        assert series in everything, series

    up.kill_one("distributor run", "c1", "--level 1")
    assert up.stop() == 0
    unreachable = run("status", str(topology_file))
    assert unreachable.returncode == 1
    assert "cannot reach" in unreachable.stdout
    assert run("verify", str(topology_file)).returncode == 4


def test_the_demo_on_a_slice_proves_itself_twice(topology_file, tmp_path):
    for total in (2_000, 4_000):
        done = subprocess.run(
            [
                *(sys.executable, "-m", "distributor", "demo", str(topology_file)),
                *("--rows", "1000", "--logs", str(tmp_path / "logs")),
            ],
            capture_output=True,
            text=True,
            timeout=100,
            check=False,
        )
        assert done.returncode == 0, done.stdout + done.stderr
        assert f"{total:,}" in done.stdout
        assert "equal:" in done.stdout
        for flags in ("0000", "0001", "0100", "0101"):
            assert flags in done.stdout
        assert "all 16 processes stopped" in done.stdout


@pytest.fixture
def two_clusters(topology_file):
    """To start six processes where sixteen show nothing more."""
    changed(topology_file, 2)


def test_a_hangup_starts_again_what_the_file_changes_and_a_wrong_file_changes_nothing(
    two_clusters, up, topology_file, tmp_path, wait_until
):
    def told(what):
        wait_until(lambda: what in (tmp_path / "up.txt").read_text(), what)

    def hang_up(text):
        topology_file.write_text(text)
        up.process.send_signal(signal.SIGHUP)

    def are_up():
        logs = [*(tmp_path / "logs").glob("*-level-*.log")]
        return len(logs) == 2 and all("link is up" in log.read_text() for log in logs)

    wait_until(are_up, "all links have read the file")
    topology = load(topology_file)
    before, right = up.children(), topology_file.read_text()
    hang_up(right + "version: 9\n")
    told("nothing is changed")
    assert up.children() == before
    hang_up(right + "topics: {include: [orders]}\n")
    told("started again")
    after = up.children()
    assert after.keys() == before.keys()
    assert {command for command in before if after[command] != before[command]} == {
        command for command in before if "distributor run" in command
    }
    for topic in ("other", "orders"):
        with Producer(topology.clusters[0].towers[0]) as producer:
            producer.send(topic, b"x")
    changed = load(topology_file)
    wait_until(lambda: {one.records for one in survey(changed)} == {1}, "orders everywhere")
    with StoreClient(topology.clusters[1].stores[0].query) as client:
        assert client.topics() == ["orders"]
    assert up.stop() == 0


def test_a_second_one_beside_it_is_refused_and_leaves_it_alone(
    two_clusters, up, topology_file, tmp_path, wait_until
):
    logs = tmp_path / "logs"
    wait_until(up.is_up, "all processes have begun")
    before = up.children()
    as_process = f"as process {up.process.pid}"
    for command, where, told in (
        ("up", logs, as_process),
        ("demo", logs, as_process),
        ("drill", logs, as_process),
        ("up", tmp_path / "other-logs", "is taken: is 'test' up already?"),
    ):
        done = subprocess.run(
            [
                *(sys.executable, "-m", "distributor", command, str(topology_file)),
                *("--logs", str(where)),
            ],
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
        assert done.returncode == 2
        assert told in done.stderr
        assert find(logs).pid == up.process.pid
        assert up.children() == before
    assert (tmp_path / "up.txt").read_text() == f"6 processes are up, logs in {logs}\n"
    assert up.stop() == 0
    assert not (logs / "up.json").exists()
