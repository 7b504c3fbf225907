"""What operators demand of links: part of what is wanted, so it outlives whoever heard it.

Where links aim is in `aims`. A level that is paused is written by nobody: no replica is granted its
flows of records. A hole that is passed is part of the flow, as is where it aims: the flow that
knew less of it ends, and the new one begins where its target is, behind the hole.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, assert_never

from dafka.limits import HOLES_PASSED_MAX
from dafka.model import PartitionShare, Value, replace
from distributor.control.aims import LinkPlace, LinkTurn, aimed, place_of, turned, turning
from distributor.control.aims import objection as objection_to_turn
from distributor.control.messages import FlowKind

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from dafka.model import Partition
    from distributor.control.messages import Flow
    from distributor.link.events import Hole


class LevelPause(Value, frozen=True):
    """An operator wants links of a level to send nothing more, or to go on.

    Attributes:
        level: Which they cross.
        paused: Whether they are to send nothing.
    """

    level: int
    paused: bool


class HolePass(Value, frozen=True):
    """An operator wants links to go on behind what their source keeps no more.

    Attributes:
        level: Which they cross.
        holes: Of each link.
        over: Partitions of each link that need none of theirs any more.
    """

    level: int
    holes: Mapping[LinkPlace, Sequence[Hole]]
    over: Mapping[LinkPlace, frozenset[Partition]] = {}


Demand = LinkTurn | LevelPause | HolePass


class Demands(Value, frozen=True):
    """All that operators demand.

    Attributes:
        aims: Where links are to aim.
        paused: Levels whose links are to send nothing.
        levels_epoch: Of the file's levels in which these were paused: in another one they are not,
            as the same number may be of other links.
        passed: The holes that links go on behind; of a partition one, the last.
    """

    aims: Mapping[LinkPlace, str] = {}
    paused: frozenset[int] = frozenset()
    levels_epoch: int = 0
    passed: Mapping[LinkPlace, tuple[Hole, ...]] = {}

    def lasting(self, levels_epoch: int) -> Demands:
        """What of it holds under a file whose levels have this epoch."""
        paused = self.paused if self.levels_epoch == levels_epoch else frozenset[int]()
        return replace(self, paused=paused, levels_epoch=levels_epoch)

    def pauses(self, flow: Flow) -> bool:
        """Whether nobody may write a flow."""
        return flow.kind is FlowKind.RECORDS and flow.link.level in self.paused

    def shaped(self, flow: Flow) -> Flow:
        """A flow of the file, as it is with these demands."""
        flow = aimed(flow, self.aims)
        holes = self.passed.get(place_of(flow.link), ())
        if flow.kind is not FlowKind.RECORDS or not holes:
            return flow
        share = PartitionShare(flow.share, flow.shares)
        return replace(flow, passes=tuple(one for one in holes if share.has(one.partition.address)))

    def after(self, demand: Demand, flows: Iterable[Flow]) -> Demands:
        """All of it with one more, of a controller of these flows; there is no objection to it."""
        match demand:
            case LinkTurn():
                aims = turned(self.aims, turning(flows, demand), demand.to)
                return replace(self, aims=aims)
            case LevelPause():
                changed = self.paused - {demand.level}
                return replace(self, paused=changed | {demand.level} if demand.paused else changed)
            case HolePass():
                places = {**self.passed, **demand.holes}
                passed = {one: _merged(self, demand, one) for one in places}
                return replace(self, passed={one: holes for one, holes in passed.items() if holes})
            case _:
                assert_never(demand)


def begun_anew(demand: Demand, flows: Iterable[Flow]) -> frozenset[LinkPlace]:
    """Which links begin anew though they are as they were."""
    return turning(flows, demand) if isinstance(demand, LinkTurn) else frozenset()


def objection(flows: Sequence[Flow], demands: Demands, demand: Demand) -> str | None:
    """Why something cannot be demanded, for people; None if it can.

    Args:
        flows: Those of the file.
        demands: What is demanded already.
        demand: What is demanded now.
    """
    turn = demand if isinstance(demand, LinkTurn) else LinkTurn(demand.level, "")
    complaint = objection_to_turn(flows, turn)
    if complaint is None and isinstance(demand, HolePass):
        holes = sum(map(len, demands.after(demand, flows).passed.values()))
        if holes > HOLES_PASSED_MAX:
            return (
                f"these would be {holes} holes, {HOLES_PASSED_MAX} are kept at most: let "
                "`links: skip_overtaken` of the file name the topic"
            )
    return complaint


def _merged(demands: Demands, demand: HolePass, place: LinkPlace) -> tuple[Hole, ...]:
    over = demand.over.get(place, frozenset())
    known = {one.partition: one for one in demands.passed.get(place, ())}
    left = {partition: hole for partition, hole in known.items() if partition not in over}
    left |= {hole.partition: hole for hole in demand.holes.get(place, ())}
    return tuple(sorted(left.values()))
