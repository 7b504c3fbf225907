"""Where `distributor up` notes that it runs, and what; so that other commands find it."""

from __future__ import annotations

import hashlib
import json
import os
import stat
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from distributor.errors import PlanError

if TYPE_CHECKING:
    from typing import Self

NOTE = "up.json"
"""In the directory of the logs."""


@dataclass(frozen=True, slots=True)
class PidFile:
    """A running `distributor up`.

    Attributes:
        pid: Its process.
        file: The topology it was started with, an absolute path.
        digest: Of the file's contents that it runs.
        problem: Why it did not take the contents it was last told to; empty if it did.
        began: When the process was started, as the system counts it; empty where it does not say.
        directory: Where it runs, which paths in the file are relative to.
    """

    pid: int
    file: str
    digest: str
    problem: str = ""
    began: str = ""
    directory: str = ""

    @classmethod
    def of(cls, file: Path, problem: str = "") -> Self:
        """This process, running what the file says now."""
        pid, digest = os.getpid(), digest_of(file.read_bytes())
        return cls(pid, str(file.resolve()), digest, problem, _began(pid), str(Path.cwd()))

    def note(self, logs: Path) -> None:
        """Write it down, whole or not at all."""
        write_whole(logs / NOTE, json.dumps(asdict(self)).encode())


def digest_of(octets: bytes) -> str:
    """A short name for contents."""
    return hashlib.blake2b(octets, digest_size=16).hexdigest()


def forget(logs: Path) -> None:
    """This process runs nothing any more. The note of another one stays."""
    with suppress(PlanError):
        if find(logs).pid == os.getpid():
            (logs / NOTE).unlink()


def refuse_second(logs: Path) -> None:
    """Make sure that nobody else has this directory: two would write into the same files.

    Raises:
        PlanError: Another `distributor up` that runs has its logs there.
    """
    try:
        found = find(logs)
    except PlanError:
        return
    if found.pid != os.getpid():
        raise PlanError(
            f"`distributor up {found.file}` runs already with its logs in {str(logs)!r}, "
            f"as process {found.pid}: stop it, or give another directory with --logs"
        )


def find(logs: Path) -> PidFile:
    """Return what runs.

    Raises:
        PlanError: Nothing does, as far as is noted in this directory.
    """
    none = PlanError(
        f"no `distributor up` has its logs in {str(logs)!r}: name its directory with --logs"
    )
    try:
        found = PidFile(**json.loads((logs / NOTE).read_bytes()))
        os.kill(found.pid, 0)
    except (OSError, OverflowError, TypeError, ValueError) as error:
        raise none from error
    if found.began != _began(found.pid):
        raise none  # the number is another process's by now
    return found


def _began(pid: int) -> str:
    """When a process was started: its number alone is given again, at the latest after a reboot."""
    try:
        status = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return ""  # no Linux
    return status.rpartition(")")[2].split()[19]


def write_whole(file: Path, octets: bytes) -> None:
    """Put contents in the place of others; whoever reads meanwhile finds the old or the new.

    A file that was there keeps its mode, another is its owner's only.
    """
    draft = file.with_name(f".{file.name}.draft")
    # Nobody's link is followed, nor is anybody's file of this name kept.
    draft.unlink(missing_ok=True)
    descriptor = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(descriptor, "wb") as stream:
        with suppress(FileNotFoundError):
            os.fchmod(descriptor, stat.S_IMODE(file.stat().st_mode))
        stream.write(octets)
        stream.flush()
        os.fsync(stream.fileno())
    draft.replace(file)
