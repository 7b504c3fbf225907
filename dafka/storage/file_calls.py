"""What segments ask of the system, so that each of it can be refused in a test."""

from __future__ import annotations

import ctypes
import errno
import os
from typing import TYPE_CHECKING

from dafka.storage.environment import OWNER_ONLY, sync_directory

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

_PUNCH = 0x03
"""FALLOC_FL_PUNCH_HOLE and FALLOC_FL_KEEP_SIZE, of `linux/falloc.h`."""


_BLOCK_BYTES = 512
"""Of `st_blocks`, whatever the file system has."""


class FileCalls:
    """Calls of the system. Each raises OSError if that refuses."""

    def open(self, path: Path) -> int:
        """Open a file to read and write it; made if it is not there."""
        return os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)

    def open_to_read(self, path: Path) -> int:
        """Open a file that is there."""
        return os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW)

    def read(self, file: int, size: int, at: int) -> bytes:
        """Return bytes from a place on; fewer if the file ends before."""
        found = os.pread(file, size, at)
        while len(found) < size and (more := os.pread(file, size - len(found), at + len(found))):
            found += more
        return found

    def write(self, file: int, pieces: Sequence[bytes], at: int) -> int:
        """Write at a place, one piece behind the other.

        Returns:
            How many bytes of them all, which are fewer on a disk that is nearly full.
        """
        return os.pwritev(file, pieces, at)

    def free(self, file: int) -> int:
        """Return how many bytes the file system of a file has left."""
        found = os.fstatvfs(file)
        return found.f_bavail * found.f_frsize

    def taken(self, file: int) -> int:
        """Return how many bytes from its beginning on a file has on the disk; 0 with holes."""
        found = os.fstat(file)
        return found.st_size if found.st_blocks * _BLOCK_BYTES >= found.st_size else 0

    def sync(self, file: int) -> None:
        """Have on the disk what was written."""
        os.fdatasync(file)

    def cut(self, file: int, size: int) -> None:
        """Let a file end there."""
        os.ftruncate(file, size)

    def punch(self, file: int, at: int, size: int) -> bool:
        """Give bytes of a file back to the disk; whether the file system can do that."""
        fallocate = getattr(ctypes.CDLL(None, use_errno=True), "fallocate", None)
        if fallocate is None:
            return False
        fallocate.argtypes = [ctypes.c_int, ctypes.c_int, ctypes.c_int64, ctypes.c_int64]
        if fallocate(file, _PUNCH, at, size) == 0:
            return True
        code = ctypes.get_errno()
        if code in (errno.EOPNOTSUPP, errno.ENOSYS):
            return False
        raise OSError(code, os.strerror(code))

    def rename(self, path: Path, to: Path) -> None:
        """Give a file another name."""
        path.rename(to)

    def remove(self, path: Path) -> None:
        """Remove a file, if it is there."""
        path.unlink(missing_ok=True)

    def make_directory(self, path: Path) -> None:
        """Make a directory of the owner's only."""
        path.mkdir(mode=OWNER_ONLY)

    def sync_directory(self, path: Path) -> None:
        """Have the names in a directory on the disk."""
        sync_directory(path)


FILE_CALLS = FileCalls()
"""Those of this system."""
