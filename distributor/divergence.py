"""Do two clusters mean the same record by the same name? One record a partition, the last common.

A producer that lost its spool and took up its old address again, or a store restored from an old
backup, can give one place to two records. What follows such a record must not be copied.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from dafka.records.batch import records_of

if TYPE_CHECKING:
    from collections.abc import Mapping

    from dafka.model import Header, Partition
    from dafka.query.client import StoreClient

COMPARED_MAX = 1_000
"""Partitions compared in one survey: two reads each, well below a second."""


class Witness:
    """Compares each partition once, when both ends have some of it."""

    def __init__(self) -> None:
        self._compared: set[Partition] = set()
        self.diverged: frozenset[Partition] = frozenset()
        """Partitions of which the two clusters hold other records under the same name."""

    def waiting(
        self, source: Mapping[Partition, int], target: Mapping[Partition, int]
    ) -> list[Partition]:
        """Partitions that are yet to be compared."""
        return [
            partition
            for partition in source
            if partition in target and partition not in self._compared
        ]

    def compare(
        self,
        source: StoreClient,
        target: StoreClient,
        last: Mapping[Partition, int],
    ) -> None:
        """Compare one record of each partition.

        Args:
            source: A store of the one cluster.
            target: A store of the other.
            last: The sequence to look at, by partition; both have it.

        Raises:
            QueryError: One of them does not answer; what was compared until then counts.
        """
        for partition, sequence in last.items():
            ours, theirs = (_content(client, partition, sequence) for client in (source, target))
            self._compared.add(partition)
            if ours is not None and theirs is not None and ours != theirs:
                self.diverged |= {partition}


def _content(
    client: StoreClient, partition: Partition, sequence: int
) -> tuple[bytes | None, bytes | None, tuple[Header, ...]] | None:
    """What the application gave; envelopes differ by design. None if it is not there any more."""
    for batch in client.read(partition, sequence, 1, 1):
        for record in records_of(batch, sequence):
            return (record.key, record.value, record.headers)
    return None
