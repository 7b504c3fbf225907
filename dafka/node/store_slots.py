"""Which slots a store keeps as it runs: what its machine has to know, what goes from its disk."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from dafka.errors import StorageError
from dafka.limits import RETAINED_BATCHES_MAX
from dafka.protocol.events import PartitionsEnded, PartitionsForgotten, SlotsMoved
from dafka.storage.kept_slots import KeptSlots

if TYPE_CHECKING:
    from collections.abc import Iterable

    from dafka.model import Partition
    from dafka.node.store_settings import StoreSettings
    from dafka.storage.holds import Holds
    from dafka.storage.log import RecordLog

log = logging.getLogger(__name__)

CLEAR_PAUSE_MS = 50
"""Between the steps in which the disk is cleared: most of the time is for storing."""

CLEAR_REST_MS = 5_000
"""After one that failed, or with nothing to clear."""


class StoreSlots:
    """Those of one store.

    Args:
        record_log: Where it says which.
        settings: Which it is to keep.
        holds: What clusters have of it that must have it.
        now_ms: The time.

    Raises:
        StorageError: The disk refused.
    """

    def __init__(
        self, record_log: RecordLog, settings: StoreSettings, holds: Holds, now_ms: int
    ) -> None:
        self._log, self._holds = record_log, holds
        self.kept = KeptSlots(record_log, settings.slots, joins=settings.joins)
        self.keeping = self.kept.keeping
        """What the machine was told."""
        self.due_ms = now_ms
        """When to `clear` next."""
        self._refusal = ""
        """Why what was given up is still on the disk; empty if that is told of nobody."""

    def moved(self) -> list[SlotsMoved | PartitionsEnded]:
        """What the machine has to know since it was told last."""
        events: list[SlotsMoved | PartitionsEnded] = []
        before, self.keeping = self.keeping, self.kept.keeping
        if self.keeping != before:
            events.append(SlotsMoved(self.keeping))
        if self.keeping[:3] != before[:3]:
            kept, joining, stopped, _ = map(str, self.keeping)
            told = {"slots_kept": kept, "slots_joining": joining, "slots_stopped": stopped}
            log.info("slots have moved", extra=told)
        if ended := self.kept.ended():
            events.append(PartitionsEnded(tuple(ended.items())))
        return events

    def clear(self, now_ms: int) -> list[SlotsMoved | PartitionsEnded]:
        """Go on with what is stopped no more, take off the disk what was given up."""
        self.kept.lapse(now_ms)
        try:
            more = self.kept.clear(RETAINED_BATCHES_MAX, self._holds)
            self._refusal = ""
        except StorageError as error:
            more = False
            self._failed(str(error))
        self.due_ms = now_ms + (CLEAR_PAUSE_MS if more else CLEAR_REST_MS)
        return self.moved()

    def _failed(self, refusal: str) -> None:
        """Say once what is wrong, not at every try; all else goes on."""
        if refusal != self._refusal:
            log.error("slots that were given up stay on the disk until this is mended: %s", refusal)
        self._refusal = refusal

    def remember(self, ends: Iterable[tuple[Partition, int]]) -> PartitionsForgotten:
        """Write where partitions ended of which nothing is here, as of those that are forgotten.

        Raises:
            StorageError: The disk refused, maybe of the second half: then they are listed as empty,
                and forgotten later.
        """
        known = self._log.recall([one for one, _ in ends])
        new = {
            one: end
            for one, end in ends
            if one not in self._log.extents() and (one not in known or known[one].start < end)
        }
        if new:
            self._log.append((), skips=new)
            self._log.append((), forgets=new.keys())
        return PartitionsForgotten(tuple(one for one, _ in ends))
