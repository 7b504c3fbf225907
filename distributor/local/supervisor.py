"""Runs every process of a topology on this machine: start, restart with back-off, stop in order."""

from __future__ import annotations

import ctypes
import logging
import os
import signal
import subprocess
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from distributor.errors import ProcessError
from topology.processes import Process, ProcessKind

if TYPE_CHECKING:
    from pathlib import Path
    from typing import BinaryIO

log = logging.getLogger(__name__)

BACKOFF_S = 0.25
"""Wait before the first restart."""

BACKOFF_S_MAX = 10.0
"""The wait doubles up to this."""

STEADY_S = 30.0
"""A process that has run for this long starts again at the first wait."""

STOP_S = 8.0
"""How long processes of one kind may take to stop before they are killed."""

LOG_BYTES_MAX = 10 * 1024 * 1024
"""A log file larger than this is begun anew when its process starts."""

_PR_SET_PDEATHSIG = 1


class ChildProcess(Protocol):
    """A process of the operating system: what is used of `subprocess.Popen`."""

    @property
    def pid(self) -> int:
        """Its number."""

    def poll(self) -> int | None:
        """Look whether it has ended; returns how, the number of a signal below 0."""

    def wait(self, timeout: float | None = None) -> int:
        """Wait until it has ended; returns how.

        Raises:
            subprocess.TimeoutExpired: It has not within `timeout` seconds.
        """

    def send_signal(self, number: int, /) -> None:
        """Send it a signal, unless it has ended."""

    def terminate(self) -> None:
        """Tell it to end."""

    def kill(self) -> None:
        """End it at once."""


Begin = Callable[[Sequence[str], "BinaryIO"], ChildProcess]
"""Begins a process with the words of its command, in a session of its own, without input, with its
output going to a file, and ending with this one; raises `OSError` where it cannot."""


def execute(command: Sequence[str], output: BinaryIO) -> ChildProcess:
    """Begin a process by executing its program; see `Begin`."""
    # A session of its own: Ctrl-C reaches us alone, and we stop them in order.
    return subprocess.Popen(  # noqa: S603 (our own command lines)
        command,
        stdin=subprocess.DEVNULL,
        stdout=output,
        stderr=subprocess.STDOUT,
        start_new_session=True,
        env={name: value for name, value in os.environ.items() if not is_of_another_cluster(name)},
        preexec_fn=die_with_parent,
    )


def is_of_another_cluster(variable: str) -> bool:
    """Whether a variable of the environment says an option of `dafka`'s commands.

    To our processes the topology file does.
    """
    return variable.startswith("DAFKA_")


@dataclass(slots=True)
class Child:
    """A process and its history.

    Attributes:
        process: What it is.
        running: The operating system's process, None between a death and the restart.
        restarts: How often it was started again.
        last_exit: What its last death looked like, for people.
        held: Whether it is kept down.
    """

    process: Process
    running: ChildProcess | None = None
    restarts: int = 0
    last_exit: str = ""
    started_s: float = 0.0
    backoff_s: float = BACKOFF_S
    due_s: float = 0.0
    held: bool = False

    @property
    def state(self) -> str:
        """`up`, or when it comes back."""
        if self.running is not None:
            return "up"
        if self.held:
            return "kept down"
        return f"restarts in {max(0.0, self.due_s - time.monotonic()):.1f} s"


@dataclass(frozen=True, slots=True)
class ProcessChanges:
    """Names of the processes that a new topology has started, stopped and started again."""

    started: tuple[str, ...]
    stopped: tuple[str, ...]
    restarted: tuple[str, ...]

    def __str__(self) -> str:
        parts = [
            f"{what} {', '.join(names)}"
            for what, names in (
                ("stopped", self.stopped),
                ("started", self.started),
                ("started again", self.restarted),
            )
            if names
        ]
        return "; ".join(parts) or "nothing has to be started or stopped"


