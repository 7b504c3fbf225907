"""What Python and the C library do with memory that is not used any more."""

from __future__ import annotations

import ctypes
import gc
import os
from functools import cache
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

_BLOCK_BYTES = 32 * 1024 * 1024 - 64 * 1024
"""Just below the largest block that glibc learns from."""

_KEPT_BYTES = 64 * 1024 * 1024
"""What a heap keeps at its end then: twice that block."""

_LITTLE_BYTES = 256 * 1024

_TRIM_THRESHOLD = -1
"""The number of M_TRIM_THRESHOLD."""

_GARBAGE_MAX = 20_000
"""Objects made and still there before the collector looks for cycles among them; Python's own
default is 700."""


@cache
def keep_freed_memory() -> None:
    """Keep memory that is freed for the next batch instead of giving it back to the system at once.

    As it comes, glibc returns what is free at the end of a heap, from 128 kB on, and takes it
    again, page by page and zeroed, for the next batches: half of the CPU time of a busy store, and
    of a producer with thousands of topics. It keeps twice the size of the largest block that it was
    ever given back, so it is given one that nobody has touched. Other C libraries do not mind; who
    has set `MALLOC_*` in the environment is obeyed. Source: mallopt(3), M_MMAP_THRESHOLD.

    It holds for the whole process, and the price is up to 64 MiB that stay its own in each heap,
    one or two a thread: for processes that do little else than move batches. `dafka store` and
    `distributor run` do it; an application decides by itself.
    """
    global _keeping
    bytes(_BLOCK_BYTES)  # not a bytearray: that would be filled
    _keeping = not any(name.startswith(("MALLOC_", "GLIBC_")) for name in os.environ)


_keeping = False
"""Whether `keep_freed_memory` holds."""


def keep_little(wanted: bool) -> None:
    """Let heaps keep next to nothing at their ends while that is wanted; then as much as before.

    `give_back_freed_memory` leaves the end of every heap but the first, which is that of one thread
    of ZeroMQ or another: up to 64 MiB. It does nothing where `keep_freed_memory` does not hold.
    """
    mallopt = _of_glibc("mallopt") if _keeping else None
    if mallopt is not None:
        mallopt(_TRIM_THRESHOLD, _LITTLE_BYTES if wanted else _KEPT_BYTES)


def collect_rarely() -> None:
    """Keep the garbage collector from looking at what stays.

    Batches and messages are freed when the last reference goes; cycles come from errors alone. The
    collector still walks over everything that is kept, again and again: a tenth of a second at a
    time in a link with ten thousand partitions, during which nothing is copied. For processes of
    ours, when all modules are loaded: these are not looked at again, and the rest less often.
    """
    gc.freeze()
    gc.set_threshold(_GARBAGE_MAX, *gc.get_threshold()[1:])


def give_back_freed_memory() -> None:
    """Return to the system what is free in the heaps of glibc; other C libraries do it themselves.

    It takes some milliseconds, in which other threads wait for memory. Source: malloc_trim(3).
    """
    trim = _of_glibc("malloc_trim")
    if trim is not None:
        trim(0)


@cache
def _of_glibc(name: str) -> Callable[..., int] | None:
    # Once: each library that is opened is garbage in a circle, and those stay for long here.
    return getattr(ctypes.CDLL(None), name, None)
