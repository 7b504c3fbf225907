"""How a thread of ours is waited for once it was told to end: not for ever, and not in silence."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from dafka.process.signals import SHUTDOWN_MS

if TYPE_CHECKING:
    from threading import Thread

log = logging.getLogger(__name__)


def wait_for_end(thread: Thread, at_work: str, timeout_s: float = SHUTDOWN_MS / 1_000) -> bool:
    """Wait for a thread that was told to end; True if it has.

    One that has not is left alone: it ends after what it does, or with the process.

    Args:
        thread: Which; a daemon.
        at_work: What it may still be doing, or wait for.
        timeout_s: How long to wait, in seconds.
    """
    thread.join(timeout_s)
    if thread.is_alive():
        log.warning(
            "%s has not ended and is left alone, it is at work on: %s", thread.name, at_work
        )
    return not thread.is_alive()
