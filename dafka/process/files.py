"""Small files that people keep: read within a bound, written whole, secrets where they are safe."""

from __future__ import annotations

import os
import stat
from typing import TYPE_CHECKING

from dafka.errors import MisuseError

if TYPE_CHECKING:
    from pathlib import Path


OWNER_ONLY = 0o700
"""The mode of a directory that nobody else can enter."""


def text_of(file: Path, bytes_max: int, *, private: bool = False) -> str:
    """Read a file.

    Args:
        file: Which.
        bytes_max: What it may have.
        private: Whether nobody but its owner may be able to read it.

    Raises:
        MisuseError: It cannot be read, is larger, no text, or open to others.
    """
    try:
        with file.open("rb") as opened:
            mode = stat.S_IMODE(os.fstat(opened.fileno()).st_mode)
            octets = opened.read(bytes_max + 1)
        text = octets.decode()
    except OSError as error:
        raise MisuseError(f"cannot read {str(file)!r}: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise MisuseError(f"file {str(file)!r} cannot be used: not UTF-8 text") from error
    if private and mode & 0o077:
        raise MisuseError(
            f"key file {str(file)!r} cannot be used: others may read it (mode {mode:o}); "
            f"chmod 600 {file}"
        )
    if len(octets) > bytes_max:
        raise MisuseError(f"file {str(file)!r} cannot be used: larger than {bytes_max} bytes")
    return text


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


def replace_text(file: Path, text: str, *, private: bool = False) -> None:
    """Write a file whole or not at all: processes may be reading it.

    Args:
        file: It need not be there.
        text: All of it.
        private: Whether only its owner may read it.
    """
    draft = file.with_suffix(".new")
    draft.touch(0o600 if private else 0o666)
    if private:
        draft.chmod(0o600)
    draft.write_text(text)
    draft.replace(file)
