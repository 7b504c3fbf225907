"""One process per directory: two stores over one log would acknowledge past each other."""

from __future__ import annotations

import fcntl
import os
from contextlib import suppress
from typing import TYPE_CHECKING

from dafka.errors import StorageError

if TYPE_CHECKING:
    from pathlib import Path

LOCK_NAME = "owner.pid"


class DirectoryLock:
    """Held from construction until `release`, or until the process ends, however it ends.

    Args:
        directory: Exists.
        kind: What it holds, in a word, for error messages.

    Raises:
        StorageError: Another process holds it, or the directory cannot be written to.
    """

    def __init__(self, directory: Path, kind: str) -> None:
        path = directory / LOCK_NAME
        try:
            descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o644)
        except OSError as error:
            raise StorageError(
                f"cannot lock {kind} directory {str(directory)!r}: {error}"
            ) from error
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            holder = os.read(descriptor, 32).decode("ascii", "replace").strip()
            os.close(descriptor)
            raise StorageError(
                f"cannot open {kind} at {str(directory)!r}: in use by process {holder or 'unknown'}"
            ) from error
        # For the message above only; a disk too full for it is no reason not to serve reads.
        with suppress(OSError):
            os.truncate(descriptor, 0)
            os.pwrite(descriptor, b"%d\n" % os.getpid(), 0)
        self._descriptor = descriptor

    def release(self) -> None:
        """Let the next process in. The file stays: removing it would race with that process."""
        os.close(self._descriptor)
