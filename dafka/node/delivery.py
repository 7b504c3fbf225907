"""Where batches went, and the futures of those that are not there yet."""

from __future__ import annotations

from collections import deque
from concurrent.futures import Future
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from dafka.errors import NotStoredError
from dafka.model import Partition

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from dafka.model import Batch


@dataclass(frozen=True, slots=True)
class Delivery:
    """Where a batch went: `min_acks` stores have its records on disk.

    Attributes:
        topic: As given to `send`.
        address: The producer's; with the topic it names the partition.
        sequence: Sequence of the batch's first record.
        count: How many records the batch has.
    """

    topic: str
    address: str
    sequence: int
    count: int


def delivery_future() -> Future[Delivery]:
    """A future that nobody can cancel: it is shared by all records of a batch."""
    future: Future[Delivery] = Future()
    future.set_running_or_notify_cancel()
    return future


class _Awaited(NamedTuple):
    end: int
    records: int
    future: Future[Delivery]


class Deliveries:
    """The batches of one producer that are not stored yet. It locks nothing: its owner does.

    Args:
        address: The producer's.
        ends: Sequence after the last record of an earlier life, by topic.
        kept: Batches of that life that are not stored, each topic in order.
    """

    def __init__(self, address: str, ends: Mapping[str, int], kept: Sequence[Batch]) -> None:
        self._address = address
        self._awaited: dict[str, deque[_Awaited]] = {}
        for batch in kept:
            awaited = _Awaited(batch.end, batch.count, delivery_future())
            self._awaited.setdefault(batch.partition.topic, deque()).append(awaited)
        self.ends = dict(ends)
        """Sequence after the last record handed over, by topic."""

    def expect(self, topic: str, count: int, future: Future[Delivery]) -> None:
        """The next `count` records of `topic` have been handed over."""
        end = self.ends[topic] = self.ends.get(topic, 0) + count
        self._awaited.setdefault(topic, deque()).append(_Awaited(end, count, future))

    def finish(self, topic: str, end: int) -> list[tuple[Future[Delivery], Delivery]]:
        """Everything of `topic` below `end` is stored; returns the futures to be told."""
        awaited = self._awaited.get(topic, deque())
        finished = []
        while awaited and awaited[0].end <= end:
            batch_end, records, future = awaited.popleft()
            place = Delivery(topic, self._address, batch_end - records, records)
            finished.append((future, place))
        return finished

    def last(self) -> list[Future[Delivery]]:
        """One future for each topic: batches of a topic are stored in order."""
        return [awaited[-1].future for awaited in self._awaited.values() if awaited]

    def unstored(self) -> dict[Partition, int]:
        """How many records are not stored yet, by partition."""
        return {
            Partition(topic, self._address): sum(batch.records for batch in awaited)
            for topic, awaited in self._awaited.items()
            if awaited
        }

    def drop(self) -> list[tuple[Partition, int, Future[Delivery]]]:
        """Expect nothing any more; returns partition, count and future of every batch."""
        dropped = [
            (Partition(topic, self._address), records, future)
            for topic, awaited in self._awaited.items()
            for _, records, future in awaited
        ]
        self._awaited.clear()
        return dropped


def described(unstored: Mapping[Partition, int]) -> str:
    """Say how many records of which topics, for an error message."""
    return ", ".join(f"{count} records of {topic!r}" for (topic, _), count in unstored.items())


def missing_acks(min_acks: int) -> str:
    """Say who has not answered, for an error message."""
    if min_acks == 1:
        return "no store has acknowledged"
    return f"fewer than {min_acks} stores have acknowledged"


def not_stored(
    unstored: Mapping[Partition, int],
    timeout: float | None,
    min_acks: int,
    spool: str | None = None,
) -> NotStoredError:
    """Return the error for records that were not stored in time; `spool` still has them."""
    text = f"{missing_acks(min_acks)} {described(unstored)} within {timeout} s"
    if spool is not None:
        text += f"; they stay in the spool at {spool!r} for the next producer"
    return NotStoredError(text, unstored.items())
