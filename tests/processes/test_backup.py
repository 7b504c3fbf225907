"""The restore drill: a disk is lost under load, and comes back from a backup of before."""

from __future__ import annotations

import json
import shutil
import signal
import subprocess
import sys

import pytest

from dafka import Producer
from distributor.loading import load
from tests.processes.conftest import orders_at, run_distributor, wait_until
from tests.support.topology_processes import TopologyProcesses

pytestmark = [pytest.mark.net, pytest.mark.slow]

TOPOLOGY = """
version: 1
name: drill
links: {{failover_after_ms: 5000, repair_after_ms: 2000}}
clusters:
  - {{name: c1, id: 1, towers: ["{c1}"], stores: [{{query: "{q1}", data: "{directory}/c1"}}]}}
  - {{name: c2, id: 2, towers: ["{c2}"], stores: [{{query: "{q2}", data: "{directory}/c2"}}]}}
tree: {{level: 1, children: [c1, c2]}}
"""
STORE = "c1-store-1"


def dafka(*words):
    done = subprocess.run(
        [sys.executable, "-m", "dafka", *map(str, words), "--json"],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


@pytest.fixture
def places(tmp_path, first_port):
    names = {"c1": 0, "q1": 2, "c2": 3, "q2": 5}
    found = {name: f"tcp://127.0.0.1:{first_port + port}" for name, port in names.items()}
    (tmp_path / "topology.yaml").write_text(TOPOLOGY.format(**found, directory=tmp_path))
    return found


def test_a_disk_that_is_lost_under_load_comes_back_from_a_backup(tmp_path, places, traffic_at):
    file = tmp_path / "topology.yaml"
    topology = load(file)
    with TopologyProcesses(file, tmp_path / "logs") as processes, Producer(places["c1"]) as own:
        processes.start(*processes.names())
        others = traffic_at(places["c2"])
        own.send_many("orders", [b"before"] * 1_000)
        own.flush(60)
        there = ("store", "backup", tmp_path / "c1", "--to", tmp_path / "backup")
        made = dafka(*there)
        assert made["records"] >= 1_000
        own.send_many("orders", [b"since"] * 1_000)
        own.flush(60)
        code, said, complained = run_distributor("wait", file, "--timeout", 60)
        assert code == 0, said + complained

        processes.stop(STORE, signal.SIGKILL)
        shutil.rmtree(tmp_path / "c1")
        own.send_many("orders", [b"meanwhile"] * 1_000)
        back = dafka("store", "restore", (tmp_path / "backup").as_uri(), tmp_path / "c1")
        assert back["store_before"] == made["store"]
        assert back["records"] == made["records"]
        processes.start(STORE)
        own.flush(60)
        others.finish()

        sent = 3_000 + others.sent
        for name in ("c1", "c2"):
            wait_until(
                lambda name=name: sum(orders_at(topology, name).values()) == sent,
                f"all of {sent:,} records on {name}",
                evidence=lambda: processes.log(STORE)[-2_000:],
            )
        code, said, complained = run_distributor("verify", file, "--deep", "--json")
        assert code == 0, said + complained
        for name in reversed(processes.names()):  # links before what they ask
            assert processes.stop(name) == 0, processes.log(name)
    report = dafka("store", "check", tmp_path / "c1")
    assert (report["problems"], report["gaps"]) == ([], [])
