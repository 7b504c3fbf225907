"""Where `distributor up` notes that it runs, and what; so that other commands find it."""

from __future__ import annotations

import hashlib
import json
import os
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING

from distributor.errors import PlanError

if TYPE_CHECKING:
    from pathlib import Path
    from typing import Self

NOTE = "up.json"
"""In the directory of the logs."""


@dataclass(frozen=True, slots=True)
class Running:
    """A running `distributor up`.

    Attributes:
        pid: Its process.
        file: The topology it was started with, an absolute path.
        digest: Of the file's contents that it runs.
        problem: Why it did not take the contents it was last told to; empty if it did.
    """

    pid: int
    file: str
    digest: str
    problem: str = ""

    @classmethod
    def of(cls, file: Path, problem: str = "") -> Self:
        """This process, running what the file says now."""
        return cls(os.getpid(), str(file.resolve()), digest_of(file.read_bytes()), problem)

    def note(self, logs: Path) -> None:
        """Write it down, whole or not at all."""
        write_whole(logs / NOTE, json.dumps(asdict(self)).encode())


def digest_of(octets: bytes) -> str:
    """A short name for contents."""
    return hashlib.blake2b(octets, digest_size=16).hexdigest()


def forget(logs: Path) -> None:
    """Nothing runs any more."""
    (logs / NOTE).unlink(missing_ok=True)


def find(logs: Path) -> Running:
    """Return what runs.

    Raises:
        PlanError: Nothing does, as far as is noted in this directory.
    """
    try:
        found = Running(**json.loads((logs / NOTE).read_bytes()))
        os.kill(found.pid, 0)
    except (OSError, OverflowError, TypeError, ValueError) as error:
        hint = "name its directory with --logs"
        raise PlanError(f"no `distributor up` has its logs in {str(logs)!r}: {hint}") from error
    return found


def write_whole(file: Path, octets: bytes) -> None:
    """Put contents in the place of others; whoever reads meanwhile finds the old or the new."""
    draft = file.with_name(f".{file.name}.draft")
    with draft.open("wb") as stream:
        stream.write(octets)
        stream.flush()
        os.fsync(stream.fileno())
    draft.replace(file)
