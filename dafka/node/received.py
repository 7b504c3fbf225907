"""Batches as a consumer hands them over, not taken apart yet."""

from __future__ import annotations

from itertools import islice
from typing import TYPE_CHECKING, Any, Generic

from dafka.model import K, V
from dafka.process.unreadable import pass_over
from dafka.records.batch import records_of, values_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from dafka.model import Batch, Record
    from dafka.records.serialization import Deserializers


class ReceivedBatch(Generic[K, V]):
    """Consecutive records of one partition, not taken apart yet, but known to be whole.

    Attributes:
        topic: Its topic.
        address: Its producer; with the topic this names the partition.
        sequence: Sequence of the first record.
        count: How many records.
    """

    __slots__ = ("_deserializers", "address", "batch", "count", "sequence", "topic")

    def __init__(
        self,
        batch: Batch,
        start: int,
        end: int,
        deserializers: Deserializers[K, V] | None = None,
    ) -> None:
        self.batch = batch
        """As it travels: it may hold records before and behind these."""
        self.topic, self.address = batch.partition
        self.sequence = max(start, batch.sequence)
        self.count = min(end, batch.end) - self.sequence
        self._deserializers = deserializers

    def values(self) -> list[V | None]:
        """The records' values, in order: the cheapest way to them.

        Fewer than `count` where records cannot be read: those are logged and counted.

        Raises:
            DeserializationError: A deserializer has failed at one of them.
        """
        if self._deserializers is not None and self._deserializers.value is not None:
            return [record.value for record in self]
        values: list[Any] = values_of(self.batch, self.sequence, pass_over, checked=True)
        return values[: self.count]

    def __iter__(self) -> Iterator[Record[K, V]]:
        """Iterate over the records, as `values` does; who goes on after an error is behind it."""
        records: Iterator[Any] = records_of(self.batch, self.sequence, pass_over, checked=True)
        if self.sequence + self.count < self.batch.end:
            records = islice(records, self.count)
        if self._deserializers is None:
            return records
        return map(self._deserializers.deserialized, records)

    def __repr__(self) -> str:
        place = f"{self.topic!r}, {self.address[:8]}…, {self.sequence}"
        return f"ReceivedBatch({place}, {self.count} records)"
