"""Where batches went, and the futures of those that are not there yet."""

from __future__ import annotations

import secrets
from bisect import bisect_right
from concurrent.futures import Future
from dataclasses import dataclass
from itertools import islice
from operator import attrgetter
from typing import TYPE_CHECKING, NamedTuple

from dafka.errors import AddressInUseError, BufferFullError, NotStoredError
from dafka.model import Partition
from dafka.records.batch import Run

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

    from dafka.model import Batch


NAMED_MAX = 10
"""Topics that an error message names; the error itself has all."""


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
        # Lists, not deques: thousands of topics may be under way, and a deque has 600 bytes.
        self._awaited: dict[str, list[_Awaited]] = {}
        """By topic, what is not stored; topics of which all is are not there."""
        for batch in kept:
            awaited = _Awaited(batch.end, batch.count, delivery_future())
            self._awaited.setdefault(batch.partition.topic, []).append(awaited)
        self.life = secrets.randbits(63)
        """Number of the producer's life that begins now."""
        self._begun = dict(ends)
        self.ends = dict(ends)
        """Sequence after the last record handed over, by topic."""
        self.spooled = dict(ends)
        """By topic, the end below which everything is in the spool."""

    def expect(self, topic: str, count: int, future: Future[Delivery]) -> None:
        """The next `count` records of `topic` have been handed over."""
        end = self.ends[topic] = self.ends.get(topic, 0) + count
        self._awaited.setdefault(topic, []).append(_Awaited(end, count, future))

    def place(self, topic: str) -> Run:
        """Where the next record of `topic` stands in this life."""
        return Run(self.life, 0).behind(self.ends.get(topic, 0) - self._begun.get(topic, 0))

    def finish(self, topic: str, end: int) -> list[tuple[Future[Delivery], Delivery]]:
        """Everything of `topic` below `end` is stored; returns the futures to be told."""
        awaited = self._awaited.get(topic)
        if awaited is None:
            return []
        count = bisect_right(awaited, end, key=attrgetter("end"))
        finished = [
            (one.future, Delivery(topic, self._address, one.end - one.records, one.records))
            for one in awaited[:count]
        ]
        del awaited[:count]
        if not awaited:
            del self._awaited[topic]
        return finished

    def fail(self, topic: str) -> list[Future[Delivery]]:
        """Nobody is to wait for what of `topic` is not stored; returns the futures to be told.

        It may be stored all the same, and counts as unstored until then.
        """
        awaited = self._awaited.get(topic, [])
        failed = [one.future for one in awaited]
        awaited[:] = [one._replace(future=delivery_future()) for one in awaited]
        return failed

    def last(self) -> list[Future[Delivery]]:
        """One future for each topic: batches of a topic are stored in order."""
        return [awaited[-1].future for awaited in self._awaited.values()]

    def unstored(self) -> dict[Partition, int]:
        """How many records are not stored yet, by partition."""
        return {
            Partition(topic, self._address): sum(batch.records for batch in awaited)
            for topic, awaited in self._awaited.items()
        }

    def unspooled(self, wanted: Mapping[str, int]) -> dict[Partition, int]:
        """How many records below the ends `wanted` are not in the spool, by partition."""
        return {
            Partition(topic, self._address): end - self.spooled.get(topic, 0)
            for topic, end in wanted.items()
            if end > self.spooled.get(topic, 0)
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


def not_stored(
    unstored: Mapping[Partition, int],
    timeout: float | None,
    min_acks: int,
    towers_away: Collection[str] = (),
    spool: str | None = None,
) -> NotStoredError:
    """Return the error for records that were not stored in time; `spool` still has them."""
    text = f"{_missing_acks(min_acks)} {_described(unstored)} within {timeout} s"
    if towers_away:
        text += f"; not heard: the tower at {' and at '.join(sorted(towers_away))}"
    if spool is not None:
        text += f"; they stay in the spool at {spool!r} for the next producer"
    return NotStoredError(text, unstored.items())


def not_spooled(
    unspooled: Mapping[Partition, int], timeout: float | None, spool: str
) -> NotStoredError:
    """Return the error for records that the spool has not taken in time."""
    text = f"spool at {spool!r} has not taken {_described(unspooled)} within {timeout} s"
    return NotStoredError(text, unspooled.items())


def buffer_full(
    unstored: Mapping[Partition, int], bytes_max: int, block_ms: int, min_acks: int
) -> BufferFullError:
    """Return the error for a buffer of so many bytes that stayed full for so long."""
    return BufferFullError(
        f"buffer of {bytes_max} bytes stayed full for {block_ms} ms:"
        f" {_missing_acks(min_acks)} {_described(unstored)}"
    )


def ended_before_stored(partition: Partition, count: int) -> NotStoredError:
    """Return the error for records that a producer has left behind."""
    return NotStoredError(
        f"producer ended before a store had {count} records", [(partition, count)]
    )


def address_in_use(partition: Partition, sequence: int, spool: str | None) -> AddressInUseError:
    """Return the error for records that stores have under a producer's name and not from it.

    Args:
        partition: Where.
        sequence: The last one that they have.
        spool: Where its address comes from.
    """
    topic, address = partition
    owner = address if spool is None else f"{address} of the spool at {spool!r}"
    return AddressInUseError(
        f"another producer publishes under address {owner}: what stores have of {topic!r} up to"
        f" sequence {sequence} is not all from this one. A spool is for one producer: end the"
        " other one, and give this one a new spool"
    )


def _described(unstored: Mapping[Partition, int]) -> str:
    named = islice(unstored.items(), NAMED_MAX)
    text = ", ".join(f"{count} records of {topic!r}" for (topic, _), count in named)
    others = [*unstored.values()][NAMED_MAX:]
    return f"{text} and {sum(others)} of {len(others)} other topics" if others else text


def _missing_acks(min_acks: int) -> str:
    if min_acks == 1:
        return "no store has acknowledged"
    return f"fewer than {min_acks} stores have acknowledged"
