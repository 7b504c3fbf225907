"""Processes that begin as copies of this one, which has loaded what they need.

To import costs a process more than all else until it is up. See ADR 63.
"""

from __future__ import annotations

import atexit
import gc
import os
import signal
import subprocess
import sys
import threading
import time
import traceback
from contextlib import suppress
from importlib import import_module
from math import inf
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn

from setproctitle import setproctitle

import dafka.cli.main
import distributor.cli.main
from distributor.local.supervisor import die_with_parent, execute, is_of_another_cluster

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import BinaryIO

    from distributor.local.supervisor import ChildProcess

LOOK_S = 0.01
"""How often to look whether a process that is waited for has ended."""


def begin(command: Sequence[str], output: BinaryIO) -> ChildProcess:
    """Begin a process, see `distributor.local.supervisor.Begin`: as a copy of this one, if it can.

    It cannot once this one has a second thread, which its copy would lack, with the locks that it
    holds; nor where it cannot be told how many there are, as nowhere but on Linux.

    Raises:
        OSError: The system has no room for another process.
    """
    program = _loaded(command)
    if program is None or not _alone():
        return execute(command, output)
    return _fork(program, command, output)


class Forked:
    """A copy of this process, with the words that `subprocess.Popen` has for one.

    Attributes:
        pid: Its number.
        returncode: How it ended, the number of a signal below 0; None as far as is known it runs.
    """

    def __init__(self, pid: int) -> None:
        self.pid = pid
        self.returncode: int | None = None

    def poll(self) -> int | None:
        """Look whether it has ended; returns how."""
        if self.returncode is None:
            ended, status = os.waitpid(self.pid, os.WNOHANG)
            if ended:
                self.returncode = os.waitstatus_to_exitcode(status)
        return self.returncode

    def wait(self, timeout: float | None = None) -> int:
        """Wait until it has ended; returns how.

        Raises:
            subprocess.TimeoutExpired: It has not within `timeout` seconds.
        """
        deadline = inf if timeout is None else time.monotonic() + timeout
        while (ended := self.poll()) is None:
            if timeout is not None and time.monotonic() >= deadline:
                raise subprocess.TimeoutExpired(str(self.pid), timeout)
            time.sleep(LOOK_S)
        return ended

    def send_signal(self, number: int) -> None:
        """Send it a signal, unless it has ended."""
        if self.poll() is None:  # until it is waited for, nobody else has its number
            os.kill(self.pid, number)

    def terminate(self) -> None:
        """Tell it to end."""
        self.send_signal(signal.SIGTERM)

    def kill(self) -> None:
        """End it at once."""
        self.send_signal(signal.SIGKILL)


def _loaded(command: Sequence[str]) -> Callable[[], None] | None:
    """Import what a command line of ours needs; returns what runs it, None if it is another's."""
    match command:
        case (sys.executable, "-m", "dafka", name, *_):
            commands, program = dafka.cli.main.COMMANDS, dafka.cli.main.main
        case (sys.executable, "-m", "distributor", name, *_):
            commands, program = distributor.cli.main.COMMANDS, distributor.cli.main.main
        case _:
            return None
    import_module(commands[name].where.partition(":")[0])
    return program


def _alone() -> bool:
    """Whether this process has one thread only."""
    try:
        return len([*Path("/proc/self/task").iterdir()]) == 1
    except OSError:
        return False


def _fork(program: Callable[[], None], command: Sequence[str], output: BinaryIO) -> Forked:
    _flush()
    gc.freeze()  # a collection there would copy every page that it looks at
    # What is sent to it before it is itself would be taken for sent to us.
    held = signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())
    try:
        pid = os.fork()
        if not pid:
            _become(program, command, output, held)
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, held)
    return Forked(pid)


def _become(
    program: Callable[[], None],
    command: Sequence[str],
    output: BinaryIO,
    held: set[int | signal.Signals],
) -> NoReturn:
    """Run the program, and end; whatever happens, nothing that our callers do is done here, too."""
    code = 1
    try:
        atexit._clear()  # noqa: SLF001 (ours)
        _part(output)
        sys.argv = [f"{sys.executable} -m {command[2]}", *command[3:]]
        setproctitle(" ".join(command))
        signal.pthread_sigmask(signal.SIG_SETMASK, held)
        program()
        code = 0
    except SystemExit as end:
        code = end.code if isinstance(end.code, int) else 1
    except BaseException:  # noqa: BLE001 (as the interpreter does)
        traceback.print_exc()
    finally:
        _end(code)


def _part(output: BinaryIO) -> None:
    """Have what a process has that is executed: see `execute`."""
    os.setsid()
    die_with_parent()
    for number in signal.valid_signals():
        if callable(signal.getsignal(number)):
            begun = signal.default_int_handler if number == signal.SIGINT else signal.SIG_DFL
            signal.signal(number, begun)
    # In this order, as we may have been started without some of them: the log may stand in one.
    for place in (1, 2):
        os.dup2(output.fileno(), place)
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    # By name: there may be places for a thousand million of them.
    for inherited in [int(one.name) for one in Path("/proc/self/fd").iterdir()]:
        if inherited > 2:
            with suppress(OSError):  # that by which they were listed
                os.close(inherited)
    for name in filter(is_of_another_cluster, list(os.environ)):
        del os.environ[name]


def _end(code: int) -> NoReturn:
    """Do what the interpreter does at its end; there are no other names for it."""
    try:
        threading._shutdown()  # type: ignore[attr-defined] # noqa: SLF001
        atexit._run_exitfuncs()  # noqa: SLF001
        _flush()
    finally:
        os._exit(code & 0xFF)


def _flush() -> None:
    for stream in (sys.stdout, sys.stderr):
        if stream is not None:
            stream.flush()
