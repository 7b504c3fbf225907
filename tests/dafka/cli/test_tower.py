from __future__ import annotations

import subprocess
import sys

import pytest

pytestmark = [pytest.mark.net, pytest.mark.slow]


def test_a_tower_whose_endpoint_is_taken_is_refused(cluster, refused):
    assert "cannot open tower" in refused(2, "tower", "--endpoint", cluster.tower)


@pytest.mark.parametrize(
    ("words", "what"),
    [
        (("--endpoint", "here"), "'here'"),
        (("--endpoint", "tcp://127.0.0.1:65535"), "next port"),
        (("--log-level", "loud"), "'loud'"),
        (("--metrics", "127.0.0.1:70000"), "70000"),
    ],
    ids=range(4),
)
def test_a_mistake_is_one_line_and_exit_code_2(refused, words, what):
    assert what in refused(2, "tower", *words)


@pytest.mark.parametrize("unneeded", ["aiokafka", "lmdb", "multiprocessing", "rich"])
def test_a_tower_does_not_wait_for_what_stores_need(unneeded):
    program = f"import sys, dafka.cli.main, dafka.cli.tower; print({unneeded!r} in sys.modules)"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert done.stdout == "False\n", done.stderr