class Supervisor:
    """The processes of one topology.

    Must be used from one thread only, the one that lives longest: children end with it.

    Args:
        processes: In the order of starting.
        logs: Directory for what they print, one file each; made if it is not there.
        stop_s: How long processes of one kind may take to stop before they are killed.
        begin: Begins one of them.
    """

    def __init__(
        self,
        processes: Sequence[Process],
        logs: Path,
        stop_s: float = STOP_S,
        begin: Begin = execute,
    ) -> None:
        self._stop_s = stop_s
        self._begin = begin
        self.children = [Child(process) for process in processes]
        self._logs = logs

    def start(self) -> None:
        """Start everything.

        Raises:
            ProcessError: Something cannot be started; what was started is stopped again.
        """
        try:
            self._logs.mkdir(mode=0o700, parents=True, exist_ok=True)
            for child in self.children:
                self._spawn(child)
        except OSError as error:
            self.stop()
            raise ProcessError(f"cannot start the processes: {error}") from error

    def watch(self) -> list[Child]:
        """Notice who has died and restart who is due; returns those that died since last time."""
        now = time.monotonic()
        died = []
        for child in self.children:
            if child.running is not None and child.running.poll() is not None:
                self._bury(child, now)
                died.append(child)
            if child.running is None and not child.held and child.due_s <= now:
                self._respawn(child, now)
        return died

    def apply(self, processes: Sequence[Process]) -> ProcessChanges:
        """Run these from now on; what is in both and the same is left alone.

        What is gone or changed is stopped, in order, before anything new is started. What cannot
        be started is tried again by `watch`.
        """
        now = time.monotonic()
        kept = {child.process.name: child for child in self.children if child.process in processes}
        old = {child.process.name for child in self.children}
        self._stop([child for child in self.children if child.process.name not in kept])
        self.children = [kept.get(process.name) or Child(process) for process in processes]
        new = [process.name for process in processes if process.name not in kept]
        for child in self.children:
            if child.process.name in new:
                self._try(child, now)
        return ProcessChanges(
            started=tuple(name for name in new if name not in old),
            stopped=tuple(sorted(old - {process.name for process in processes})),
            restarted=tuple(name for name in new if name in old),
        )

    def stop(self) -> None:
        """Stop distributors, then stores, then towers; kill what does not end in time."""
        self._stop(self.children)

    def _stop(self, children: Sequence[Child]) -> None:
        for kind in reversed(ProcessKind):
            alive = [
                child.running
                for child in children
                if child.process.kind is kind and child.running is not None
            ]
            for running in alive:
                running.terminate()
            deadline = time.monotonic() + self._stop_s
            for running in alive:
                try:
                    running.wait(max(0.0, deadline - time.monotonic()))
                except subprocess.TimeoutExpired:
                    log.warning("process does not stop", extra={"pid": running.pid})
                    running.kill()
                    running.wait()
        for child in children:
            child.running = None

    def kill(self, name: str) -> None:
        """Kill -9 a process; `watch` starts it again."""
        for child in self.children:
            if child.process.name == name and child.running is not None:
                child.running.kill()

    def take_down(self, cluster: str) -> int:
        """Kill -9 every process of a cluster and keep it down; returns how many."""
        children = [child for child in self.children if child.process.cluster == cluster]
        for child in children:
            child.held = True
            if child.running is not None:
                child.running.kill()
        for child in children:
            if child.running is not None:
                child.running.wait()
                child.running = None
        return len(children)

    def bring_back(self, cluster: str) -> None:
        """Let every process of a cluster be started again, by the next `watch`."""
        for child in self.children:
            if child.process.cluster == cluster:
                child.held = False
                child.due_s = 0.0

    def log_file(self, child: Child) -> Path:
        """Where a child's output goes."""
        return self._logs / f"{child.process.name}.log"

    def _spawn(self, child: Child) -> None:
        file = self.log_file(child)
        if file.exists() and file.stat().st_size > LOG_BYTES_MAX:
            file.unlink()
        flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_NOFOLLOW
        with os.fdopen(os.open(file, flags, 0o600), "ab") as output:
            child.running = self._begin(child.process.command, output)
        child.started_s = time.monotonic()

    def _respawn(self, child: Child, now: float) -> None:
        child.restarts += 1
        self._try(child, now)

    def _try(self, child: Child, now: float) -> None:
        try:
            self._spawn(child)
        except OSError as error:
            # A full disk, say: the others are kept running, and this one is tried again.
            log.warning("cannot start", extra={"child": child.process.name, "error": str(error)})
            child.last_exit = f"cannot start: {error.strerror}"
            self._put_off(child, now)

    def _bury(self, child: Child, now: float) -> None:
        assert child.running is not None
        code = child.running.wait()
        child.running = None
        child.last_exit = f"signal {-code}" if code < 0 else f"exit code {code}"
        if now - child.started_s >= STEADY_S:
            child.backoff_s = BACKOFF_S
        self._put_off(child, now)

    def _put_off(self, child: Child, now: float) -> None:
        child.due_s = now + child.backoff_s
        child.backoff_s = min(child.backoff_s * 2, BACKOFF_S_MAX)


def die_with_parent() -> None:
    """Ask Linux to stop this process when its parent dies, even by kill -9; elsewhere it lives on.

    Otherwise orphans would keep the ports and the logs' directories.
    """
    try:
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)
    except AttributeError:
        return
