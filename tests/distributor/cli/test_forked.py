from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from distributor.cli import forked

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[3]

BEGIN = """
import os, signal, subprocess, sys, time
from contextlib import suppress
from pathlib import Path
from distributor.cli import forked
from distributor.local import supervisor

def ours(package, *words):
    return (sys.executable, "-m", package, *words)

def begun(log, command, by=forked.begin):
    with open(log, "ab") as output:
        return by(command, output)

def until(true):
    deadline = time.monotonic() + 300
    while not true():
        assert time.monotonic() < deadline
        time.sleep(0.01)
"""


@pytest.fixture
def run(tmp_path):
    """A function that runs lines of Python in a process with one thread; returns what it says."""

    def run(code, **variables):
        environment = {**os.environ, "PYTHONPATH": str(ROOT), **variables}
        done = subprocess.run(
            [sys.executable, "-c", BEGIN + code],
            env=environment,
            cwd=tmp_path,
            capture_output=True,
            text=True,
            timeout=600,
        )
        assert done.returncode == 0, done.stderr
        return done.stdout

    return run


LOOKS = """
import json
signal.signal(signal.SIGTERM, lambda *_: None)  # as `distributor up` does
signal.signal(signal.SIGUSR1, signal.SIG_IGN)
kept = open("kept", "w")

def looks(by):
    log = by.__name__
    running = begun(log, ours("dafka", "tower", "--endpoint", "tcp://127.0.0.1:{port}"), by)
    until(lambda: "is up" in Path(log).read_text())
    of = Path("/proc") / str(running.pid)
    status = dict(line.split(":", 1) for line in (of / "status").read_text().splitlines())
    opened = [os.readlink(one) for one in (of / "fd").iterdir()]
    found = {{
        "session": os.getsid(running.pid) == running.pid,
        "standard": [os.readlink(of / "fd" / str(one)) == str(Path(log).resolve())
                     for one in (0, 1, 2)],
        "input": os.readlink(of / "fd/0"),
        "files": sorted(one.partition(":")[0].replace(str(of), "own") for one in opened
                        if not one.endswith(log)),
        "command": (of / "cmdline").read_bytes().rstrip(b"\\0").replace(b"\\0", b" ").decode(),
        "signals": [status[one].strip() for one in ("SigBlk", "SigIgn", "SigCgt", "ShdPnd")],
        "parent": int(status["PPid"]) == os.getpid(),
    }}
    running.terminate()
    return found | {{"ended": running.wait(), "kind": type(running).__name__}}

print(json.dumps([looks(forked.begin), looks(supervisor.execute)]))
"""


@pytest.mark.net
def test_a_copy_is_as_if_its_program_had_been_executed(run, free_ports):
    told = run(LOOKS.format(port=free_ports(2)), DAFKA_KEY="another.secret", DAFKA_ACCESS="no.toml")
    copied, executed = json.loads(told)
    assert (copied.pop("kind"), executed.pop("kind")) == ("Forked", "Popen")
    assert copied == executed
    assert copied["session"]
    assert copied["standard"] == [False, True, True]
    assert copied["command"].startswith(f"{sys.executable} -m dafka tower --endpoint tcp:")
    assert copied["ended"] == 0


ENDS = """
for words in (["--help"], ["--no-such-option"], ["--endpoint", "nowhere"]):
    codes = [begun("log", ours("dafka", "tower", *words), by).wait()
             for by in (forked.begin, supervisor.execute)]
    print(*codes)
killed = begun("log", ours("dafka", "tower", "--endpoint", "ipc:///{place}"))
assert killed.poll() is None
with suppress(subprocess.TimeoutExpired):
    killed.wait(0.05)
    raise AssertionError("it has ended")
killed.kill()
print(killed.wait(60), killed.poll())
killed.kill()  # nobody by now
"""


def test_how_a_copy_ends_is_told(run, tmp_path):
    said = run(ENDS.format(place=tmp_path / "tower"))
    assert said.splitlines() == ["0 0", "2 2", "2 2", "-9 -9"]


def test_a_parent_without_input_or_output_has_copies_all_the_same(run, tmp_path):
    """As a service manager may start it: its logs stand where those would."""
    code = """
said = os.dup(1)
for one in (0, 1):
    os.close(one)
    code = begun("log", ours("dafka", "tower", "--help")).wait()
    os.write(said, f"{code} {Path('log').read_text().count('Usage')}\\n".encode())
"""
    assert run(code).splitlines() == ["0 1", "0 2"]


