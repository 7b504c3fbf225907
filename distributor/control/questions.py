"""What operators ask of a controller in charge, and what follows from what is known.

Everything here is a function of the topology, of what is wanted, of what replicas have said, and of
what the stores of the cluster hold.
"""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING

from dafka.limits import PARTITIONS_MAX
from dafka.model import Partition, PartitionShare, Value
from dafka.plural import counted
from distributor.control.frontiers import joined
from distributor.control.messages import FlowKind, FlowStatus
from distributor.control.overview import PAUSED, reports_of
from topology.copyflags import format_flags, levels_of, should_forward

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

    from distributor.control.controller import ControllerMachine
    from distributor.control.frontiers import Frontier
    from distributor.control.grants import Wished, Wishes
    from distributor.control.messages import Flow
    from topology.model import Topology

PREFIX_MIN = 4
"""So many characters of a partition's address name it at least."""


class LeftFlowRow(Value, frozen=True):
    """A flow whose target was not seen as far as was waited for, as `--json` tells it.

    Attributes:
        flow: Its number.
        target: Its preferred target.
        level: Which it crosses.
        share: Which part of the link's partitions, from 0, of how many.
        lacks: How many records; None if no replica has said how far the target is.
        why: What its writer does.
    """

    flow: int
    target: str
    level: int
    share: str
    lacks: int | None
    why: str


class Waited(Value, frozen=True):
    """What has come of waiting.

    Attributes:
        left: What is not there; nothing if all is.
        flows: How many flows it was about.
        partitions: How many partitions.
    """

    left: tuple[LeftFlowRow, ...]
    flows: int
    partitions: int


class RouteRow(Value, frozen=True):
    """What a flow does with a topic or a partition, as `--json` tells it.

    Attributes:
        topic: Which.
        partitions: How many of those that were asked about it has.
        flow: Its number.
        target: Its preferred target.
        level: Which it crosses.
        share: Which part of the link's partitions, from 0, of how many.
        writer: Which replica may write; empty if none does.
        state: What the writer says that it does.
        carried: Whether the flow carries it.
        lacks: How many records the target lacks; None if no replica has said.
        why: Why it is not carried, or not there.
    """

    topic: str
    partitions: int
    flow: int
    target: str
    level: int
    share: str
    writer: str
    state: str
    carried: bool
    lacks: int | None
    why: str


class AimedLinkRow(Value, frozen=True):
    """A link, as `--json` tells it.

    Attributes:
        target: The target that it is to serve.
        level: Which it crosses.
        topics: What is carried across it, if not all.
    """

    target: str
    level: int
    topics: str


class Asked(Value, frozen=True):
    """What is explained.

    Attributes:
        topics: Of each, its partitions in the stores of the cluster and where they end.
        flags: Copy flags of the record that is asked about, as they count in the file's epoch; None
            if it is about no single one.
    """

    topics: Mapping[str, Mapping[Partition, int]]
    flags: int | None = None


class KnownFlows:
    """What a controller in charge knows of its flows.

    Args:
        wishes: What is wanted.
        machines: Replicas, by name.
    """

    def __init__(self, wishes: Wishes, machines: Mapping[str, ControllerMachine]) -> None:
        self.wishes, self._machines = wishes, machines

    def now(self, later: KnownFlows) -> KnownFlows:
        """The flows that were wanted then, by what is known of them later."""
        return KnownFlows(self.wishes, later._machines)

    def records(self) -> Iterator[tuple[int, Wished]]:
        """The flows that copy records."""
        for number, wished in self.wishes.flows.items():
            if wished.flow.kind is FlowKind.RECORDS:
                yield number, wished

    def there(self, flow: int) -> Frontier | None:
        """How far the target of a flow is, as any replica has said; None if none has."""
        told = [report for one in self._machines.values() if (report := reports_of(one).get(flow))]
        found: dict[Partition, int] = {}
        for report in told:
            found = joined(found, report.write)
        return found if told else None

    def state(self, flow: int, wished: Wished) -> str:
        """What the writer of a flow does, for people."""
        if self.wishes.demands.pauses(wished.flow):
            return PAUSED
        machine = self._machines.get(wished.writer)
        report = None if machine is None else reports_of(machine).get(flow)
        if not wished.writer:
            return "no replica writes it"
        if report is None or report.status is None:
            return f"{wished.writer} has not said what it does"
        return report.status.value

    def lacks(self, flow: int, due: Frontier) -> int | None:
        """How many records the target of a flow lacks; None if no replica has said."""
        there = self.there(flow)
        if there is None:
            return None
        return sum(max(0, end - there.get(partition, 0)) for partition, end in due.items())


