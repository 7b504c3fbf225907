from __future__ import annotations

import signal
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import pytest

from dafka.node.producer import Producer
from distributor.control.agent import ControlServer
from distributor.local.processes import control_endpoint
from distributor.survey import survey
from topology import plan

pytestmark = [pytest.mark.net, pytest.mark.slow]

FOUR = str(Path(__file__).parents[3] / "config" / "four-clusters.yaml")


def command(*words):
    return [sys.executable, "-m", "distributor", "run", *words]


CONTROLLED = str(Path(FOUR).with_name("controlled.yaml"))


@pytest.mark.parametrize("engine", ["native", "spark"])
def test_it_does_nothing_that_replicas_do(run, engine):
    words = ("--topology", CONTROLLED, "--cluster", "cluster-1", "--level", "3")
    code, _, complaint = run("run", *words, "--engine", engine)
    assert code == 2
    assert "distributor run has nothing to do for cluster-1" in complaint
    assert "Run distributor replica and distributor controller run, or take" in complaint


@pytest.mark.parametrize(
    ("words", "what"),
    [
        (("--cluster", "cluster-9", "--level", "3"), "no distributor for cluster 'cluster-9'"),
        (("--cluster", "cluster-1", "--level", "2"), "cluster-1/1, cluster-1/3"),
        (("--cluster", "cluster-1", "--level", "3", "--log-level", "loud"), "'loud'"),
        (("--cluster", "cluster-1", "--level", "3", "--metrics", "127.0.0.1:70000"), "70000"),
        (("--cluster", "cluster-1", "--level", "3", "--host", "192.0.2.7"), "192.0.2.7"),
        (("--cluster", "cluster-1", "--level", "3", "--share", "1/4"), "are in 1 share; give"),
    ],
    ids=range(6),
)
def test_a_mistake_is_one_line_and_exit_code_2(words, what):
    done = subprocess.run(
        command("--topology", FOUR, *words),
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 2, done.stderr
    (line,) = done.stderr.splitlines()
    assert line.startswith("distributor: ")
    assert what in line


def test_a_control_socket_that_is_taken_is_all_that_is_said_and_nothing_is_copied(
    make_pair, make_batch
):
    pair = make_pair("control: {}")
    pair.fill(1, make_batch([b"x"]))
    endpoint = control_endpoint(pair.topology, plan(pair.topology).distributors[0])
    with pair.running(), closing(ControlServer(endpoint, [])):
        words = ("--topology", str(pair.file), "--cluster", "c1", "--level", "1")
        done = subprocess.run(
            command(*words),
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
        assert [holding.records for holding in survey(pair.topology)] == [1, 0]
    assert done.returncode == 2
    assert f"cannot open control socket at '{endpoint}'" in done.stderr
    assert "link is up" not in done.stderr


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_it_copies_until_a_signal_ends_it(pair, until, number):
    with pair.running():
        words = ("--topology", str(pair.file), "--cluster", "c1", "--level", "1")
        with subprocess.Popen(command(*words), stderr=subprocess.PIPE, text=True) as running:
            assert "link is up source=c1 target=c2 level=1" in running.stderr.readline()
            with Producer(pair.topology.clusters[0].towers[0]) as producer:
                producer.send("orders", b"x")
            until(lambda: [holding.records for holding in survey(pair.topology)] == [1, 1])
            running.send_signal(number)
            _, error = running.communicate(timeout=120)
        assert running.returncode == 0, error
        assert "Traceback" not in error
