"""Two producers under one address: a copied configuration, or a spool that was copied.

What the second one publishes looks like a repetition of what is there. So a repetition is compared,
and where the two differ nothing more is taken of the partition: nobody can tell which is meant.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from dafka.errors import RecordError
from dafka.protocol.effects import Compare, Disputed, Dropped
from dafka.records.batch import agree

if TYPE_CHECKING:
    from collections.abc import Iterable

    from dafka.model import Batch, Partition
    from dafka.protocol.effects import Effect


class Disputes:
    """The partitions in which that was found."""

    def __init__(self) -> None:
        self._partitions: set[Partition] = set()

    def __contains__(self, partition: Partition) -> bool:
        return partition in self._partitions

    def compare(self, batch: Batch, waiting: Iterable[Batch], durable: int) -> list[Effect]:
        """A publisher has sent again what is here. Is it the same?

        A producer publishes a record once, a mirror whenever it begins anew, so this is rare.

        Args:
            batch: What was sent.
            waiting: What is taken and not durable yet, of any partition.
            durable: Last sequence of the partition on disk; that has to be read.
        """
        held = [one for one in waiting if one.partition == batch.partition]
        try:
            if not agree(held, batch):
                return self.found(batch)
        except RecordError as error:
            return [Dropped(error.reason)]
        return [Compare(batch)] if batch.sequence <= durable else []

    def found(self, batch: Batch) -> list[Effect]:
        """It is not the same."""
        if batch.partition in self._partitions:
            return []
        self._partitions.add(batch.partition)
        return [Disputed(batch.partition, batch.sequence)]
