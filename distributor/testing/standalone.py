"""A cluster of Spark on this machine: a master and workers, each a process, without any of ours.

Executors are children of their workers, with the Python that the driver names and nothing else.
"""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from dafka.spark.session import ensure_java, program
from distributor.errors import ProcessError
from distributor.local.supervisor import die_with_parent

if TYPE_CHECKING:
    from collections.abc import Iterator
    from types import TracebackType

WORKERS = 2

READY_S = 120.0
"""Some seconds, on a quiet machine."""

CLASSES = Path(sys.prefix, "spark.jsa")
"""Spark's classes as a Java has loaded them, for others to map; `make test` writes it."""

FRUGAL = (
    "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC "
    f'-Xshare:auto -Xlog:cds=off -Xlog:class+path=off "-XX:SharedArchiveFile={CLASSES}"'
)
"""Java's second compiler and threads of its collector pay in minutes, not in a test. Without the
archive, or with that of another Java, all comes from Spark's jars, at twice the cost."""

_REGISTERED = re.compile(r"Registering worker (127\.0\.0\.\d+):")

_EXECUTOR = b"CoarseGrainedExecutorBackend"


class Standalone:
    """A master and its workers, each on a loopback address of its own; ends with the block.

    Spark begins no second attempt of a task on the host of the first one.

    Args:
        directory: For their logs, and what executors leave.
        port: Of the master.
        cores: Of each worker.
        ready_s: How long master and workers may take to find each other.
    """

    def __init__(
        self, directory: Path, port: int, *, cores: int = 1, ready_s: float = READY_S
    ) -> None:
        self.master = f"spark://127.0.0.1:{port}"
        self._directory = directory
        self._ready_s = ready_s
        self._words = ("--cores", str(cores), "--memory", "1g", "--webui-port", "0")
        self._running: dict[int, subprocess.Popen[bytes]] = {}
        """By number: the master is 0, workers begin with 1."""

    def __enter__(self) -> Standalone:
        ensure_java()
        port = self.master.rpartition(":")[2]
        try:
            self._run(0, "master.Master", "--port", port, "--webui-port", "0")
            for worker in range(1, WORKERS + 1):
                self.start(worker)
            self._wait()
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def start(self, worker: int) -> None:
        """Start a worker; it finds the master by itself, and no sooner than it is up."""
        work = ("--work-dir", str(self._directory / f"work-{worker}"))
        self._run(worker, "worker.Worker", *self._words, *work, self.master)

    def kill(self, worker: int) -> None:
        """Kill a worker with signal 9; its executors notice and end themselves."""
        self._running[worker].kill()
        self._running[worker].wait()

    def executors(self, worker: int) -> list[int]:
        """The process ids of a worker's executors."""
        return [
            child for child in _children(self._running[worker].pid) if _EXECUTOR in _command(child)
        ]

    def applications(self) -> list[str]:
        """The names of all that were run here, in their order."""
        return re.findall(r"Registered app (.+) with ID", self._log(0).read_text())

    def close(self) -> None:
        """Kill all of it: nothing of it is kept."""
        for number, process in sorted(self._running.items(), reverse=True):
            orphans = [one for child in self.executors(number) for one in family(child)]
            process.kill()
            process.wait()
            signal_all(orphans, signal.SIGKILL)
        self._running.clear()

    def _run(self, number: int, role: str, *words: str) -> None:
        plain = {name: text for name, text in os.environ.items() if not name.startswith("PY")}
        host = f"127.0.0.{max(1, number)}"
        with self._log(number).open("ab") as log:
            self._running[number] = subprocess.Popen(  # noqa: S603 (Spark's own program)
                [
                    program("spark-class"),
                    f"org.apache.spark.deploy.{role}",
                    *("--host", host, *words),
                ],
                env=plain | {"SPARK_DAEMON_JAVA_OPTS": FRUGAL, "SPARK_DAEMON_MEMORY": "256m"},
                cwd=self._directory,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
                preexec_fn=die_with_parent,
            )

    def _log(self, number: int) -> Path:
        return self._directory / (f"worker-{number}.log" if number else "master.log")

    def _wait(self) -> None:
        deadline = time.monotonic() + self._ready_s
        while len(set(_REGISTERED.findall(self._log(0).read_text()))) < WORKERS:
            if time.monotonic() > deadline:
                raise ProcessError(
                    f"Spark's workers are not at their master after {self._ready_s:.0f} s: "
                    f"see {str(self._directory)!r}"
                )
            time.sleep(0.1)


def family(pid: int) -> Iterator[int]:
    """Yield a process and all that come from it."""
    yield pid
    for child in _children(pid):
        yield from family(child)


def signal_all(pids: list[int], number: signal.Signals) -> None:
    """Send a signal to processes; who has ended meanwhile needs none."""
    for pid in pids:
        with suppress(ProcessLookupError):
            os.kill(pid, number)


def _children(pid: int) -> list[int]:
    found: list[int] = []
    for file in Path(f"/proc/{pid}/task").glob("*/children"):
        with suppress(OSError):
            found += map(int, file.read_text().split())
    return found


def _command(pid: int) -> bytes:
    with suppress(OSError):
        return Path(f"/proc/{pid}/cmdline").read_bytes()
    return b""
