"""Schemas are judged in processes of their own, which are ended when that takes too long.

The libraries that read and compare schemas have no bound of work. A process has: of time and of
memory, and no other request waits for it.

A case and its ruling are one line of JSON each, over the process's standard streams.
"""

from __future__ import annotations

import json
import os
import resource
import select
import signal
import subprocess
import sys
import time
from queue import Empty, SimpleQueue
from tempfile import TemporaryDirectory
from threading import BoundedSemaphore
from typing import TYPE_CHECKING

from dafka.errors import RegistryError
from dafka.schemas.compatibility import Source
from dafka.schemas.rulings import Case, Ruling, judge

WORK_S_MAX = 5.0
"""How long one case may take; usual ones take milliseconds."""

START_S_MAX = 20.0
"""How long a process may take to start, with its libraries, on a busy machine."""

WORK_BYTES_MAX = 1 << 30
"""Memory of one of them."""

FILE_BYTES_MAX = 256 << 20
"""Of a file in its folder; what a schema of Protobuf may use is 100 MiB at most."""

WORKERS = 2

WAITING_MAX = 16
"""Questions that are judged or wait for that; whoever comes beyond is to try again later."""

if TYPE_CHECKING:
    from typing import Self

_READY = b"ready\n"


class Judges:
    """Processes that judge; safe to use from several threads. They are started when needed.

    Args:
        work_s_max: How long a case may take.
    """

    def __init__(self, work_s_max: float = WORK_S_MAX) -> None:
        self._work_s_max = work_s_max
        self._places = BoundedSemaphore(WAITING_MAX)
        self._idle: SimpleQueue[_Worker] = SimpleQueue()
        for _ in range(WORKERS):
            self._idle.put(_Worker())

    def __call__(self, case: Case) -> Ruling:
        """Return the ruling on a case.

        Raises:
            RegistryError: 42201, it takes too much time or memory; 50301, too many wait.
        """
        if not self._places.acquire(blocking=False):
            raise _busy()
        try:
            worker = self._idle.get(timeout=START_S_MAX + WAITING_MAX * self._work_s_max)
        except Empty:
            raise _busy() from None
        else:
            try:
                return worker.judge(case, self._work_s_max)
            finally:
                self._idle.put(worker)
        finally:
            self._places.release()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """End the processes."""
        for _ in range(WORKERS):
            self._idle.get().end()


def _busy() -> RegistryError:
    return RegistryError(50301, "Too many schemas wait to be compared: repeat the request later.")


class _Worker:
    """One process with a folder of its own for what it writes, or none at present."""

    def __init__(self) -> None:
        self._process: subprocess.Popen[bytes] | None = None
        self._folder: TemporaryDirectory[str] | None = None

    def judge(self, case: Case, work_s_max: float) -> Ruling:
        if self._process is not None and self._process.poll() is not None:
            self.end()  # died while it had nothing to do: no fault of this case
        process = self._process or self._start()
        assert process.stdin is not None
        try:
            process.stdin.write(json.dumps(case).encode() + b"\n")
            process.stdin.flush()
            answer = _line(process, work_s_max)
        except OSError:
            answer = b""
        if not answer:
            # It has too much to do, or has asked for too much memory: another one starts afresh.
            self.end()
            raise RegistryError(
                42201,
                f"Input schema is an invalid schema, details: to judge it takes more than "
                f"{work_s_max:g} s or {WORK_BYTES_MAX >> 20} MiB; make it simpler",
            )
        error, obstacles, compiled = json.loads(answer)
        return Ruling(error, tuple(obstacles), compiled)

    def end(self) -> None:
        process, self._process = self._process, None
        if process is not None:
            process.kill()
            process.communicate()
        folder, self._folder = self._folder, None
        if folder is not None:
            folder.cleanup()

    def _start(self) -> subprocess.Popen[bytes]:
        self._folder = TemporaryDirectory(prefix="dafka-schemas-")
        self._process = process = subprocess.Popen(
            [sys.executable, "-m", "dafka.schemas.worker"],
            env={**os.environ, "TMPDIR": self._folder.name},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
        )
        if _line(process, START_S_MAX) != _READY:
            self.end()
            raise _busy()
        return process


def _line(process: subprocess.Popen[bytes], seconds: float) -> bytes:
    """The next line that a process writes; empty if it ends, or time is up, before."""
    assert process.stdout is not None
    descriptor, deadline, line = process.stdout.fileno(), time.monotonic() + seconds, b""
    while not line.endswith(b"\n"):
        left_s = deadline - time.monotonic()
        if left_s <= 0 or not select.select([descriptor], [], [], left_s)[0]:
            return b""
        part = os.read(descriptor, 1 << 16)
        if not part:
            return b""
        line += part
    return line


def main() -> None:
    """Judge what standard input asks, until it ends."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the registry ends it
    resource.setrlimit(resource.RLIMIT_AS, (WORK_BYTES_MAX, WORK_BYTES_MAX))
    resource.setrlimit(resource.RLIMIT_FSIZE, (FILE_BYTES_MAX, FILE_BYTES_MAX))
    sys.stdout.buffer.write(_READY)
    sys.stdout.flush()
    for line in sys.stdin.buffer:
        new, level, earlier = json.loads(line)
        case = Case(_source(new), level, tuple(map(_source, earlier)))
        # Should the registry be gone, nobody else ends it.
        signal.setitimer(signal.ITIMER_REAL, 4 * WORK_S_MAX)
        ruling = judge(case)
        signal.setitimer(signal.ITIMER_REAL, 0)
        sys.stdout.buffer.write(json.dumps(ruling).encode() + b"\n")
        sys.stdout.flush()


def _source(fields: tuple[str, str, list[tuple[str, str]]]) -> Source:
    language, text, uses = fields
    return Source(language, text, tuple((name, used) for name, used in uses))


if __name__ == "__main__":
    main()
