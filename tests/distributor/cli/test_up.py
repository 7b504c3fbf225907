"""`distributor up` without processes: what it watches and shows."""

from __future__ import annotations

from threading import Event

from rich.console import Console

from distributor.cli.up import watch
from distributor.processes import Kind, Process
from distributor.supervisor import Supervisor
from topology import load, plan


class Told(Event):
    """Says stop after so many looks."""

    def __init__(self, looks):
        super().__init__()
        self.looks = looks

    def wait(self, timeout=None):
        self.looks -= 1
        return super().wait(timeout) or self.looks < 0


def test_without_a_terminal_each_death_is_a_line(tmp_path, four):
    process = Process(
        name="c1-store-1",
        kind=Kind.STORE,
        cluster="c1",
        command=("/bin/sh", "-c", "exit 3"),
        metrics=None,
    )
    supervisor = Supervisor([process], tmp_path)
    supervisor.start()
    console = Console(force_terminal=False)
    with console.capture() as captured:
        watch(plan(load(four)), supervisor, console, Told(2))
    supervisor.stop()
    assert "c1-store-1 has died: exit code 3" in captured.get()
