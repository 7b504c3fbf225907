"""How far stores have the partitions of a consumer that takes nothing else."""

from __future__ import annotations

from collections import OrderedDict
from typing import TYPE_CHECKING

from dafka.limits import PARTITIONS_MAX

if TYPE_CHECKING:
    from dafka.model import Partition

LIVE_PATIENCE_MS = 100
"""How long live records may come later than the ACK: on a busy machine some milliseconds."""


class HighWatermarks:
    """How far stores have a consumer's partitions, as far as their ACKs have come.

    Records and ACKs travel apart, so an ACK may be here first. What it speaks of is on its way
    then, and to ask for it at once would be to receive it twice; a while later it is asked for.

    Args:
        partitions_max: Of how many it is known.
    """

    def __init__(self, partitions_max: int = PARTITIONS_MAX) -> None:
        self._partitions_max = partitions_max
        self._ends: dict[Partition, int] = {}
        self._awaited: OrderedDict[Partition, tuple[int, int]] = OrderedDict()
        """When to ask for what has not come, and up to which sequence."""

    def end(self, partition: Partition) -> int:
        """Sequence below which a store has everything; 0 if nothing is known."""
        return self._ends.get(partition, 0)

    def reached(self, partition: Partition, end: int) -> bool:
        """A store has everything below `end`; False if there are too many partitions."""
        if partition not in self._ends and len(self._ends) >= self._partitions_max:
            return False
        self._ends[partition] = end
        return True

    def forget(self, partition: Partition) -> None:
        """Know of no store that has it."""
        self._ends.pop(partition, None)
        self._awaited.pop(partition, None)

    def wait_for(self, partition: Partition, now_ms: int) -> None:
        """What was acknowledged last may still be on its way."""
        self._awaited.setdefault(partition, (now_ms + LIVE_PATIENCE_MS, self.end(partition)))

    def overdue(self, now_ms: int) -> list[tuple[Partition, int]]:
        """Take out what has been waited for long enough, and up to which sequence."""
        found: list[tuple[Partition, int]] = []
        while self._awaited:
            partition, (due_ms, end) = next(iter(self._awaited.items()))
            if due_ms > now_ms:
                break
            del self._awaited[partition]
            found.append((partition, end))
        return found

    def wakeup_ms(self) -> int | None:
        """When the first is overdue."""
        due_ms, _ = next(iter(self._awaited.values()), (None, 0))
        return due_ms
