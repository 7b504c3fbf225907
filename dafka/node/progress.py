"""What the application of a consumer in a group holds, between its thread and the node's."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

from dafka.groups.events import Revoked

if TYPE_CHECKING:
    from collections.abc import Callable

    from dafka.groups.events import Handed, PartitionAssigned, Revoke
    from dafka.model import Partition, Record


class Hand:
    """Which records the application has been handed, and which of these it has processed.

    A record is processed when the application asks for the next one. Methods say whose thread calls
    them; what is not said is set by the application's and read by both.

    Args:
        returned: Told how far the application was, when it comes back with what it had to give
            back; called in its thread.
    """

    def __init__(self, returned: Callable[[Revoked], None]) -> None:
        self._returned = returned
        self._lock = threading.Lock()
        self._runs: dict[Partition, int] = {}
        self._positions: dict[Partition, int] = {}
        """The first sequence not processed, but for the batch that is held."""
        self._held: Handed | None = None
        self._awaited: Revoke | None = None
        self._lost: set[Partition] = set()
        self._whole = False
        self._vouched: object = None
        """The record, or else the batch, that is held and was said to be processed."""
        self.record: Record | None = None
        """The last one handed over of the batch that is held."""
        self.stopped = False
        """Whether nothing more of the batch that is held may be handed over."""

    def begin(self, began: PartitionAssigned) -> None:
        """The node's: a partition may be handed over from a position on."""
        with self._lock:
            self._runs[began.partition] = began.run
            self._positions[began.partition] = began.position

    def revoke(self, revoke: Revoke) -> Revoked | None:
        """The node's: hand over nothing more of these; None if the application holds some."""
        with self._lock:
            for partition in revoke.partitions:
                self._runs.pop(partition, None)
            if self._held is not None and self._held.batch.partition in revoke.partitions:
                self.stopped = True
                self._awaited = revoke
                return None
            return self._give_back(revoke)

    def expel(self) -> None:
        """The node's: hand over nothing more of anything."""
        with self._lock:
            self._lost |= self._positions.keys()
            self._runs.clear()
            self._positions.clear()
            self._awaited = None
            self.stopped = self._held is not None

    def processed(self) -> dict[Partition, int]:
        """The node's: the first sequence of each partition that may not be processed."""
        with self._lock:
            positions = dict(self._positions)
            if self._held is not None and self._held.batch.partition in positions:
                positions[self._held.batch.partition] = self._first_held(self._held)
            return positions

    def take(self, handed: Handed, *, whole: bool = False) -> bool:
        """The application's: whether it may have this; if so, it holds it from now on.

        Args:
            handed: What was received.
            whole: Whether it takes all the records at once.
        """
        with self._lock:
            if self._runs.get(handed.batch.partition) != handed.run:
                return False
            self._held, self._whole = handed, whole
            self.record, self.stopped = None, False
            return True

    def put(self) -> None:
        """The application's: it is back, and has processed what it was handed."""
        revoked = None
        with self._lock:
            if self._held is not None:
                partition = self._held.batch.partition
                if partition in self._positions:
                    self._positions[partition] = self._behind_held(self._held)
            self._held, self.record, self.stopped = None, None, False
            if self._awaited is not None:
                revoked, self._awaited = self._give_back(self._awaited), None
        if revoked is not None:
            self._returned(revoked)

    def vouch(self) -> tuple[dict[Partition, int], frozenset[Partition]]:
        """The application's: it has processed all that it was handed.

        Returns:
            The first sequence of each partition that it was not handed; and the partitions of which
            it was handed something and lost them before that was committed: they are told once.
        """
        with self._lock:
            positions = self._reached()
            self._vouched = self.record or self._held
            lost, self._lost = frozenset(self._lost), set()
            return positions, lost

    def seek(self, partition: Partition, position: int) -> bool:
        """The application's: hand over nothing of a partition until it begins anew.

        Returns:
            Whether the partition is here at all.
        """
        with self._lock:
            if partition not in self._runs:
                return False
            self._runs[partition] = -1
            if self._held is not None and self._held.batch.partition == partition:
                self._held, self.record, self.stopped = None, None, True
            self._positions[partition] = position
            return True

    def positions(self) -> dict[Partition, int]:
        """The application's: the sequence that comes next, of each partition it may have."""
        with self._lock:
            return {one: at for one, at in self._reached().items() if one in self._runs}

    def hold_rest(self) -> None:
        """The application's: it takes all that is left of the batch that it holds."""
        with self._lock:
            self._whole = True

    def _reached(self) -> dict[Partition, int]:
        positions = dict(self._positions)
        if self._held is not None and self._held.batch.partition in positions:
            positions[self._held.batch.partition] = self._behind_held(self._held)
        return positions

    def _first_held(self, held: Handed) -> int:
        if self._vouched is not None and self._vouched is (self.record or held):
            return self._behind_held(held)
        first = max(held.start, held.batch.sequence)
        return first if self.record is None else self.record.sequence

    def _behind_held(self, held: Handed) -> int:
        if self._whole:
            return held.batch.end
        first = max(held.start, held.batch.sequence)
        return first if self.record is None else self.record.sequence + 1

    def _give_back(self, revoke: Revoke) -> Revoked:
        given = [one for one in revoke.partitions if one in self._positions]
        return Revoked(revoke.token, {one: self._positions.pop(one) for one in given})
