from __future__ import annotations

import io
import sys
import threading
from pathlib import Path
from types import SimpleNamespace

import pytest
from rich.console import Console

from distributor.cli import up as module
from distributor.cli.up import reloaded, up_view, watch
from distributor.local.pidfile import PidFile, find
from distributor.local.supervisor import Child
from distributor.operations.status import (
    ClusterStatus,
    Status,
)
from topology import plan
from topology.processes import Process, ProcessKind

DEPLOYED = Path(__file__).parents[3] / "deploy" / "topology.yaml"


LOGS = Path("a [long] way", *"0123456789" * 5)
"""Longer than a line, and with what could be taken for markup."""


class FakeSupervisor:
    """One child, which dies in the first turns; tells to stop after the last."""

    def __init__(self, told, turns):
        process = Process(
            name="c1-tower-1", kind=ProcessKind.TOWER, cluster="c1", command=(), metrics=""
        )
        self.children = [Child(process, last_exit="exit code 2")]
        self._told = told
        self._turns = turns

    def watch(self):
        self._turns -= 1
        if self._turns == 0:
            self._told.set()
            return []
        return self.children

    def log_file(self, child):
        return LOGS / f"{child.process.name}.log"


@pytest.mark.net
@pytest.mark.slow
def test_without_a_terminal_every_death_is_one_line_that_says_where_to_look(pair):
    told, out = threading.Event(), io.StringIO()
    watch(plan(pair.topology), FakeSupervisor(told, 3), Console(file=out, width=80), told)
    assert out.getvalue() == f"c1-tower-1 has died: exit code 2, see {LOGS}/c1-tower-1.log\n" * 2


@pytest.mark.net
@pytest.mark.slow
def test_on_a_terminal_there_is_a_picture_of_everything(pair, monkeypatch):
    told, out = threading.Event(), io.StringIO()
    console = Console(file=out, force_terminal=True, width=200, height=50)
    with pair.running():
        watch(plan(pair.topology), FakeSupervisor(told, 8), console, told)
    for fact in ("processes", "clusters", "links", "Ctrl-C stops everything"):
        assert fact in out.getvalue()


@pytest.mark.net
def test_who_is_told_to_stop_at_once_watches_nothing(pair):
    told = threading.Event()
    told.set()
    supervisor = SimpleNamespace(children=[], watch=None)
    watch(plan(pair.topology), supervisor, Console(file=io.StringIO()), told)


@pytest.mark.net
def test_it_asks_seldom():
    assert module.STATUS_INTERVAL_S >= 1


@pytest.mark.net
@pytest.mark.slow
def test_a_status_that_takes_long_does_not_hold_up_the_restarts(pair, monkeypatch):
    release = threading.Event()
    monkeypatch.setattr(module, "status_of", lambda *_: release.wait(60))
    told = threading.Event()
    supervisor = FakeSupervisor(told, 3)
    console = Console(file=io.StringIO(), force_terminal=True, width=200, height=50)
    thread = threading.Thread(target=watch, args=(plan(pair.topology), supervisor, console, told))
    thread.start()
    assert told.wait(120), "three turns while the status is being asked"
    thread.join(120)
    assert not thread.is_alive()
    release.set()


class Applies:
    def __init__(self):
        self.applied = []

    def apply(self, processes):
        self.applied.append([process.name for process in processes])
        return "told"


@pytest.mark.net
def test_a_file_that_is_right_is_run_from_now_on(pair, tmp_path):
    supervisor, out = Applies(), io.StringIO()
    old = plan(pair.topology)
    PidFile.of(pair.file).note(tmp_path)
    before = find(tmp_path)
    pair.file.write_text(pair.file.read_text().replace("name: pair", "name: other"))
    new = reloaded(pair.file, old, supervisor, Console(file=out, width=200), tmp_path)
    assert find(tmp_path).digest == PidFile.of(pair.file).digest != before.digest
    assert new.topology.name == "other"
    assert len(supervisor.applied) == 1
    assert out.getvalue() == f"{pair.file} is read again: told\n"


