from __future__ import annotations

import signal
import subprocess
import sys

import pytest

from dafka.errors import MisuseError
from dafka.spark.session import ensure_java
from distributor.errors import ProcessError
from distributor.testing.standalone import Standalone, family, signal_all

NEST = "import subprocess, sys; subprocess.run([sys.executable, '-c', 'input()'])"


@pytest.mark.slow
def test_a_family_is_all_that_comes_from_a_process(until):
    with subprocess.Popen([sys.executable, "-c", NEST], stdin=subprocess.PIPE) as process:
        until(lambda: len(list(family(process.pid))) == 2)
        pids = list(family(process.pid))
        assert pids[0] == process.pid
        signal_all(pids, signal.SIGKILL)
        assert process.wait(60) == -signal.SIGKILL
    signal_all(pids, signal.SIGKILL)
    assert list(family(process.pid)) == [process.pid]


@pytest.mark.net
@pytest.mark.slow
def test_a_worker_that_was_killed_comes_back_and_nothing_is_left(tmp_path, free_ports, until):
    try:
        ensure_java()
    except MisuseError as error:
        pytest.skip(str(error))
    with Standalone(tmp_path, free_ports(1)) as running:
        log = tmp_path / "master.log"
        assert log.read_text().count("Registering worker") == 2
        running.kill(1)
        running.start(1)
        until(lambda: log.read_text().count("Registering worker") == 3)
        assert running.executors(1) == running.executors(2) == []
        assert running.applications() == []
        processes = list(running._running.values())
    assert [one.returncode for one in processes] == [-signal.SIGKILL] * 3


@pytest.mark.net
@pytest.mark.slow
def test_workers_that_do_not_come_are_told_of(tmp_path, free_ports):
    try:
        ensure_java()
    except MisuseError as error:
        pytest.skip(str(error))
    with pytest.raises(ProcessError, match="workers are not at their master after 0 s: see"):
        Standalone(tmp_path, free_ports(1), ready_s=0.0).__enter__()