def due_of(topology: Topology, known: KnownFlows, ends: Frontier) -> dict[int, Frontier]:
    """How far the target of each flow is to be for all that there is to be there.

    Args:
        topology: Which topics each link carries.
        known: The flows.
        ends: Where the partitions end that the cluster has.
    """
    due: dict[int, Frontier] = {}
    for number, wished in known.records():
        carries = _carries(topology, wished.flow)
        of_flow = {one: end for one, end in ends.items() if end > 0 and carries(one)}
        if of_flow:
            due[number] = of_flow
    return due


def aimed_rows(known: KnownFlows, level: int) -> list[AimedLinkRow]:
    """Where the links of a level aim."""
    links = (wished.flow.link for _, wished in known.records())
    found = (AimedLinkRow(one.target, level, one.topics) for one in links if one.level == level)
    return [*dict.fromkeys(found)]


def left_rows(
    known: KnownFlows, due: Mapping[int, Frontier], left: Iterable[int]
) -> list[LeftFlowRow]:
    """Flows that were waited for in vain, and why."""
    rows = []
    for number in left:
        wished = known.wishes.flows[number]
        link = wished.flow.link
        share, state = _share(wished.flow), known.state(number, wished)
        lacks = known.lacks(number, due[number])
        rows.append(LeftFlowRow(number, link.target, link.level, share, lacks, state))
    return rows


def matching(what: str, ends: Frontier) -> dict[str, dict[Partition, int]]:
    """What is asked about: a topic, or partitions whose address begins so, by topic."""
    of_topic = {one: end for one, end in ends.items() if one.topic == what}
    if of_topic:
        return {what: of_topic}
    found: dict[str, dict[Partition, int]] = {}
    for one, end in ends.items():
        if len(what) >= PREFIX_MIN and one.address.startswith(what):
            found.setdefault(one.topic, {})[one] = end
    return found or {what: {}}


def route_rows(topology: Topology, known: KnownFlows, asked: Asked) -> list[RouteRow]:
    """What each flow of records does with what is asked about; of shares those that have it."""
    rows = []
    for topic, ends in asked.topics.items():
        for number, wished in known.records():
            share = PartitionShare(wished.flow.share, wished.flow.shares)
            mine = {one: end for one, end in ends.items() if share.has(one.address)}
            if ends and not mine:
                continue
            link, state = wished.flow.link, known.state(number, wished)
            kept_out = _kept_out(topology, wished.flow, topic, asked.flags)
            lacks = None if kept_out else known.lacks(number, mine)
            why = kept_out or _on_its_way(lacks, len(mine), state) + _passed(wished.flow, mine)
            rows.append(
                RouteRow(
                    topic=topic,
                    partitions=len(mine),
                    flow=number,
                    target=link.target,
                    level=link.level,
                    share=_share(wished.flow),
                    writer=wished.writer,
                    state=state,
                    carried=not kept_out,
                    lacks=lacks,
                    why=why,
                )
            )
    return rows


def _kept_out(topology: Topology, flow: Flow, topic: str, flags: int | None) -> str:
    """Why a flow does not carry a topic, or a record of these copy flags; empty if it does."""
    if not topology.topics.copies(topic):
        return "no link carries the topic: it is internal, excluded or not included"
    if not topology.carries(topic, flow.link.span):
        return f"the topic is on {', '.join(topology.placed_on(topic))}: not of this link"
    if flags is None or should_forward(flags, flow.link.level):
        return ""
    crossed = ", ".join(map(str, levels_of(flags)))
    binary = format_flags(flags)
    return f"the record crossed level {crossed} before (copy flags {binary}): others bring it there"


def _on_its_way(lacks: int | None, partitions: int, state: str) -> str:
    if not partitions:
        return "this cluster has no partition of it"
    if lacks == 0:
        return "all is there"
    if lacks is None:
        return f"no replica has said how far the target is: {state}"
    return "on its way" if state == FlowStatus.WRITING.value else state


def _passed(flow: Flow, partitions: Iterable[Partition]) -> str:
    """That records are not copied as an operator lets their hole be passed over, if it is so."""
    asked = frozenset(partitions)
    records = sum(hole.end - hole.first for hole in flow.passes if hole.partition in asked)
    return f"; passes over {counted(records, 'record')} that were not kept" if records else ""


def _carries(topology: Topology, flow: Flow) -> Callable[[Partition], bool]:
    share = PartitionShare(flow.share, flow.shares)

    @lru_cache(PARTITIONS_MAX)
    def carries(topic: str) -> bool:
        return topology.carries(topic, flow.link.span)

    return lambda one: carries(one.topic) and share.has(one.address)


def _share(flow: Flow) -> str:
    return f"{flow.share}/{flow.shares}"