@pytest.mark.net
def test_a_file_that_is_wrong_changes_nothing(pair, tmp_path):
    supervisor, out = Applies(), io.StringIO()
    old = plan(pair.topology)
    pair.file.write_text(pair.file.read_text().replace("id: 2", "id: [1"))
    PidFile.of(pair.file).note(tmp_path)
    assert reloaded(pair.file, old, supervisor, Console(file=out, width=500), tmp_path) is old
    assert "while parsing a flow sequence" in find(tmp_path).problem
    assert supervisor.applied == []
    assert "may not be used, nothing is changed" in out.getvalue()


@pytest.mark.net
def test_a_file_with_what_is_not_installed_changes_nothing(pair, tmp_path, monkeypatch):
    supervisor, out = Applies(), io.StringIO()
    old = plan(pair.topology)
    gateway = 'id: 2\n    gateways: [{listen: "127.0.0.1:1"}]'
    pair.file.write_text(pair.file.read_text().replace("id: 2", gateway))
    PidFile.of(pair.file).note(tmp_path)
    monkeypatch.setitem(sys.modules, "kio", None)
    assert reloaded(pair.file, old, supervisor, Console(file=out, width=500), tmp_path) is old
    assert supervisor.applied == []
    assert "pip install 'dafka-distributor[gateway]'" in out.getvalue()


@pytest.mark.net
def test_a_file_of_other_machines_changes_nothing(pair, tmp_path):
    supervisor, out = Applies(), io.StringIO()
    old = plan(pair.topology)
    PidFile.of(pair.file).note(tmp_path)
    elsewhere = "host: '192.0.2.1'\n    insecure: true"
    pair.file.write_text(pair.file.read_text().replace("host: '127.0.0.1'", elsewhere))
    assert reloaded(pair.file, old, supervisor, Console(file=out, width=500), tmp_path) is old
    assert "is not this machine's" in find(tmp_path).problem
    assert supervisor.applied == []


@pytest.mark.net
@pytest.mark.parametrize("command", ["up", "demo", "drill"])
def test_a_topology_of_other_machines_is_refused_before_anything_starts(run, tmp_path, command):
    file, logs = tmp_path / "topology.yaml", tmp_path / "logs"
    file.write_text(DEPLOYED.read_text().replace("/var/lib/dafka", str(tmp_path / "data")))
    code, _, error = run(command, file, "--logs", logs)
    assert code == 2
    assert "host 'dafka-1.example' of cluster-1 is not this machine's" in error
    assert list(tmp_path.iterdir()) == [file]


@pytest.mark.net
@pytest.mark.slow
def test_a_hangup_ends_the_watch_so_that_the_file_is_read(pair):
    told, reload = threading.Event(), threading.Event()
    reload.set()
    supervisor = FakeSupervisor(told, 99)
    watch(plan(pair.topology), supervisor, Console(file=io.StringIO()), told, reload)
    assert not told.is_set()


EVIL = "[red]x[/red]"


def test_processes_with_their_state_and_restarts(text):
    one = Process(
        name="one", kind=ProcessKind.TOWER, cluster="c", command=(), metrics="127.0.0.1:1"
    )
    two = Process(name=EVIL, kind=ProcessKind.STORE, cluster="c", command=(), metrics=None)
    children = [
        Child(one, running=SimpleNamespace(pid=4_711)),
        Child(two, restarts=2, last_exit="signal 9"),
    ]
    shown = text(up_view(children, None))
    for fact in ("4711", "up", "127.0.0.1:1", EVIL, "2 (signal 9)", "restarts in 0.0 s", "Ctrl-C"):
        assert fact in shown
    assert "clusters" not in shown
    status = Status([ClusterStatus("c1", 0, 0, "")], [])
    assert "clusters" in text(up_view(children, status))
