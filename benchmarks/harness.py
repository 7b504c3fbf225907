"""Real processes, measured: started together, warmed up, their CPU time accounted for."""

from __future__ import annotations

import multiprocessing
import os
import random
import signal
import socket
import statistics
import time
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

from rich.console import Console

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from multiprocessing.connection import Connection

_SPAWN = multiprocessing.get_context("spawn")

PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")

PROGRESS = Console(stderr=True)
"""Where is said how far it is."""

ANSWER_S = 120.0
"""A process that says nothing for so long is stuck."""


PATIENCE_S = 1_800.0
"""One that measures by itself, for minutes, and for more on a busy machine, after so long."""


class Worker:
    """A function in a process of its own; `work(pipe, *arguments)` talks to us through the pipe."""

    def __init__(self, work: Callable[..., None], *arguments: object) -> None:
        self._pipe, theirs = _SPAWN.Pipe()
        self._process = _SPAWN.Process(target=work, args=(theirs, *arguments), daemon=True)
        self._process.start()
        theirs.close()

    def tell(self, what: object) -> None:
        """Send something."""
        self._pipe.send(what)

    def hear(self, seconds: float = ANSWER_S) -> Any:  # noqa: ANN401 (whatever the function sends)
        """Wait for what it sends, for so long."""
        if not self._pipe.poll(seconds):
            raise TimeoutError(f"{self._process.name} says nothing for {seconds:.0f} s")
        return self._pipe.recv()

    def pause(self) -> None:
        """Let it do nothing at all until `go_on`."""
        self._signal(signal.SIGSTOP)

    def go_on(self) -> None:
        """See `pause`."""
        self._signal(signal.SIGCONT)

    def end(self) -> None:
        """Let it end, or make it."""
        self._pipe.close()
        self._process.join(10)
        if self._process.is_alive():
            self._process.kill()
            self._process.join()

    def _signal(self, which: signal.Signals) -> None:
        assert self._process.pid is not None, "it was started"
        os.kill(self._process.pid, which)


@contextmanager
def scratch() -> Iterator[Path]:
    """A directory on the disk that is measured, gone afterwards; `/tmp` may be memory."""
    parent = Path("data")
    parent.mkdir(exist_ok=True)
    with TemporaryDirectory(dir=parent, prefix="bench-") as directory:
        yield Path(directory).resolve()


def cpu_seconds() -> float:
    """CPU time of this process so far, all threads, user and system."""
    return time.process_time()


def tree_cpu_seconds() -> float:
    """CPU time of this process and all below it so far, with those that have ended."""
    parents: dict[int, int] = {}
    spent: dict[int, int] = {}
    for stat in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError):  # it has ended meanwhile
            fields = stat.read_text().rpartition(")")[2].split()
            process = int(stat.parent.name)
            parents[process], spent[process] = int(fields[1]), sum(map(int, fields[11:15]))
    ours = {os.getpid()}
    while below := {one for one, parent in parents.items() if parent in ours} - ours:
        ours |= below
    return sum(spent[one] for one in ours if one in spent) / os.sysconf("SC_CLK_TCK")


def take_core(number: int) -> None:
    """Let this process run on one core only of those that it may use; -1 is the last of them."""
    os.sched_setaffinity(0, {sorted(os.sched_getaffinity(0))[number]})


def own_bytes(process: int | str = "self") -> int:
    """Resident memory of a process without mapped files: a store maps its whole log."""
    _, resident, shared, *_ = Path(f"/proc/{process}/statm").read_text().split()
    return (int(resident) - int(shared)) * PAGE_BYTES


def until_told(pipe: Connection) -> bool:
    """Sleep until the other end says something (True) or goes away."""
    try:
        pipe.recv()
    except (EOFError, ConnectionResetError):
        return False
    return True


@dataclass(slots=True)
class Series:
    """One quantity over the repetitions."""

    name: str
    unit: str
    values: list[float] = field(default_factory=list)

    @property
    def median(self) -> float:
        """The middle one."""
        return statistics.median(self.values)

    def as_json(self) -> dict[str, Any]:
        """For scripts."""
        return {
            "name": self.name,
            "unit": self.unit,
            "median": self.median,
            "min": min(self.values),
            "max": max(self.values),
            "values": self.values,
        }


class Parts:
    """What is measured one after the other: if one fails, the others are measured all the same."""

    def __init__(self) -> None:
        self._failures: list[Exception] = []

    @contextmanager
    def part(self, name: str) -> Iterator[None]:
        """Do one; if it fails, that is told by `end`."""
        PROGRESS.print(name)
        try:
            yield
        except Exception as error:  # noqa: BLE001 (whatever it is, `end` raises it)
            PROGRESS.print(f"{name}: {error!r}")
            error.add_note(name)
            self._failures.append(error)

    def end(self) -> None:
        """Raise what has failed.

        Raises:
            ExceptionGroup: Something has.
        """
        if self._failures:
            raise ExceptionGroup("not all could be measured", self._failures)


class Results:
    """All quantities of a run."""

    def __init__(self) -> None:
        self._series: dict[str, Series] = {}

    def add(self, name: str, unit: str, value: float) -> None:
        """Add one measurement."""
        self._series.setdefault(name, Series(name, unit)).values.append(value)

    def __iter__(self) -> Iterator[Series]:
        return iter(self._series.values())

    def ratio(self, name: str, baseline: str) -> float | None:
        """Median of the ratios of two quantities, repetition by repetition; None if one lacks."""
        one, other = self._series.get(name), self._series.get(baseline)
        if one is None or other is None:
            return None
        pairs = zip(one.values, other.values, strict=False)
        return statistics.median(value / base for value, base in pairs)


def rate(count: int, began: float) -> float:
    """How many a second since `began`, a reading of `time.perf_counter`."""
    return count / (time.perf_counter() - began)


def free_ports(count: int) -> int:
    """The first of `count` free ports in a row, none of which an outgoing connection may take."""
    while True:
        first = random.randrange(20_000, 32_000)  # noqa: S311 (no secret)
        if all(_is_free(first + step) for step in range(count)):
            return first


def _is_free(port: int) -> bool:
    with socket.socket() as probe:
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return False
    return True
