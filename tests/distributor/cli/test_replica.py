"""`distributor replica`: what it refuses, and that it serves."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

import grpc
import pytest

from tests.support.control_commands import hello
from tests.support.control_sessions import INSTANCE, Session

pytestmark = [pytest.mark.net, pytest.mark.slow]

FOUR = str(Path(__file__).parents[3] / "config" / "four-clusters.yaml")


def command(*words):
    return [sys.executable, "-m", "distributor", "replica", *words]


@pytest.mark.parametrize(
    ("words", "what"),
    [
        (("--cluster", "c9", "--listen", "127.0.0.1:1"), "no cluster 'c9'"),
        (("--cluster", "cluster-1"), "give --listen HOST:PORT"),
        (("--cluster", "cluster-1", "--listen", "nowhere"), "expected HOST:PORT"),
        (("--cluster", "cluster-1", "--listen", "0.0.0.0:7001"), "would be obeyed"),
        (
            ("--cluster", "cluster-1", "--listen", "127.0.0.1:7001", "--client-ca", FOUR),
            "belong together",
        ),
    ],
    ids=range(5),
)
def test_a_mistake_is_one_line_and_exit_code_2(words, what):
    done = subprocess.run(
        command("--topology", FOUR, *words), capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode == 2, done.stderr
    (line,) = done.stderr.splitlines()
    assert line.startswith("distributor: ")
    assert what in line


@pytest.fixture
def running(pair, free_ports, tmp_path):
    """A function that starts a replica of the first cluster; its process and a channel to it."""
    processes = []

    def start(*words):
        port = free_ports(1)
        listen = f"127.0.0.1:{port}"
        words = ("--topology", str(pair.file), "--cluster", "c1", "--listen", listen, *words)
        processes.append(subprocess.Popen(command(*words), stderr=subprocess.PIPE, text=True))
        return processes[-1], listen

    yield start
    for process in processes:
        process.kill()
        process.communicate(timeout=60)


def session_at(listen):
    """A session with whoever listens there, once it does."""
    channel = grpc.insecure_channel(listen, [("grpc.max_reconnect_backoff_ms", 500)])
    grpc.channel_ready_future(channel).result(120)
    return Session(channel)


def test_it_serves_controllers_until_it_is_told_to_stop(running):
    process, listen = running("--name", "left")
    one = session_at(listen)
    one.tell(hello(replica="left"))
    one.pong(1)
    process.send_signal(signal.SIGTERM)
    assert process.wait(60) == 0
    assert "replica is up" in process.stderr.read()


def test_one_that_is_for_another_instance_ends(running):
    process, listen = running()
    one = session_at(listen)
    one.begin(greeting=hello(replica=listen))
    assert one.ended()[1] == "incompatible", INSTANCE
    assert process.wait(60) == 1
    assert "another instance" in process.stderr.read()
