"""How a process of ours ends: SIGINT and SIGTERM stop it in order."""

from __future__ import annotations

import signal
import threading
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from types import FrameType

_LOOK_S = 0.5
"""How often to look whether what runs has ended by itself."""


class Running(Protocol):
    """Something with a thread of its own."""

    def join(self, timeout: float) -> bool:
        """Wait for it to end by itself; True if it has. Raises what ended it."""


def stop_event() -> threading.Event:
    """Return an event that SIGINT or SIGTERM sets. To be called in the main thread."""
    told = threading.Event()

    def tell(_signal: int, _frame: FrameType | None) -> None:
        told.set()

    signal.signal(signal.SIGINT, tell)
    signal.signal(signal.SIGTERM, tell)
    return told


def run_until_told(*running: Running) -> None:
    """Return when a signal says so; raise what ended one of `running` before."""
    told = stop_event()
    while not told.wait(_LOOK_S):
        if any(one.join(0) for one in running):
            return
