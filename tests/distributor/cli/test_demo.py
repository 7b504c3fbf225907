from __future__ import annotations

import socket
import subprocess
import sys
from importlib.metadata import PackageNotFoundError
from pathlib import Path
from types import SimpleNamespace

import pytest
from rich.console import Console
from typer.testing import CliRunner

from dafka.model import Partition
from dafka.records.envelope import Envelope
from distributor.cli.demo import Traffic, report
from distributor.cli.main import app
from distributor.demo.job import Published, ReadProof
from distributor.demo.latency import HopLatency
from distributor.errors import DataSetError
from distributor.verify.verdict import Difference, DifferenceKind, Verdict
from topology import plan


@pytest.mark.parametrize("rows", ["0", "-1", "many"])
def test_a_number_of_rows_that_makes_no_sense_is_refused(rows):
    done = CliRunner().invoke(app, ["demo", "topology.yaml", f"--rows={rows}"])
    assert done.exit_code == 2


def test_a_data_set_that_is_not_there_is_said_before_anything_is_started(pair, monkeypatch):
    def lacks(_package):
        raise PackageNotFoundError

    monkeypatch.setattr("distributor.demo.dataset.metadata.files", lacks)
    done = CliRunner().invoke(app, ["demo", str(pair.file)])
    assert isinstance(done.exception, DataSetError)
    assert "pip install" in str(done.exception)
    assert done.output == ""


def demo_of(pair, tmp_path):
    return subprocess.run(
        [
            *(sys.executable, "-m", "distributor", "demo", str(pair.file)),
            *("--rows", "1", "--logs", str(tmp_path / "logs")),
        ],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


@pytest.mark.net
@pytest.mark.slow
def test_a_process_that_cannot_start_ends_the_demo_with_exit_code_1_and_stops_all(pair, tmp_path):
    data = Path(pair.topology.clusters[0].stores[0].data)
    data.parent.mkdir(parents=True, exist_ok=True)
    data.write_text("no directory")
    done = demo_of(pair, tmp_path)
    assert done.returncode == 1
    assert "c1-store-1 has ended with exit code 2" in done.stderr
    assert "Traceback" not in done.stderr
    assert str(data) in (tmp_path / "logs" / "c1-store-1.log").read_text()


@pytest.mark.net
@pytest.mark.slow
def test_links_that_cannot_take_commands_end_the_demo_before_anything_is_published(
    pair, free_ports, tmp_path
):
    control = tmp_path / "control"
    control.write_text("no directory")
    with pair.file.open("a") as topology:
        topology.write(f"\ncontrol: {{directory: {control}}}\n")
        topology.write(f"metrics: {{host: 127.0.0.1, first_port: {free_ports(6)}}}\n")
    done = demo_of(pair, tmp_path)
    assert done.returncode == 1
    assert "-level-1 has ended with exit code" in done.stderr
    assert "publishing" not in done.stdout
    assert any(str(control) in log.read_text() for log in (tmp_path / "logs").glob("*level-1.log"))


@pytest.mark.net
@pytest.mark.slow
def test_a_port_that_is_taken_is_said_before_anything_is_started(pair, tmp_path):
    query = pair.topology.clusters[0].stores[0].query
    with socket.create_server(("127.0.0.1", int(query.rpartition(":")[2]))):
        done = demo_of(pair, tmp_path)
    assert done.returncode == 2
    assert f"{query} is taken: is 'pair' up already?" in done.stderr
    assert not (tmp_path / "logs").exists()


def test_a_cluster_that_is_not_there_cannot_be_lost(run, four):
    code, _, error = run("drill", four, "--kill", "cluster-9")
    assert code == 2
    assert "no cluster 'cluster-9'" in error


def test_load_has_bounds(run, four):
    assert run("drill", four, "--rate", "1")[0] == 2
    assert run("drill", four, "--down", "0")[0] == 2


EVIL = Partition("[red]x[/red]", "AB" * 16)


@pytest.mark.net
def test_the_report_shows_proof_flags_and_rates_with_names_as_they_are(pair, make_batch):
    pair.fill(1, make_batch([b"1"], partition=EVIL))
    pair.fill(2, make_batch([b"1"], partition=EVIL, envelope=Envelope(1, 1)))
    console = Console(
        width=200, record=True, file=SimpleNamespace(write=lambda _: None, flush=lambda: None)
    )
    steady = Published(rows=200, size=1, homes={EVIL: "c1"}, seconds=2.0)
    burst = Published(rows=800, size=2_000_000, homes={EVIL: "c1"}, seconds=0.5)
    hop = HopLatency("c1", "c2", "1", batches=7, p50_s=0.005, p99_s=0.02)
    traffic = Traffic(1.5, steady, [hop], burst, everywhere_s=1.0)
    proofs = [ReadProof("c1", found=1_000), ReadProof("c2", found=990, lost=10)]
    with pair.running():
        lacking = Difference(DifferenceKind.BEHIND, "rows", "A", "c2", 990, 999, ("c1",))
        verdict = Verdict({"c1": 1_000, "c2": 990}, differences=[lacking])
        report(plan(pair.topology), traffic, proofs, verdict, console)
    shown = console.export_text()
    assert "every one of 1,000 rows" in shown
    assert "c2 lacks 990 to 999" in shown
    assert "[red]x[/red]/ABABABAB/0" in shown
    assert "0001" in shown
    assert "c1, level 1" in shown
    assert "published here" in shown
    assert "hops at a steady 100 rows/s" in " ".join(shown.split())
    assert "all processes ready 1.5 s after the start" in shown
    assert "published and stored in 0.5 s (1,600 rows/s, 4.0 MB/s)" in shown
    assert "all 1,600 copies in place after 1.0 s (800 rows/s)" in shown