THREADED = """
import threading
threading.Thread(target=time.sleep, args=[600], daemon=True).start()
print(type(begun("log", ours("dafka", "tower", "--help"))).__name__)
print(type(begun("log", (sys.executable, "-c", "pass"))).__name__)
os._exit(0 if not sys.stdout.flush() else 1)
"""


def test_beside_a_second_thread_the_program_is_executed(run):
    assert run(THREADED).split() == ["Popen", "Popen"]


def test_what_is_none_of_our_programs_is_executed(run):
    assert run("print(type(begun('log', (sys.executable, '-c', 'pass'))).__name__)") == "Popen\n"


OTHERS = """
from distributor.loading import load
from distributor.local.processes import processes_of
from topology import plan
kinds = {}
for file in map(Path, sys.argv[1:] or FILES):
    for one in processes_of(plan(load(file)), file):
        kinds[one.kind.value] = one.command
for kind, command in sorted(kinds.items()):
    running = begun("log", (*command[:4], "--help"))
    print(kind, type(running).__name__, running.wait())
"""


def test_nothing_that_a_topology_runs_begins_a_thread_when_it_is_loaded(run):
    names = ("four-clusters", "controlled", "kafka", "schemas")
    files = [str(ROOT / "config" / f"{name}.yaml") for name in names]
    said = run(f"FILES = {files}\n{OTHERS}")
    kinds = ["controller", "distributor", "gateway", "registry", "replica", "schemas"]
    wanted = [f"{kind} Forked 0" for kind in [*kinds, "store", "tower"]]
    assert said.splitlines() == wanted


ONCE = """
import atexit
atexit.register(print, "end of the first")
print("begin of the first", end="; ")  # not flushed
try:
    print(begun("log", ours("dafka", "tower", "--no-such-option")).wait())
finally:
    print("finally")
"""


def test_a_copy_does_nothing_of_what_its_parent_was_about_to_do(run, tmp_path):
    assert run(ONCE) == "begin of the first; 2\nfinally\nend of the first\n"
    assert "first" not in (tmp_path / "log").read_text()


SOON = """
signal.signal(signal.SIGTERM, lambda *_: None)
for number in range(10):
    running = begun("log", ours("dafka", "tower", "--endpoint", "ipc:///{place}"))
    running.terminate()
    print(running.wait(60))
"""


def test_what_is_told_to_end_as_it_begins_does(run, tmp_path):
    assert set(run(SOON.format(place=tmp_path / "tower")).split()) <= {"-15", "0"}


ORPHAN = """
running = begun("log", ours("dafka", "tower", "--endpoint", "ipc:///{place}"))
until(lambda: "is up" in Path("log").read_text())
print(running.pid, flush=True)
os.kill(os.getpid(), signal.SIGSTOP)
"""


def test_a_copy_ends_with_its_killed_parent(tmp_path, until):
    code = BEGIN + ORPHAN.format(place=tmp_path / "tower")
    environment = os.environ | {"PYTHONPATH": str(ROOT)}
    with subprocess.Popen(
        [sys.executable, "-c", code], stdout=subprocess.PIPE, cwd=tmp_path, env=environment
    ) as parent:
        copy = Path("/proc") / parent.stdout.readline().decode().strip()
        assert copy.exists()
        parent.kill()
    until(lambda: not copy.exists() or "\nState:\tZ" in (copy / "status").read_text())


def test_a_copy_that_fails_says_so_and_ends(tmp_path, run):
    code = """
import dafka.cli.main
def fails():
    raise KeyError("a mistake of ours")
dafka.cli.main.main = fails
print(begun("log", ours("dafka", "tower")).wait())
"""
    assert run(code) == "1\n"
    assert "KeyError: 'a mistake of ours'" in (tmp_path / "log").read_text()


def test_signals_are_sent_to_who_is_there(monkeypatch):
    sent = []
    monkeypatch.setattr("distributor.cli.forked.os.kill", lambda *what: sent.append(what))
    statuses = iter([(0, 0), (7, 9)])
    monkeypatch.setattr("distributor.cli.forked.os.waitpid", lambda *_: next(statuses))
    one = forked.Forked(7)
    one.send_signal(signal.SIGSTOP)
    one.terminate()
    one.kill()
    assert sent == [(7, signal.SIGSTOP)]
    assert one.returncode == -9
