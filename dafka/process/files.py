"""Small files that people keep: read within a bound, written whole, secrets where they are safe."""

from __future__ import annotations

import fcntl
import os
import stat
import time
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING

from dafka.errors import MisuseError

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path
    from typing import TextIO


OWNER_ONLY = 0o700
"""The mode of a directory that nobody else can enter."""

LOCK_WAIT_S = 10.0
"""How long a directory is waited for that another process has locked."""

_LOCK_AGAIN_S = 0.02


def text_of(file: Path, bytes_max: int, *, private: bool = False) -> str:
    """Read a file.

    Args:
        file: Which.
        bytes_max: What it may have.
        private: Whether it may not be open to others; see `is_open_to_others`.

    Raises:
        MisuseError: It cannot be read, is larger, no text, or open to others.
    """
    try:
        with file.open("rb") as opened:
            found = os.fstat(opened.fileno())
            octets = opened.read(bytes_max + 1)
        text = octets.decode()
    except OSError as error:
        raise MisuseError(f"cannot read {str(file)!r}: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise MisuseError(f"file {str(file)!r} cannot be used: not UTF-8 text") from error
    if private and is_open_to_others(found.st_mode, found.st_uid, os.geteuid()):
        raise MisuseError(
            f"key file {str(file)!r} cannot be used: others may read it "
            f"(mode {stat.S_IMODE(found.st_mode):o}); "
            f"chmod 600 {file}"
        )
    if len(octets) > bytes_max:
        raise MisuseError(f"file {str(file)!r} cannot be used: larger than {bytes_max} bytes")
    return text


def is_open_to_others(mode: int, owner: int, user: int) -> bool:
    """Whether others than a secret's holder can do something with its file.

    Its group may read a file of root's that another user reads, who could not otherwise: so
    Kubernetes gives secrets to a pod with `fsGroup`. PostgreSQL has the same rule.

    Args:
        mode: The file's.
        owner: Its owner's number.
        user: That of who reads it.
    """
    by_group = stat.S_IRGRP if owner == 0 and user != 0 else 0
    return bool(mode & (stat.S_IRWXG | stat.S_IRWXO) & ~by_group)


def write_secret(file: Path, secret: str) -> None:
    """Write a file that only its owner can read; never over one that is there.

    Raises:
        MisuseError: It is there, or cannot be written.
    """
    try:
        descriptor = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    except OSError as error:
        raise MisuseError(f"cannot write key file {str(file)!r}: {error.strerror}") from error
    with os.fdopen(descriptor, "w") as opened:
        opened.write(secret + "\n")
        _sync(opened)
    _sync_directory(file.parent)


def private_directory(path: Path) -> None:
    """Make a directory that only its owner can enter, or make sure that it is one.

    Raises:
        MisuseError: It cannot be made, is another user's, or others may enter it.
    """
    try:
        path.mkdir(mode=OWNER_ONLY, parents=True, exist_ok=True)
        found = path.stat()
    except OSError as error:
        raise MisuseError(f"cannot make directory {str(path)!r}: {error.strerror}") from error
    if found.st_uid != os.geteuid():
        raise MisuseError(
            f"directory {str(path)!r} cannot be used: it is another user's; name another one"
        )
    mode = stat.S_IMODE(found.st_mode)
    if mode & ~OWNER_ONLY:
        raise MisuseError(
            f"directory {str(path)!r} cannot be used: others may enter it (mode {mode:o}); "
            f"chmod 700 {path}"
        )


@contextmanager
def locked(directory: Path, wait_s: float = LOCK_WAIT_S) -> Iterator[None]:
    """Keep other processes of ours from changing files of a directory meanwhile.

    Args:
        directory: The lock is on it itself, so that nothing is left there.
        wait_s: How long to wait for one that has it.

    Raises:
        MisuseError: It cannot be opened, or another process keeps it for longer.
    """
    try:
        descriptor = os.open(directory, os.O_RDONLY | os.O_DIRECTORY)
    except OSError as error:
        raise MisuseError(f"cannot open directory {str(directory)!r}: {error.strerror}") from error
    try:
        until_s = time.monotonic() + wait_s
        while not _lock(descriptor):
            if time.monotonic() >= until_s:
                raise MisuseError(
                    f"another process is changing files of {str(directory)!r}: try again"
                )
            time.sleep(_LOCK_AGAIN_S)
        yield
    finally:
        os.close(descriptor)


def _lock(descriptor: int) -> bool:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def replace_text(file: Path, text: str, *, private: bool = False) -> None:
    """Write a file whole or not at all, also if power fails: processes may be reading it.

    One that is there keeps its owner and mode, as far as that is ours to give. Of several that
    write the same file each has to have its directory `locked`.

    Args:
        file: It need not be there.
        text: All of it.
        private: Whether only its owner may read it.

    Raises:
        OSError: It cannot be written.
    """
    draft = file.with_suffix(".new")
    draft.unlink(missing_ok=True)
    descriptor = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600 if private else 0o666)
    with os.fdopen(descriptor, "w", encoding="utf-8") as opened:
        if file.exists():
            found = file.stat()
            with suppress(PermissionError):  # not everybody may give files away
                os.fchown(descriptor, found.st_uid, found.st_gid)
            os.fchmod(descriptor, 0o600 if private else stat.S_IMODE(found.st_mode))
        opened.write(text)
        _sync(opened)
    draft.replace(file)
    _sync_directory(file.parent)


def _sync(opened: TextIO) -> None:
    opened.flush()
    os.fsync(opened.fileno())


def _sync_directory(directory: Path) -> None:
    descriptor = os.open(directory, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
