"""Below which sequence no cluster lacks anything of a partition, and which stores know it (ADR 40).

Of each partition the least counts that any cluster has which must have it. Who was never heard in
this term has nothing as far as is known here, and may have had more: nothing is said then, and
stores stay with what they were told before.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from typing import TYPE_CHECKING

from dafka.limits import NAMED_MAX
from dafka.storage.holds import HoldWord
from dafka.storage.retention import NO_FLOOR

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator, Mapping

    from dafka.model import Partition
    from topology.model import Topology


@dataclass(frozen=True, slots=True)
class HeldForRow:
    """What is held for a cluster, as `--json` tells it.

    Attributes:
        cluster: Which lacks it.
        heard: Whether it has said in this term what it has.
        partitions: In how many it lacks something.
        records: How many it lacks.
        gone: How many of them no store here keeps any more.
    """

    cluster: str
    heard: bool
    partitions: int
    records: int
    gone: int


@dataclass(frozen=True, slots=True)
class Need:
    """Which clusters must have what.

    Attributes:
        others: Of every other cluster, whether it must have a topic.
        senders: Which of them publish for others.
        sends: Whether this one does.
        digest: Of all of it.
    """

    others: Mapping[str, Callable[[str], bool]]
    senders: Collection[str]
    sends: bool
    digest: bytes

    def anybody(self, topic: str) -> bool:
        """Whether one of the others must have a topic."""
        return any(must(topic) for must in self.others.values())


def need_of(topology: Topology, cluster: str) -> Need:
    """Return what others need of a cluster's stores."""
    others = [one for one in topology.clusters if one.name != cluster]
    told = (
        [(one.name, one.receive_only) for one in topology.clusters],
        (topology.topics.include, topology.topics.exclude),
        [(rule.topics, rule.clusters) for rule in topology.placement],
        [(rule.topics, rule.holds) for rule in topology.retention],
    )
    return Need(
        {one.name: _must_have(topology, one.name) for one in others},
        [one.name for one in others if not one.receive_only],
        not topology.cluster(cluster).receive_only,
        hashlib.sha256(repr(told).encode()).digest(),
    )


def _must_have(topology: Topology, cluster: str) -> Callable[[str], bool]:
    known: dict[str, bool] = {}

    def must(topic: str) -> bool:
        if topic not in known:
            known[topic] = topology.must_have(topic, cluster)
        return known[topic]

    return must


class Floors:
    """What one controller knows in one term, and has told the stores of its cluster.

    Args:
        epoch: In which it is in charge.
        need: See there.
    """

    def __init__(self, epoch: int, need: Need) -> None:
        self._epoch, self._need = epoch, need
        self._ends: dict[str, Mapping[Partition, int]] = {}
        """How far each cluster has partitions, as it said last."""
        self._told: dict[str, tuple[str, dict[Partition, int]]] = {}
        """Of each store whose disk that was, and what it was told."""

    @property
    def first(self) -> HoldWord:
        """What stores are told first: in which epoch this is, and for whom."""
        return HoldWord(self._epoch, self._need.digest, {})

    def heard(self, cluster: str, ends: Mapping[Partition, int]) -> None:
        """A cluster says how far it has partitions; of those that it does not name, nothing."""
        self._ends[cluster] = ends

    def floor(self, partition: Partition) -> int | None:
        """Return below which sequence nobody lacks anything; None if that is not known."""
        needy = [name for name, must in self._need.others.items() if must(partition.topic)]
        if not needy:
            return NO_FLOOR
        asked = needy if self._need.sends else [*needy, *self._need.senders]
        if any(name not in self._ends for name in asked):
            return None
        if not self._need.sends and not any(
            self._ends[name].get(partition, 0) for name in self._need.senders
        ):
            return NO_FLOOR  # published where only is received: it goes nowhere
        return min(self._ends[name].get(partition, 0) for name in needy)

    def words(
        self, store: str, identity: str, partitions: Collection[Partition]
    ) -> Iterator[HoldWord]:
        """Yield what a store does not know yet.

        Args:
            store: Which.
            identity: Of its disk.
            partitions: All that it has.
        """
        disk, told = self._told.get(store, ("", {}))
        if disk == identity:
            for gone in [one for one in told if one not in partitions]:
                del told[gone]  # should it come back it has no floor
        else:
            told = {}
            yield self.first
        floors = ((one, self.floor(one)) for one in partitions)
        news = [(one, end) for one, end in floors if end is not None and told.get(one) != end]
        while some := dict(news[:NAMED_MAX]):
            del news[:NAMED_MAX]
            for one in some:
                told.pop(one, None)  # without an answer the store may have it, or not
            yield HoldWord(self._epoch, self._need.digest, some)

    def kept(self, store: str, identity: str, word: HoldWord) -> None:
        """A store has that on disk."""
        disk, told = self._told.get(store, ("", {}))
        if disk != identity:
            told = {}
            self._told[store] = identity, told
        told.update(word.floors)

    def rows(self, kept: Mapping[Partition, range]) -> list[HeldForRow]:
        """Tell of each cluster what it lacks.

        Args:
            kept: What is here: from where on, and up to where.
        """
        found = []
        for name, must in self._need.others.items():
            ends = self._ends.get(name)
            lacking: list[tuple[range, int]] = []
            if ends is not None:
                due = {one: span for one, span in kept.items() if must(one.topic)}
                lacking = [
                    (span, end)
                    for one, span in due.items()
                    if (end := ends.get(one, 0)) < span.stop and self.floor(one) != NO_FLOOR
                ]
            found.append(
                HeldForRow(
                    cluster=name,
                    heard=ends is not None,
                    partitions=len(lacking),
                    records=sum(span.stop - end for span, end in lacking),
                    gone=sum(max(0, span.start - end) for span, end in lacking),
                )
            )
        return found
