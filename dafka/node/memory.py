"""What the C library does with memory that Python gives back."""

from __future__ import annotations

import ctypes
import os

_TRIM_THRESHOLD, _MMAP_THRESHOLD = -1, -3
"""Names of two settings in glibc's malloc.h."""

_FREED_BYTES_MAX = 128 * 1024 * 1024
_BLOCK_BYTES_MAX = 32 * 1024 * 1024
"""The largest that glibc takes."""


def keep_freed_memory() -> bool:
    """Keep memory that is freed, for the next batch, instead of giving it back at once.

    As it comes, glibc returns blocks of a batch's size to the kernel whenever the last one at its
    end is freed, and takes them again, page by page and zeroed, for the next: half of the CPU time
    of a busy store. For processes that do nothing else than move batches; the price is up to
    128 MiB that stay theirs. Who has set `MALLOC_*` in the environment is obeyed.

    Returns:
        Whether it is so now; False without glibc, too.
    """
    if any(name.startswith("MALLOC_") for name in os.environ):
        return False
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt is None:
        return False
    settings = ((_TRIM_THRESHOLD, _FREED_BYTES_MAX), (_MMAP_THRESHOLD, _BLOCK_BYTES_MAX))
    return all(mallopt(name, value) for name, value in settings)
