from __future__ import annotations

import socket
import subprocess
import sys

import pytest
from typer.testing import CliRunner

from distributor.cli.main import app

# The demo itself is run in tests/processes/test_up.py.


@pytest.mark.parametrize("rows", ["0", "-1", "many"])
def test_a_number_of_rows_that_makes_no_sense_is_refused(rows):
    done = CliRunner().invoke(app, ["demo", "topology.yaml", f"--rows={rows}"])
    assert done.exit_code == 2


@pytest.mark.net
@pytest.mark.slow
def test_a_port_that_is_taken_ends_the_demo_with_exit_code_1_and_stops_everything(pair, tmp_path):
    query = pair.topology.clusters[0].stores[0].query
    port = int(query.rpartition(":")[2])
    with socket.create_server(("127.0.0.1", port)):
        done = subprocess.run(
            [
                *(sys.executable, "-m", "distributor", "demo", str(pair.file)),
                *("--rows", "1", "--logs", str(tmp_path / "logs")),
            ],
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
    assert done.returncode == 1
    assert "c1-store-1 has ended with exit code 2" in done.stderr
    assert "Traceback" not in done.stderr
    assert query in (tmp_path / "logs" / "c1-store-1.log").read_text()
