"""One cluster of commands, as an operator spells its addresses."""

from __future__ import annotations

import subprocess
import sys

import pytest

pytestmark = [pytest.mark.net, pytest.mark.slow]


def dafka(*words, given=b""):
    done = subprocess.run(
        [sys.executable, "-m", "dafka", *words],
        input=given,
        capture_output=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.fixture
def serve():
    """A function that starts a command and waits until it says that it is up."""
    started = []

    def serve(*words):
        words = [sys.executable, "-m", "dafka", *words]
        running = subprocess.Popen(words, stderr=subprocess.PIPE, text=True)
        started.append(running)
        line = running.stderr.readline()
        assert "is up" in line, line + running.stderr.read()

    yield serve
    for running in started:
        running.terminate()
        running.communicate(timeout=120)


def test_commands_over_ipv6_with_two_towers_of_which_one_is_dead(serve, tmp_path, free_ports):
    first = free_ports(6)
    dead, tower, query = (f"tcp://[::1]:{first + offset}" for offset in (0, 2, 4))
    towers = ("--tower", dead, "--tower", tower)
    serve("tower", "--endpoint", tower)
    at_store = ("--host", f"[::1]:{first + 5}", "--query", query, "--durability", "os")
    serve("store", "--data", str(tmp_path / "data"), *towers, *at_store)
    everywhere = ("--host", "*", "--advertise", "[::1]", "--insecure")
    dafka("produce", "orders", *towers, *everywhere, given=b"1\n2\n3\n")
    last = ("--from-beginning", "--max", "3", "--host", "::1")
    assert dafka("consume", "orders", *towers, *last) == b"1\n2\n3\n"
    assert b'"topic": "orders"' in dafka("topics", "--store", query, "--json")
