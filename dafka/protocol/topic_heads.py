"""How far partitions reach, also found by topic.

A consumer of ten thousand topics asks for each by its name, again and again. To look through ten
thousand partitions for each answer takes a store ten seconds, in which it stores nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from dafka.model import Partition

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping


class TopicHeads(dict[Partition, int]):
    """The last sequence of every partition. Partitions are added, and none is taken away.

    Args:
        heads: Those there are at first.
    """

    def __init__(self, heads: Mapping[Partition, int]) -> None:
        super().__init__()
        self._by_topic: dict[str, list[Partition]] = {}
        for partition, head in heads.items():
            self[partition] = head

    def __setitem__(self, partition: Partition, head: int) -> None:
        if partition not in self:
            self._by_topic.setdefault(partition.topic, []).append(partition)
        super().__setitem__(partition, head)

    def of(self, topics: Iterable[str]) -> list[Partition]:
        """The partitions of these topics, each once; of the empty topic they are all."""
        wanted = dict.fromkeys(topics)
        if "" in wanted:
            return list(self)
        return [partition for topic in wanted for partition in self._by_topic.get(topic, ())]
