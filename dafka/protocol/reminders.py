"""What a store does for consumers of another make, which ask too seldom.

A C consumer asks when something tells it of a gap, and a head tells it only once. When the producer
is gone nothing comes any more. So after a partition has moved, its last batch is sent to them once
more, at intervals that double: a record they cannot place yet makes them fetch, others they ignore.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from dafka.limits import REMINDED_TOPICS_MAX, REQUESTERS_MAX
from dafka.protocol.heads import HeadSchedule

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from dafka.model import Partition
    from dafka.wire.messages import ConsumerHello

INTERVAL_MS = 1_000
INTERVAL_MS_MAX = 32_000
"""After this one a consumer that has not understood is left alone."""


class Reminders:
    """Which consumers of another make there are, and what to send them again."""

    def __init__(self) -> None:
        self._topics: dict[str, frozenset[str]] = {}
        """What each has said that it wants."""
        self._topics_kept = 0
        self._due = HeadSchedule(INTERVAL_MS, INTERVAL_MS_MAX)

    def greeted(self, hello: ConsumerHello, partitions: Iterable[Partition], now_ms: int) -> None:
        """A consumer has said what it wants; the oldest of too many is forgotten."""
        self._forget(hello.consumer)
        topics = frozenset(hello.topics)
        if not topics:
            return
        self._topics[hello.consumer] = topics
        self._topics_kept += len(topics)
        while len(self._topics) > REQUESTERS_MAX or self._topics_kept > REMINDED_TOPICS_MAX:
            self._forget(next(iter(self._topics)))
        for partition in partitions:
            if partition.topic in topics:
                self._due.moved(partition, now_ms)

    def _forget(self, consumer: str) -> None:
        self._topics_kept -= len(self._topics.pop(consumer, ()))

    def moved(self, partition: Partition, now_ms: int) -> None:
        """There is more of a partition."""
        if self._topics:
            self._due.moved(partition, now_ms)

    def due(self, now_ms: int) -> Iterator[tuple[Partition, str]]:
        """Yield whom to remind of what."""
        for partition in self._due.due(now_ms):
            if self._due.rests(partition):
                self._due.forget(partition)
            for consumer, topics in self._topics.items():
                if partition.topic in topics:
                    yield partition, consumer

    def wakeup_ms(self) -> int | None:
        """When the next is due."""
        return self._due.wakeup_ms()
