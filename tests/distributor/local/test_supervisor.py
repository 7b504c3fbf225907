from __future__ import annotations

import os
import signal
import stat
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import pytest

from distributor.errors import ProcessError
from distributor.local import supervisor as module
from distributor.local.supervisor import LOG_BYTES_MAX, ProcessChanges, Supervisor
from topology.processes import Process, ProcessKind

pytestmark = pytest.mark.slow

SLEEPS = "import time; print('up', flush=True); time.sleep(100)"
STUBBORN = "import signal; signal.signal(signal.SIGTERM, signal.SIG_IGN); " + SLEEPS
NOTES = """
import pathlib, signal, sys, time
def tell(*_):
    with open({file!r}, "a") as file: file.write({name!r} + " ")
    sys.exit(0)
signal.signal(signal.SIGTERM, tell)
print("up", flush=True)
time.sleep(100)
"""


def process(name, code, kind=ProcessKind.TOWER):
    command = (sys.executable, "-c", code)
    return Process(name=name, kind=kind, cluster="c", command=command, metrics=None)


@pytest.fixture
def supervise(tmp_path, until):
    """A function that starts processes and waits until each has printed a line."""
    started = []

    def supervise(*processes, wait=True, **settings):
        supervisor = Supervisor(processes, tmp_path / "logs", **settings)
        started.append(supervisor)
        supervisor.start()
        if wait:
            for child in supervisor.children:
                until(lambda child=child: supervisor.log_file(child).stat().st_size)
        return supervisor

    yield supervise
    for supervisor in started:
        for child in supervisor.children:
            if child.running is not None:
                child.running.kill()
                child.running.wait()


def test_every_process_runs_and_its_output_is_kept(supervise):
    supervisor = supervise(process("one", SLEEPS), process("two", SLEEPS))
    assert [child.state for child in supervisor.children] == ["up", "up"]
    assert supervisor.log_file(supervisor.children[1]).name == "two.log"
    assert supervisor.log_file(supervisor.children[1]).read_text() == "up\n"
    assert supervisor.watch() == []
    supervisor.stop()


def test_what_a_shell_says_of_another_cluster_is_none_of_a_childs(supervise, monkeypatch):
    monkeypatch.setenv("DAFKA_KEY", "another.secret")
    supervisor = supervise(
        process("says", "import os; print('DAFKA_KEY' in os.environ, 'PATH' in os.environ)")
    )
    (child,) = supervisor.children
    assert supervisor.log_file(child).read_text().splitlines()[0] == "False True"


def test_what_dies_is_started_again_after_growing_waits(supervise, monkeypatch):
    now = [1_000.0]
    supervisor = supervise(process("dies", "print('up'); raise SystemExit(3)"))
    (child,) = supervisor.children
    monkeypatch.setattr(module.time, "monotonic", lambda: now[0])
    child.started_s = now[0]
    waits = []
    for _ in range(8):
        child.running.wait()
        assert supervisor.watch() == [child]
        assert child.last_exit == "exit code 3"
        waits.append(child.due_s - now[0])
        assert child.state == f"restarts in {waits[-1]:.1f} s"
        now[0] = child.due_s - 0.01
        assert supervisor.watch() == []
        assert child.running is None
        now[0] = child.due_s
        supervisor.watch()
        assert child.state == "up"
    assert waits == [0.25, 0.5, 1, 2, 4, 8, 10, 10]
    assert child.restarts == 8
    child.running.wait()
    now[0] += module.STEADY_S
    supervisor.watch()
    assert child.due_s - now[0] == 0.25


def test_its_logs_are_its_owners_only_and_no_link_is_followed(supervise, tmp_path):
    (tmp_path / "logs").mkdir()
    (tmp_path / "logs" / "linked.log").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(ProcessError, match="Too many levels of symbolic links"):
        supervise(process("tower", SLEEPS), process("linked", SLEEPS))
    assert stat.S_IMODE((tmp_path / "logs" / "tower.log").stat().st_mode) == 0o600
    assert not (tmp_path / "elsewhere").exists()


def test_a_death_by_signal_is_named(supervise):
    supervisor = supervise(process("one", SLEEPS))
    (child,) = supervisor.children
    os.kill(child.running.pid, signal.SIGKILL)
    child.running.wait()
    assert supervisor.watch() == [child]
    assert child.last_exit == "signal 9"


def test_controllers_stop_first_and_towers_last(supervise, tmp_path):
    notes = tmp_path / "notes"
    code = {kind: NOTES.format(file=str(notes), name=kind.value) for kind in ProcessKind}
    supervisor = supervise(*(process(kind.value, code[kind], kind) for kind in ProcessKind))
    supervisor.stop()
    before = ["controller", "replica", "gateway", "schemas", "registry"]
    assert notes.read_text().split() == [*before, "distributor", "store", "tower"]
    assert all(child.running is None for child in supervisor.children)
    supervisor.stop()


def test_what_ignores_being_told_is_killed(supervise):
    supervisor = supervise(process("stubborn", STUBBORN), process("good", SLEEPS), stop_s=0.1)
    stubborn = supervisor.children[0].running
    supervisor.stop()
    assert stubborn.returncode == -signal.SIGKILL


def test_what_cannot_be_started_stops_the_rest(tmp_path):
    nothing = Process(
        name="b", kind=ProcessKind.TOWER, cluster="c", command=("/no/such/file",), metrics=None
    )
    supervisor = Supervisor([process("a", SLEEPS), nothing], tmp_path)
    with pytest.raises(ProcessError, match="cannot start"):
        supervisor.start()
    assert supervisor.children[0].running is None


