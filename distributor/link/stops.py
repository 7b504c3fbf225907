"""Partitions that a link does not copy at present, because what it would copy is not what is due.

`diverged`: both ends hold other records under the same name. It goes on when that is found no more:
one of the ends has been emptied.

`overtaken`: the source keeps no more what follows at the target, as retention was faster than the
link. It goes on when another link has brought that, when the target keeps nothing of the partition
any more either, or when the source has it again.

All other partitions go on. Copying on behind a hole would make the target's stores drop what they
have, as a log has no holes; copying on behind another history would mix the two.
"""

from __future__ import annotations

from enum import Enum
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Mapping

    from dafka.model import Partition
    from distributor.link.events import HeadsRead


class Reason(Enum):
    """Why a partition is not copied."""

    DIVERGED = "diverged"
    OVERTAKEN = "overtaken"


class Stop(NamedTuple):
    """One partition that is not copied.

    Attributes:
        reason: Why.
        first: The first sequence that differs, or that the source keeps no more.
        end: The sequence after the last one that is known to.
    """

    reason: Reason
    first: int
    end: int


class Stops:
    """Those of one link."""

    def __init__(self) -> None:
        self.by_partition: dict[Partition, Stop] = {}

    def __contains__(self, partition: Partition) -> bool:
        return partition in self.by_partition

    def counts(self) -> Mapping[Reason, int]:
        """How many there are, by reason."""
        reasons = [stop.reason for stop in self.by_partition.values()]
        return {reason: reasons.count(reason) for reason in Reason}

    def overtaken(self, partition: Partition, first: int, end: int) -> Stop:
        """The source keeps a partition only from `end` on, and the target has it up to `first`."""
        stop = Stop(Reason.OVERTAKEN, first, end)
        self.by_partition[partition] = stop
        return stop

    def take(self, heads: HeadsRead) -> tuple[list[Partition], list[Partition]]:
        """Take in what a survey has found; returns the partitions that stop and that go on."""
        begun: list[Partition] = []
        for partition, first in heads.diverged.items():
            known = self.by_partition.get(partition)
            if known is None or known.reason is not Reason.DIVERGED:
                self.by_partition[partition] = Stop(Reason.DIVERGED, first, first + 1)
                begun.append(partition)
        ended = [
            partition
            for partition, stop in self.by_partition.items()
            if _is_over(partition, stop, heads)
        ]
        for partition in ended:
            del self.by_partition[partition]
        return begun, ended


def _is_over(partition: Partition, stop: Stop, heads: HeadsRead) -> bool:
    if stop.reason is Reason.DIVERGED:
        return partition not in heads.diverged
    if partition not in heads.target or partition in heads.empty:
        return True
    end = heads.target[partition] + 1
    if end >= stop.end:
        return True
    return partition in heads.source and heads.begins.get(partition, 0) <= end
