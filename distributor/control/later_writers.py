"""Which flows that a process may write are written by others in later epochs, as stores say it.

Who writes says so at its targets again and again, and is answered with the latest epoch of all who
do (ADR 43). What a store has said counts for as long as a writer counts that it has heard.
"""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING, NamedTuple

from dafka.groups.writers import HEARD_MS
from dafka.model import PartitionShare

if TYPE_CHECKING:
    from collections.abc import Mapping

    from distributor.control.messages import Flow


SAY_MS = 1_000
"""How often it is said what is written; more often where something new is."""


class Writing(NamedTuple):
    """That a flow may be written.

    Attributes:
        flow: Its name at its targets: wherever it aims, and whichever share it is.
        share: Which.
        epoch: Under which.
    """

    flow: str
    share: PartitionShare
    epoch: int


def writing_of(flow: Flow, epoch: int) -> Writing:
    """Return what is said of a flow that may write under this epoch."""
    link = flow.link
    place = (link.source, link.level, link.branch, link.topics, flow.kind.value)
    # Patterns of topics may be of any length.
    name = hashlib.sha256(repr(place).encode()).hexdigest()
    return Writing(name, PartitionShare(flow.share, flow.shares), epoch)


class LaterWriters:
    """What one process has been told."""

    def __init__(self) -> None:
        self._heard: dict[Writing, dict[str, tuple[int, int]]] = {}
        """By store, an epoch and when that was said."""

    def told(self, store: str, epochs: Mapping[Writing, int], now_ms: int) -> None:
        """A store has said in which epochs these are written, the asker's own included."""
        for writing, epoch in epochs.items():
            self._heard.setdefault(writing, {})[store] = epoch, now_ms

    def later(self, writing: Writing, now_ms: int) -> int:
        """Return the epoch of a later writer that counts; 0 if there is none."""
        heard = self._heard.get(writing, {}).values()
        living = (epoch for epoch, at_ms in heard if now_ms < at_ms + HEARD_MS)
        latest = max(living, default=0)
        return latest if latest > writing.epoch else 0

    def forget(self, writing: Writing) -> None:
        """It may not be written any more."""
        self._heard.pop(writing, None)
