"""How far stores have the partitions of a consumer that takes nothing else.

A sequence alone does not say whose record stands there: two producers may publish under one
address, and a store keeps what came first. So what is received live counts as stored where it comes
from the run that a store says its last record comes from, up to that record; a store takes a run's
records only one after the other. Records of earlier runs, and those of which no run is told, are
taken from a store. Nothing can be said of bare values, which have no run, and of what a store of
another make says.
"""

from __future__ import annotations

from collections import OrderedDict
from typing import TYPE_CHECKING

from dafka.limits import PARTITIONS_MAX
from dafka.records.batch import run_of

if TYPE_CHECKING:
    from dafka.model import Batch, Partition
    from dafka.wire.messages import Ack, DirectHead

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
        self._runs: dict[Partition, int | None] = {}
        """Of the last record below each end, by the word of a store that tells it."""
        self._awaited: OrderedDict[Partition, tuple[int, int]] = OrderedDict()
        """When to ask for what has not come, and up to which sequence."""

    def end(self, partition: Partition) -> int:
        """Sequence below which a store has everything; 0 if nothing is known."""
        return self._ends.get(partition, 0)

    def reached(self, partition: Partition, said: Ack | DirectHead) -> bool:
        """A store has more than was known; False if there are too many partitions."""
        if partition not in self._ends and len(self._ends) >= self._partitions_max:
            return False
        self._ends[partition] = said.sequence + 1
        if said.store is None:
            self._runs.pop(partition, None)
        else:
            self._runs[partition] = said.run
        return True

    def doubts(self, batch: Batch) -> bool:
        """Whether stores may have other records in place of some of these."""
        partition = batch.partition
        if batch.sequence >= self.end(partition) or partition not in self._runs:
            return False
        run = run_of(batch.content)
        return self._runs[partition] != (run and run.number)

    def forget(self, partition: Partition) -> None:
        """Know of no store that has it."""
        self._ends.pop(partition, None)
        self._runs.pop(partition, None)
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
