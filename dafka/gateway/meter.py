"""What a gateway tells of the Kafka partitions that it serves, of so many at most.

A series each would be too much for a gateway that has all 20,000 that there may be. So the first
`PARTITIONS_METERED_MAX` that it serves have series of their own for as long as it does; what goes
on in all others is counted together, under an empty topic.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from dafka.gateway.broker import KafkaPartition, Offsets
from dafka.process import metrics
from dafka.records.header import header_of

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

PARTITIONS_METERED_MAX = 1_000

_OTHERS = KafkaPartition("", -1)

_EXTENT = metrics.KAFKA_HIGH_WATERMARK, metrics.KAFKA_LOG_START
_TRAFFIC = (
    metrics.KAFKA_PARTITION_RECORDS,
    metrics.KAFKA_PARTITION_BATCHES,
    metrics.KAFKA_PARTITION_BYTES,
)
_DIRECTIONS = "in", "out"


class PartitionMeter:
    """The partitions of one gateway. Used in the front's loop.

    Args:
        cluster: Its name.
        metered_max: How many have series of their own.
    """

    def __init__(self, cluster: str, metered_max: int = PARTITIONS_METERED_MAX) -> None:
        self._cluster, self._metered_max = cluster, metered_max
        self._told: dict[KafkaPartition, Offsets | None] = {_OTHERS: None}
        """What was told of those that have series."""
        self._tallies: dict[tuple[KafkaPartition, str], metrics.Tally] = {}

    def produced(self, partition: KafkaPartition, batch: bytes) -> None:
        """A client's batch is stored."""
        self._count(partition, "in", (batch,))

    def fetched(self, partition: KafkaPartition, batches: Sequence[bytes]) -> None:
        """Batches go to a client."""
        self._count(partition, "out", batches)

    def look(self, shown: Mapping[KafkaPartition, Offsets]) -> None:
        """See what is served, and tell what there is of it, and what was counted."""
        for tally in self._tallies.values():
            tally.tell()
        for partition in self._told.keys() - shown.keys() - {_OTHERS}:
            self._forget(partition)
        for partition, offsets in shown.items():
            if partition not in self._told and not self._has_room():
                continue
            if self._told.get(partition) != offsets:
                self._told[partition] = offsets
                labels = self._labels(partition)
                metrics.KAFKA_HIGH_WATERMARK.labels(*labels).set(offsets.end)
                metrics.KAFKA_LOG_START.labels(*labels).set(offsets.start)

    def close(self) -> None:
        """Tell nothing any more."""
        for partition in [*self._told]:
            self._forget(partition)

    def _has_room(self) -> bool:
        return len(self._told) <= self._metered_max

    def _count(self, partition: KafkaPartition, direction: str, batches: Sequence[bytes]) -> None:
        if partition not in self._told and self._has_room():
            self._told[partition] = None
        key = (partition if partition in self._told else _OTHERS), direction
        tally = self._tallies.get(key)
        if tally is None:
            labels = *self._labels(key[0]), direction
            tally = metrics.Tally(*(series.labels(*labels) for series in _TRAFFIC))
            self._tallies[key] = tally
        for batch in batches:
            tally.add(header_of(batch).records, len(batch))

    def _forget(self, partition: KafkaPartition) -> None:
        labels = self._labels(partition)
        if self._told.pop(partition) is not None:
            for gauge in _EXTENT:
                gauge.remove(*labels)
        for direction in _DIRECTIONS:
            if self._tallies.pop((partition, direction), None) is not None:
                for counter in _TRAFFIC:
                    counter.remove(*labels, direction)

    def _labels(self, partition: KafkaPartition) -> tuple[str, str, str]:
        number = "" if partition is _OTHERS else str(partition.number)
        return self._cluster, partition.topic, number
