"""Comparing and repairing clusters whose stores are real processes, with faults put into logs."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from contextlib import contextmanager
from urllib.error import URLError
from urllib.request import urlopen

import pytest
from prometheus_client.parser import text_string_to_metric_families

from dafka.model import Batch, Partition
from dafka.records.batch import BatchBuilder, enclosed
from dafka.records.envelope import FRESH, Envelope
from dafka.storage.lmdb_log import Durability, LmdbLog
from distributor.local.processes import processes_of
from topology import load, plan
from topology.processes import ProcessKind

pytestmark = [pytest.mark.net, pytest.mark.slow]

GOOD, SHORT, LONG, OTHER = (Partition("orders", letter * 32) for letter in "ABCD")
COPIED = Envelope(origin=1, copy_flags=0b100)


def batches(partition, count, envelope=FRESH, changed=()):
    """Records in batches of ten, some with another value."""
    for first in range(0, count, 10):
        builder = BatchBuilder(1 << 16)
        for number in range(first, first + 10):
            value = b"changed" if number in changed else b"%d" % number
            builder.append(number, None, value, ())
        yield Batch(partition, first, 10, enclosed(builder.build(), first, envelope))


def write(topology, number, *parts):
    """Write straight into a cluster's log, as no peer could."""
    log = LmdbLog(topology.clusters[number - 1].stores[0].data, durability=Durability.OS)
    for part in parts:
        log.append(list(part))
    log.close()


@contextmanager
def stores(file, tmp_path):
    """Towers and stores of the file, without the distributors that would mend everything."""
    wanted = [
        one
        for one in processes_of(plan(load(file)), file)
        if one.kind is not ProcessKind.DISTRIBUTOR
    ]
    running = []
    try:
        for process in wanted:
            with (tmp_path / f"{process.name}.log").open("wb") as output:
                running.append(subprocess.Popen(process.command, stderr=output))
        yield
    finally:
        for process in running:
            process.send_signal(signal.SIGTERM)
        assert [process.wait(120) for process in running] == [0] * len(running)


def verify(file, *words):
    done = subprocess.run(
        [sys.executable, "-m", "distributor", "verify", str(file), *words, "--json"],
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
    )
    assert done.stdout, done.stderr
    return done.returncode, json.loads(done.stdout)


def gauge(port, name, cluster):
    try:
        with urlopen(f"http://127.0.0.1:{port}/metrics", timeout=60) as page:
            text = page.read().decode()
    except URLError:
        return None
    for family in text_string_to_metric_families(text):
        for sample in family.samples:
            if sample.name == name and sample.labels.get("cluster") == cluster:
                return sample.value
    return None


def test_faults_in_a_log_are_found_and_what_is_missing_is_brought(
    topology_file, tmp_path, wait_until
):
    topology = load(topology_file)
    for number in range(1, 5):
        # c2 lacks the end of one, c3 has another history of one, c4 lacks a whole partition.
        envelope = FRESH if number == 1 else COPIED
        parts = [
            batches(GOOD, 50, envelope),
            batches(SHORT, 20 if number == 2 else 100, envelope),
            batches(OTHER, 40, envelope, changed=[17, 18] if number == 3 else []),
        ]
        if number < 4:
            parts.append(batches(LONG, 1_000, envelope))
        write(topology, number, *parts)
    metrics = topology.metrics.first_port + 19
    with stores(topology_file, tmp_path):
        wait_until(lambda: verify(topology_file, "--settle", "0")[0] == 1, "all answer")
        code, deep = verify(topology_file, "--deep", "--settle", "0")
        assert code == 3
        found = [
            (one["kind"], one["address"][0], one["cluster"], one["first"], one["last"])
            for one in deep["differences"]
        ]
        assert found == [
            ("behind", "B", "c2", 20, 99),
            ("behind", "C", "c4", 0, 999),
            ("differs", "D", "c3", 17, 18),
        ]
        code, repaired = verify(topology_file, "--repair", "--settle", "0")
        assert (code, repaired["repaired"]) == (3, 1_080)
        assert [one["kind"] for one in repaired["differences"]] == ["differs"]
        assert set(repaired["clusters"].values()) == {1_190}

        words = ("--deep", "--watch", "--interval", "1", "--metrics", f"127.0.0.1:{metrics}")
        audit = subprocess.Popen(
            [sys.executable, "-m", "distributor", "verify", str(topology_file), *words, "--json"],
            stdout=subprocess.PIPE,
            text=True,
        )
        try:
            name = "distributor_audit_differing_partitions"
            wait_until(lambda: gauge(metrics, name, "c3") == 1, "the audit tells")
            assert gauge(metrics, name, "c1") == 0
            assert gauge(metrics, "distributor_audit_missing_records", "c4") == 0
        finally:
            audit.send_signal(signal.SIGINT)
            out, _ = audit.communicate(timeout=120)
        assert audit.returncode == 0
        assert [one["kind"] for one in json.loads(out.splitlines()[0])["differences"]] == [
            "differs"
        ]
