"""When to wake up: the earliest of several times, of which any may not be set."""

from __future__ import annotations


def earliest(*dues_ms: int | None) -> int | None:
    """Return the least that is set; None if none is.

    A loop, because every turn of every node asks: `min` over a generator takes thrice as long.
    """
    first: int | None = None
    for due_ms in dues_ms:
        if due_ms is not None and (first is None or due_ms < first):
            first = due_ms
    return first
