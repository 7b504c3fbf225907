"""Small files that people keep: read within a bound, written whole, secrets where they are safe."""

from __future__ import annotations

import os
import stat
from typing import TYPE_CHECKING

from dafka.errors import MisuseError

if TYPE_CHECKING:
    from pathlib import Path


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


def replace_text(file: Path, text: str) -> None:
    """Write a file whole or not at all: processes may be reading it."""
    draft = file.with_suffix(".new")
    draft.write_text(text)
    draft.replace(file)
