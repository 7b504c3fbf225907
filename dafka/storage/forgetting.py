"""Which partitions a store need not know any more: empty, and without any change for a while.

What time it is the store's own monotonic clock says: a restart begins it anew.
"""

from __future__ import annotations

from collections import OrderedDict
from itertools import islice, takewhile
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from dafka.model import Partition
    from dafka.storage.log import Mark, RecordLog

FORGET_AFTER_MS = 3_600_000
"""For so long an emptied partition is listed, so that whoever follows it sees that it is empty."""


class Forgetter:
    """Follows the partitions of one log.

    Args:
        after_ms: How long one has to be empty.
    """

    def __init__(self, after_ms: int = FORGET_AFTER_MS) -> None:
        self._after_ms = after_ms
        self._seen: Mark | None = None
        self._since_ms: OrderedDict[Partition, int] = OrderedDict()
        """When each that is empty was seen to change last, in this order."""

    def due(self, log: RecordLog, now_ms: int, count_max: int) -> list[Partition]:
        """Return at most `count_max` partitions to forget; whatever is not has its time again."""
        changed = None if self._seen is None else log.changes.since(self._seen)
        self._seen = log.changes.now
        if changed is None:
            self._look_at_all(log, now_ms)
        else:
            extents = log.extents()
            for partition, _ in changed:
                self._since_ms.pop(partition, None)
                extent = extents.get(partition)
                if extent is not None and extent.start > extent.head:
                    self._since_ms[partition] = now_ms
        old = takewhile(lambda item: item[1] + self._after_ms <= now_ms, self._since_ms.items())
        due = [partition for partition, _ in islice(old, count_max)]
        for partition in due:
            self._since_ms[partition] = now_ms
            self._since_ms.move_to_end(partition)
        return due

    def _look_at_all(self, log: RecordLog, now_ms: int) -> None:
        empty = [one for one, extent in log.extents().items() if extent.start > extent.head]
        for partition in self._since_ms.keys() - empty:
            del self._since_ms[partition]
        for partition in empty:
            self._since_ms.setdefault(partition, now_ms)
