"""`distributor demo --kafka` at a small size, as `make kafka-demo` runs it."""

from __future__ import annotations

import re
import subprocess
import sys

import pytest
import yaml

pytestmark = [pytest.mark.net, pytest.mark.slow]

ROWS = 400


@pytest.fixture
def declared(topology_file):
    """The topology, with a gateway on each cluster."""
    topology = yaml.safe_load(topology_file.read_text())
    for cluster in topology["clusters"]:
        tower = int(cluster["towers"][0].rpartition(":")[2])
        cluster["gateways"] = [{"listen": f"127.0.0.1:{tower + 4}"}]
    topology_file.write_text(yaml.safe_dump(topology))
    return topology_file


def demo(file, logs):
    return subprocess.run(
        [
            *(sys.executable, "-m", "distributor", "demo", str(file), "--kafka"),
            *("--rows", str(ROWS), "--logs", str(logs)),
        ],
        capture_output=True,
        text=True,
        timeout=180,
        check=False,
    )


def test_a_group_reads_every_row_though_its_gateway_is_killed(declared, tmp_path):
    done = demo(declared, tmp_path / "logs")
    assert done.returncode == 0, done.stdout + done.stderr
    killed = re.search(r"c4-gateway-1 is killed with signal 9: (\d+) rows are read", done.stdout)
    assert 0 < int(killed[1]) <= ROWS
    table = rf"│ c4 +│ +{2 * ROWS} │ +0 │ +0 │ +0 │"
    assert re.search(table, done.stdout), done.stdout
    assert "records read twice, 0 of them committed before" in done.stdout
    assert "all 20 processes stopped" in done.stdout


def test_without_a_gateway_there_is_nothing_to_begin(topology_file, tmp_path):
    done = demo(topology_file, tmp_path / "logs")
    assert done.returncode == 2
    assert "'c1' has no gateway" in done.stderr
