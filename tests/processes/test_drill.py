"""The drill of docs/operations.md, on real processes, as `make drill` runs it."""

from __future__ import annotations

import re
import subprocess
import sys

import pytest

pytestmark = [pytest.mark.net, pytest.mark.slow]


def test_a_cluster_is_lost_under_load_and_comes_back_with_nothing_lost(topology_file, tmp_path):
    done = subprocess.run(
        [
            *(sys.executable, "-m", "distributor", "drill", str(topology_file)),
            *("--rate", "100", "--down", "8", "--logs", str(tmp_path / "logs")),
        ],
        capture_output=True,
        text=True,
        timeout=170,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    for step in (
        "16 processes are up",
        "c3 is lost: 4 processes killed with signal 9",
        "failed over: every survivor has what any of them had",
        "survivors compared: equal",
        "c3 is back, with the data it had",
        "caught up",
        "equal: 4 partitions",
        "lost = 0, duplicated = 0",
    ):
        assert step in done.stdout, step
    stalls = re.findall(r"│ (c\d) +│ (c\d.*?) +│ +(\d) │ +([\d.]+) s │", done.stdout)
    # How long each is depends on what was under way, and on the machine: see the tests of `Stalls`.
    told = [(source, level) for source, _, level, _ in stalls]
    assert sorted(told) == [(f"c{number}", level) for number in range(1, 5) for level in ("1", "3")]