def test_logs_that_cannot_be_written_are_said(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(ProcessError, match="cannot start"):
        Supervisor([process("a", SLEEPS)], tmp_path / "file").start()


def test_what_cannot_be_started_again_is_tried_later(supervise, tmp_path, monkeypatch):
    supervisor = supervise(process("one", SLEEPS))
    (child,) = supervisor.children
    child.running.kill()
    child.running.wait()
    logs = tmp_path / "logs"
    logs.rename(tmp_path / "away")
    assert supervisor.watch() == [child]
    child.due_s = 0.0
    supervisor.watch()
    assert child.running is None
    assert child.due_s > time.monotonic()
    (tmp_path / "away").rename(logs)
    child.due_s = 0.0
    supervisor.watch()
    assert child.state == "up"


def test_a_large_log_is_begun_anew_at_the_next_start(supervise, tmp_path):
    log = tmp_path / "logs" / "one.log"
    log.parent.mkdir()
    with log.open("wb") as file:
        file.truncate(LOG_BYTES_MAX + 1)
    supervise(process("one", SLEEPS), wait=False)
    assert log.stat().st_size < 100


def test_children_end_with_a_killed_parent(tmp_path, until):
    code = f"""
import sys, time
from pathlib import Path
from topology.processes import Process, ProcessKind
from distributor.local.supervisor import Supervisor
command = (sys.executable, "-c", {SLEEPS!r})
child = Process(name="c", kind=ProcessKind.TOWER, cluster="c", command=command, metrics=None)
supervisor = Supervisor([child], Path({str(tmp_path)!r}))
supervisor.start()
print(supervisor.children[0].running.pid, flush=True)
time.sleep(100)
"""
    root = Path(__file__).parents[3]
    with subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, cwd=root) as parent:
        pid = int(parent.stdout.readline())
        assert Path(f"/proc/{pid}").exists()
        parent.kill()
    until(lambda: not Path(f"/proc/{pid}").exists() or is_zombie(pid))


def is_zombie(pid):
    try:
        return "\nState:\tZ" in Path(f"/proc/{pid}/status").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return True


def test_only_what_a_new_topology_changes_is_touched(supervise):
    same, changes, gone, new = (
        process("same", SLEEPS),
        process("changes", SLEEPS, ProcessKind.STORE),
        process("gone", SLEEPS, ProcessKind.DISTRIBUTOR),
        process("new", SLEEPS),
    )
    supervisor = supervise(same, changes, gone)
    before = {child.process.name: child.running for child in supervisor.children}
    told = supervisor.apply([same, new, replace(changes, reads="other")])
    assert told == ProcessChanges(started=("new",), stopped=("gone",), restarted=("changes",))
    assert str(told) == "stopped gone; started new; started again changes"
    after = {child.process.name: child.running for child in supervisor.children}
    assert list(after) == ["same", "new", "changes"]
    assert after["same"] is before["same"]
    assert after["same"].poll() is None
    assert before["changes"].poll() is not None
    assert before["gone"].poll() is not None
    assert str(supervisor.apply([child.process for child in supervisor.children])) == (
        "nothing has to be started or stopped"
    )


def test_what_a_new_topology_cannot_start_is_tried_later(supervise):
    supervisor = supervise(process("one", SLEEPS))
    nothing = replace(process("b", SLEEPS), command=("/no/such/file",))
    assert supervisor.apply([nothing]).started == ("b",)
    (child,) = supervisor.children
    assert child.running is None
    assert "cannot start" in child.last_exit
    assert child.due_s > time.monotonic() - 1


def test_a_process_that_is_killed_comes_back_and_the_others_stay(supervise, until):
    supervisor = supervise(process("one", SLEEPS), process("other", SLEEPS))
    child, untouched = supervisor.children
    before = untouched.running
    supervisor.kill("one")
    assert until(supervisor.watch) == [child]
    assert child.last_exit == f"signal {signal.SIGKILL}"
    until(lambda: supervisor.watch() == [] and child.state == "up")
    assert (child.restarts, untouched.running) == (1, before)


def test_a_cluster_that_is_taken_down_stays_down_until_it_is_brought_back(supervise):
    other = replace(process("other", SLEEPS), cluster="d")
    supervisor = supervise(process("one", SLEEPS), other)
    child, untouched = supervisor.children
    running = child.running
    assert supervisor.take_down("c") == 1
    assert running.returncode == -signal.SIGKILL
    assert supervisor.watch() == []
    assert (child.state, untouched.state) == ("kept down", "up")
    supervisor.bring_back("c")
    assert supervisor.watch() == []
    assert child.state == "up"


BESIDE_GRPC = """
import subprocess
from concurrent import futures
from distributor.control.operator_client import OperatorClient
from distributor.local.supervisor import die_with_parent
import grpc
server = grpc.server(futures.ThreadPoolExecutor(2))
port = server.add_insecure_port("127.0.0.1:0")
server.start()
with OperatorClient(f"127.0.0.1:{port}") as client:
    grpc.channel_ready_future(client._channel).result(60)
    ends = [
        subprocess.run(["true"], preexec_fn=die_with_parent, capture_output=True).returncode
        for _ in range(400)
    ]
server.stop(None)
print(sum(map(bool, ends)))
"""


@pytest.mark.net
def test_children_of_a_process_that_speaks_grpc_begin():
    environment = dict(os.environ, PYTHONPATH=os.pathsep.join(sys.path))
    environment.pop("GRPC_ENABLE_FORK_SUPPORT", None)
    done = subprocess.run(
        [sys.executable, "-c", BESIDE_GRPC], env=environment, capture_output=True, text=True
    )
    assert (done.stdout, done.returncode) == ("0\n", 0), done.stderr[-2_000:]
