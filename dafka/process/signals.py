"""How a process of ours ends: SIGINT and SIGTERM stop it in order, servers within a bound."""

from __future__ import annotations

import logging
import os
import signal
import threading
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from types import FrameType

log = logging.getLogger(__name__)

SHUTDOWN_MS = 5_000
"""How long a process may take to end in order once it is told to."""

_LOOK_S = 0.5
"""How often to look whether what runs has ended by itself."""

_TOLD = (signal.SIGTERM, signal.SIGHUP)
"""What a service manager and a terminal that is closed send, where a person types Ctrl-C."""


class LongRunning(Protocol):
    """Something with a thread of its own, as everything is that a process serves with."""

    def join(self, timeout: float) -> bool:
        """Wait for it to end by itself, `timeout` seconds at most; True if it has.

        Raises:
            DafkaError: It ended with an error; of a node that is `NodeFailedError`.
        """

    def unwell(self) -> str:
        """Why it does not work, for people; empty if it does. To start it again may help."""

    def unready(self) -> str:
        """What it has not found yet, for people; empty if it is of use. It goes on looking."""


def stop_event() -> threading.Event:
    """Return an event that SIGINT or SIGTERM sets. To be called in the main thread."""
    told = threading.Event()

    def tell(_signal: int, _frame: FrameType | None) -> None:
        told.set()

    signal.signal(signal.SIGINT, tell)
    signal.signal(signal.SIGTERM, tell)
    return told


def reload_event() -> threading.Event:
    """Return an event that SIGHUP sets. To be called in the main thread."""
    told = threading.Event()

    def tell(_signal: int, _frame: FrameType | None) -> None:
        told.set()

    signal.signal(signal.SIGHUP, tell)
    return told


def interrupt_when_told() -> None:
    """Let SIGTERM and SIGHUP do here what Ctrl-C does. To be called in the main thread.

    The first one only: who says it twice does not keep us from ending in order. A signal that we
    were started to ignore, as by nohup, stays ignored.
    """
    told = [one for one in _TOLD if signal.getsignal(one) is not signal.SIG_IGN]

    def interrupt(_signal: int, _frame: FrameType | None) -> None:
        for number in told:
            signal.signal(number, signal.SIG_IGN)
        raise KeyboardInterrupt

    for number in told:
        signal.signal(number, interrupt)


def run_until_told(*running: LongRunning) -> None:
    """Return when a signal says so; raise what ended one of `running` before."""
    told = stop_event()
    while not told.wait(_LOOK_S):
        if any(one.join(0) for one in running):
            return


def end_within(shutdown_ms: int) -> threading.Timer:
    """End this process after `shutdown_ms` if it still runs then, whatever holds it up.

    Its exit code is 1. Nothing that was acknowledged is lost by that. Cancel the timer to stay.
    """
    timer = threading.Timer(shutdown_ms / 1_000, _end_now, [shutdown_ms])
    timer.daemon = True
    timer.start()
    return timer


def _end_now(shutdown_ms: int) -> None:
    log.warning("did not stop in time, ending now", extra={"shutdown_ms": shutdown_ms})
    os._exit(1)
