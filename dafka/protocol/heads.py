"""When a publisher says again how far its partitions reach.

HEAD tells whoever missed the last record that there is something to fetch. Repeated at one interval
for every partition it would, with ten thousand of them, be most of what a mesh carries; so the
interval doubles while a partition stands still. Where all is stored it is the longest at once: who
listens for all topics, stores and links, asks by GET-HEADS. Not where somebody listens for a topic
by its name: a peer of another make may know of nothing else. A record, which says the same, starts
it anew.

Source: 46/DAFKA, The HEAD Command.
"""

from __future__ import annotations

from collections import OrderedDict
from typing import TYPE_CHECKING

from dafka.model import Partition
from dafka.protocol.machine import earliest
from dafka.wire.bundles import NamedTopics

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Mapping


class TopicHeads(dict[Partition, int]):
    """The last sequence of every partition, also found by topic.

    A consumer of ten thousand topics asks for each by its name, again and again. To look through
    ten thousand partitions for each answer takes a store ten seconds, in which it stores nothing.

    Args:
        heads: Those there are at first.
    """

    def __init__(self, heads: Mapping[Partition, int]) -> None:
        super().__init__()
        self._by_topic: dict[str, dict[Partition, None]] = {}
        for partition, head in heads.items():
            self[partition] = head

    def __setitem__(self, partition: Partition, head: int) -> None:
        if partition not in self:
            self._by_topic.setdefault(partition.topic, {})[partition] = None
        super().__setitem__(partition, head)

    def __delitem__(self, partition: Partition) -> None:
        super().__delitem__(partition)
        of_topic = self._by_topic[partition.topic]
        del of_topic[partition]
        if not of_topic:
            del self._by_topic[partition.topic]

    @property
    def topics(self) -> Collection[str]:
        """Those of which there are partitions."""
        return self._by_topic.keys()

    def of(self, topics: Iterable[str]) -> list[Partition]:
        """The partitions of these topics, each once; of the empty topic they are all."""
        wanted = dict.fromkeys(topics)
        if "" in wanted:
            return list(self)
        return [partition for topic in wanted for partition in self._by_topic.get(topic, ())]


TOGETHER_MS = 100
"""When one is due, so are those that would be so much later: they travel together."""


class HeadSchedule:
    """Which partitions are due.

    Args:
        interval_ms: From a partition's last record to its first HEAD.
        interval_ms_max: The longest interval; after it a partition `rests`.
    """

    def __init__(self, interval_ms: int, interval_ms_max: int) -> None:
        self._intervals_ms = [interval_ms]
        while self._intervals_ms[-1] * 2 <= interval_ms_max:
            self._intervals_ms.append(self._intervals_ms[-1] * 2)
        # All of one level wait equally long, so each of these stays in the order it is due in. Only
        # an ordered dictionary finds its first entry at once, however many have left before it.
        self._levels: list[OrderedDict[Partition, int]] = [
            OrderedDict() for _ in self._intervals_ms
        ]
        """Per interval: partitions and when they are due."""
        self._level: dict[Partition, int] = {}
        self._named = NamedTopics()

    def __iter__(self) -> Iterator[Partition]:
        return iter(self._level)

    def __contains__(self, partition: Partition) -> bool:
        return partition in self._level

    def moved(self, partition: Partition, now_ms: int) -> None:
        """A record of `partition` has been published."""
        self.forget(partition)
        self._plan(partition, 0, now_ms)

    def listened(self, topic: str) -> None:
        """A peer has listened for HEADs of a topic; of the empty one they are all."""
        self._named.listened(topic)

    def needed(self, partition: Partition) -> bool:
        """Whether somebody may wait for HEADs of what is stored."""
        return partition.topic in self._named

    def stored(self, partition: Partition, now_ms: int) -> None:
        """All of it is stored by now."""
        if self.needed(partition):
            return
        longest = len(self._levels) - 1
        if self._level.get(partition, longest) < longest:
            self.forget(partition)
            self._plan(partition, longest, now_ms)

    def rests(self, partition: Partition) -> bool:
        """Whether it has reached the longest interval."""
        return self._level.get(partition) == len(self._levels) - 1

    def forget(self, partition: Partition) -> None:
        """Publish no more HEADs of it, until it moves."""
        level = self._level.pop(partition, None)
        if level is not None:
            del self._levels[level][partition]

    def due(self, now_ms: int) -> list[Partition]:
        """Return the partitions to publish a HEAD of now; they are due again later."""
        first_ms = self.wakeup_ms()
        if first_ms is None or first_ms > now_ms:
            return []
        found: list[Partition] = []
        for waiting in self._levels:
            for partition, due_ms in waiting.items():
                if due_ms > now_ms + TOGETHER_MS:
                    break
                found.append(partition)
        for partition in found:
            level = min(self._level[partition] + 1, len(self._levels) - 1)
            self.forget(partition)
            self._plan(partition, level, now_ms)
        return found

    def wakeup_ms(self) -> int | None:
        """When the first is due."""
        return earliest(*[next(iter(each.values())) for each in self._levels if each])

    def _plan(self, partition: Partition, level: int, now_ms: int) -> None:
        self._level[partition] = level
        self._levels[level][partition] = now_ms + self._intervals_ms[level]
