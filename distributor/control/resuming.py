"""Which holes an operator lets links go on behind: what follows at their targets no store keeps.

From what replicas have said of the targets, and from what the stores of the source say they keep.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from dafka.model import PartitionShare
from distributor.control.aims import place_of
from distributor.control.demands import HolePass
from distributor.control.protocol import PassedOver
from distributor.errors import RefusedCommandError
from distributor.link.events import Hole

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from dafka.model import Partition
    from distributor.control.aims import LinkPlace
    from distributor.control.frontiers import Frontier
    from distributor.control.messages import Flow
    from distributor.control.questions import KnownFlows
    from topology.model import Topology


@dataclass(frozen=True, slots=True)
class ResumeOrder:
    """An operator wants links to go on with a topic.

    Attributes:
        level: Which they cross.
        topic: Of which partitions are overtaken.
    """

    level: int
    topic: str


@dataclass(frozen=True, slots=True)
class KeptRanges:
    """What stores of a cluster keep of a topic.

    Attributes:
        of_stores: Of each that answers, the sequences of each partition.
        whole: Whether all answer.
    """

    of_stores: Sequence[Mapping[Partition, range]]
    whole: bool

    def begins(self) -> dict[Partition, tuple[int, int]]:
        """Where each begins at the store that keeps most of it, and at the one that keeps least."""
        begins: dict[Partition, tuple[int, int]] = {}
        for ranges in self.of_stores:
            for partition, kept in ranges.items():
                most, least = begins.get(partition, (kept.start, kept.start))
                begins[partition] = min(most, kept.start), max(least, kept.start)
        return begins


def hole_pass(
    topology: Topology, known: KnownFlows, asked: ResumeOrder, kept: KeptRanges
) -> tuple[HolePass, PassedOver]:
    """Return what is demanded of which links, and how much that passes over at least.

    Raises:
        RefusedCommandError: Nothing is overtaken there, or no replica has said how far a target is.
    """
    begins = kept.begins()
    holes: dict[LinkPlace, list[Hole]] = {}
    over: dict[LinkPlace, frozenset[Partition]] = {}
    records = 0
    for number, wished in known.records():
        flow = wished.flow
        if flow.link.level != asked.level or not topology.carries(asked.topic, flow.link.span):
            continue
        there = known.there(number)
        if there is None:
            state = known.state(number, wished)
            raise RefusedCommandError(f"no replica has said how far {flow.link.target} is: {state}")
        place, found = place_of(flow.link), [*_holes(flow, there, begins, whole=kept.whole)]
        holes.setdefault(place, []).extend(found)
        over[place] = over.get(place, frozenset()) | _over(flow, there)
        records += sum(begins[one.partition][0] - one.first for one in found)
    partitions = sum(map(len, holes.values()))
    if not partitions:
        raise RefusedCommandError(
            f"no partition of topic {asked.topic!r} is overtaken at level {asked.level}"
        )
    return HolePass(asked.level, holes, over), PassedOver(partitions, records)


def _holes(
    flow: Flow, there: Frontier, begins: Mapping[Partition, tuple[int, int]], *, whole: bool
) -> Iterator[Hole]:
    share = PartitionShare(flow.share, flow.shares)
    for partition, (most, least) in begins.items():
        end = there.get(partition, 0)
        # What the target has nothing of is copied from where the source begins, unless a store that
        # does not answer may have more.
        if share.has(partition.address) and end < most and (end or not whole):
            yield Hole(partition, end, least)


def _over(flow: Flow, there: Frontier) -> frozenset[Partition]:
    """Partitions of which the target is behind the hole that was passed over."""
    return frozenset(
        hole.partition for hole in flow.passes if there.get(hole.partition, 0) >= hole.end
    )
