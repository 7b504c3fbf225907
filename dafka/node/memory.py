"""What Python and the C library do with memory that is not used any more."""

from __future__ import annotations

import ctypes
import gc
import os

_TRIM_THRESHOLD, _MMAP_THRESHOLD = -1, -3
"""Names of two settings in glibc's malloc.h."""

_FREED_BYTES_MAX = 128 * 1024 * 1024
_BLOCK_BYTES_MAX = 32 * 1024 * 1024
"""The largest that glibc takes."""

_GARBAGE_MAX = 20_000
"""Objects made and still there before the collector looks for cycles among them; Python's own
default is 700."""


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


def collect_rarely() -> None:
    """Keep the garbage collector from looking at what stays.

    Batches and messages are freed when the last reference goes; cycles come from errors alone. The
    collector still walks over everything that is kept, again and again: a tenth of a second at a
    time in a link with ten thousand partitions, during which nothing is copied. For processes of
    ours, when all modules are loaded: these are not looked at again, and the rest less often.
    """
    gc.freeze()
    gc.set_threshold(_GARBAGE_MAX, *gc.get_threshold()[1:])
