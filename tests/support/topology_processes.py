"""The processes of a topology, started one by one, each by the release that is to run it."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

TODAY = Path(__file__).parents[2]

_COMMANDS = """
import json, sys
from pathlib import Path
from distributor.loading import load
from distributor.local.processes import processes_of
from topology import plan
file = Path(sys.argv[1])
print(json.dumps({one.name: one.command for one in processes_of(plan(load(file)), file)}))
"""


class TopologyProcesses:
    """Processes by the names that `distributor up` has for them.

    Args:
        file: The topology.
        logs: Where their output goes.
    """

    def __init__(self, file: Path, logs: Path) -> None:
        self._file = file
        self._logs = logs
        self._running: dict[str, subprocess.Popen] = {}
        self._commands: dict[Path, dict[str, list[str]]] = {}
        logs.mkdir(exist_ok=True)

    def __enter__(self) -> TopologyProcesses:
        return self

    def __exit__(self, *_: object) -> None:
        for running in self._running.values():
            running.kill()
        for running in self._running.values():
            running.wait(60)

    def names(self, release: Path = TODAY) -> list[str]:
        """All of them, in the order of starting."""
        if release not in self._commands:
            words = [sys.executable, "-c", _COMMANDS, str(self._file)]
            told = subprocess.check_output(words, env=self.within(release), cwd=self._logs)
            self._commands[release] = json.loads(told)
        return list(self._commands[release])

    def start(self, *names: str, release: Path = TODAY) -> None:
        """Start these."""
        for name in names:
            assert name in self.names(release)
            with (self._logs / f"{name}.log").open("ab") as output:
                self._running[name] = subprocess.Popen(
                    self._commands[release][name],
                    stdout=output,
                    stderr=subprocess.STDOUT,
                    env=self.within(release),
                    cwd=self._logs,
                )

    def stop(self, name: str, number: signal.Signals = signal.SIGTERM) -> int:
        """End one of them; its exit code."""
        self._running[name].send_signal(number)
        return self.ended(name)

    def ended(self, name: str) -> int:
        """The exit code of one of them that ends by itself, or has been told to."""
        return self._running.pop(name).wait(60)

    def log(self, name: str) -> str:
        """What one of them has said."""
        return (self._logs / f"{name}.log").read_text()

    @staticmethod
    def within(release: Path) -> dict[str, str]:
        """The environment of who runs a release."""
        return os.environ | {"PYTHONPATH": str(release)}
