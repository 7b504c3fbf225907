"""A link on real sockets: one thread in two meshes."""

from __future__ import annotations

import logging
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import replace
from functools import lru_cache
from typing import TYPE_CHECKING

from dafka.cluster import Cluster
from dafka.errors import QueryError
from dafka.limits import PARTITIONS_MAX
from dafka.node.loop import Node, Role
from dafka.process.clock import now_ms
from dafka.protocol.consumer import ConsumerMachine, ConsumerSettings, Start
from dafka.protocol.events import TurnEnded
from dafka.protocol.machine import earliest
from dafka.protocol.mirror import MirrorMachine, MirrorSettings
from dafka.protocol.stores import HEADS_INTERVAL_MS_MAX
from dafka.transport.mesh import Mesh
from distributor.link.events import (
    AskHeads,
    HeadsRead,
    HeadsUnread,
    Held,
    Hold,
    Hopped,
    LinkEvent,
    Resumed,
    Side,
    SidedEffect,
    Skipped,
    Stop,
    Stopped,
    StopReason,
)
from distributor.link.holdings import Holdings
from distributor.link.machine import LinkMachine, LinkSettings
from distributor.link.meter import LinkMeter
from distributor.link.pull_order import patient
from distributor.verify.divergence import Witness
from topology.plan import plan

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping
    from concurrent.futures import Future

    from dafka.model import Partition
    from dafka.transport.sockets import Pollable
    from topology.model import ClusterSpec, Topology
    from topology.plan import Link

log = logging.getLogger(__name__)

LIMITED_BUFFER_BYTES = 256 * 1024
"""What a link with a bounded rate has under way: it may send so much at once."""

LAG_INTERVAL_MS = 500
"""How often the lag is worked out, and what stands still is told."""

LAG_REST = 100
LAG_INTERVAL_MS_MAX = 10_000
"""It looks at every partition: of very many so rarely that it takes a hundredth of the time, but
not more rarely than this."""


class LinkNode:
    """One link, running.

    Args:
        topology: Where both clusters are declared.
        link: Which arrow of the plan.
        aim: Which of its targets; by default the preferred one.
    """

    def __init__(self, topology: Topology, link: Link, aim: str = "") -> None:
        source = topology.cluster(link.source)
        target = topology.cluster(aim or link.target)
        here, there = Cluster.declared(source), Cluster.declared(target)
        address = here.new_address()

        @lru_cache(PARTITIONS_MAX)  # asked for every message of a topic that is not carried
        def wants(topic: str) -> bool:
            return topology.carries(topic, link.span)

        settings = ConsumerSettings(
            wants=wants,
            start=Start.ASSIGNED,
            committed=True,
            heads_interval_ms_max=HEADS_INTERVAL_MS_MAX,
        )
        bounds = topology.links
        if bounds.bytes_per_s is not None or bounds.records_per_s is not None:
            # What is taken in goes out at once, before the rate can hold anything back.
            settings = replace(settings, buffer_bytes_max=LIMITED_BUFFER_BYTES)
        link_settings = LinkSettings(
            repair_after_ms=bounds.repair_after_ms,
            bytes_per_s=bounds.bytes_per_s,
            records_per_s=bounds.records_per_s,
        )
        # Both ends of the link are nodes of this process, reached at the source's host.
        meshes: dict[Side, Mesh] = {}
        with ExitStack() as opened:
            for side, cluster in (
                (Side.SOURCE, here),
                (Side.TARGET, there.bound_at(here.host)),
            ):
                meshes[side] = Mesh(cluster, address)
                opened.callback(meshes[side].close, 0)
            opened.pop_all()  # all there: from here on the node's thread closes them
        machine = LinkMachine(
            level=link.level,
            origin=source.id,
            epoch=topology.levels.epoch,
            source=ConsumerMachine(address, settings),
            mirror=MirrorMachine(MirrorSettings(foreign=meshes[Side.TARGET].foreign)),
            settings=patient(link_settings, plan(topology).links, source.name, target.name),
        )
        meter = LinkMeter(link, target.name)
        role = _LinkRole(machine, meter, source, target, wants, self._answered)
        self._clusters: dict[Side, str] = {Side.SOURCE: source.name, Side.TARGET: target.name}
        self._role = role
        live: Role[Side, HeadsRead | HeadsUnread | Hold] = role
        self._node = Node(live, address, meshes)
        self._node.start()

    def join(self, timeout: float) -> bool:
        """See `LongRunning`."""
        ended = self._node.join(timeout)
        self._node.check()
        return ended

    def unwell(self) -> str:
        """See `LongRunning`."""
        return self._node.unwell()

    def unready(self) -> str:
        """Which of its clusters it has not found, for people; empty if both are there."""
        alone = [name for side, name in self._clusters.items() if not self._node.peers(side)]
        return f"no node heard of {' and '.join(alone)}" if alone else ""

    def close(self) -> None:
        """Leave both meshes. Nothing has to be saved: the target knows what it has."""
        self._node.stop()

    @property
    def sent(self) -> Mapping[Partition, int] | None:
        """Once it is on hold: everything it sent, the end of each partition."""
        return self._role.sent

    def hold(self) -> None:
        """Copy nothing more, and say what was sent."""
        self._node.post(Side.SOURCE, Hold())

    @property
    def stops(self) -> Mapping[Partition, Stop]:
        """Partitions that are not copied at present, and why."""
        return self._role.stops

    @property
    def shortened(self) -> int:
        """Partitions that begin later at the target, as the source kept their beginning no more."""
        return self._role.shortened

    def remembered(self, cluster: str) -> tuple[int, Mapping[Partition, int]] | None:
        """What a cluster last said it holds, and when (monotonic, in milliseconds)."""
        return self._role.surveyed.get(cluster)

    def _answered(self, event: LinkEvent) -> None:
        self._node.post(Side.TARGET, event)


class _LinkRole:
    """The link's shell in the node's thread."""

    name = "link"

    def __init__(
        self,
        machine: LinkMachine,
        meter: LinkMeter,
        source: ClusterSpec,
        target: ClusterSpec,
        wants: Callable[[str], bool],
        answered: Callable[[LinkEvent], None],
    ) -> None:
        self._machine = machine
        self._meter = meter
        self._source = source
        self._target = target
        self._holdings = {
            Side.SOURCE: Holdings(source, wants),
            Side.TARGET: Holdings(target, wants),
        }
        self._witness = Witness()
        self._answered = answered
        # Asking blocks and takes many pages where there are many partitions; the meshes go on.
        self._asker = ThreadPoolExecutor(max_workers=1, thread_name_prefix="dafka-ask")
        self._asked: Future[None] | None = None
        self._lag_due_ms = self._told_due_ms = 0
        # Read by other threads; each is replaced whole.
        self.sent: Mapping[Partition, int] | None = None
        self.surveyed: dict[str, tuple[int, Mapping[Partition, int]]] = {}
        self.stops: Mapping[Partition, Stop] = {}
        self.shortened = 0

    def handle(self, side: Side, event: LinkEvent, now_ms: int) -> Iterable[SidedEffect]:
        if isinstance(event, TurnEnded):
            self._meter.tell()
            if self._asked is not None and self._asked.done():
                self._asked.result()  # what went wrong there ends the link, as it would here
                self._asked = None
            if now_ms >= self._told_due_ms:
                self._told_due_ms = now_ms + LAG_INTERVAL_MS
                self._tell(now_ms)
            if now_ms >= self._lag_due_ms:
                self._meter.lag(*self._machine.lag(now_ms))
                self._lag_due_ms = _rested(now_ms)
            return ()
        return self._machine.handle((side, event), now_ms)

    def wakeup_ms(self) -> int | None:
        due_ms = self._machine.wakeup_ms()
        return earliest(due_ms, self._lag_due_ms, self._told_due_ms)

    def perform(self, _side: Side, effect: object) -> None:
        match effect:
            case AskHeads():
                self._asked = self._asker.submit(self._ask)
            case Hopped():
                self._meter.hopped(effect)
            case Skipped():
                self._meter.skipped(effect)
            case Held():
                self.sent = effect.sent
            case Stopped() | Resumed():
                self._report(effect)
            case _:
                raise AssertionError(effect)

    def pollable(self) -> Mapping[Pollable, Callable[[], Iterable[tuple[Side, LinkEvent]]]]:
        return {}

    def close(self) -> None:
        self._asker.submit(self._close_holdings)
        self._asker.shutdown(wait=False)

    def _tell(self, now_ms: int) -> None:
        self._meter.standstill(*self._machine.standstill(now_ms))
        self._meter.stopped(self._machine.stops.counts(), len(self._machine.shortened))
        self.stops = dict(self._machine.stops.by_partition)
        self.shortened = len(self._machine.shortened)

    def _report(self, effect: Stopped | Resumed) -> None:
        facts: dict[str, object] = {
            "topic": effect.partition.topic,
            "address": effect.partition.address,
            "source": self._source.name,
            "target": self._target.name,
        }
        if isinstance(effect, Resumed):
            log.warning("this partition is copied again", extra=facts)
            return
        reason, first, end = effect.stop
        log.error(_MEANS[reason], extra={**facts, "first": first, "end": end})

    def _ask(self) -> None:
        """Ask both ends' stores, and whether they mean the same records."""
        source, target = self._holdings[Side.SOURCE], self._holdings[Side.TARGET]
        # Copies of what changes with the next survey: they are read in another thread.
        theirs = self._heads_of(target)
        if theirs is None:
            self._answered(HeadsUnread())
            return
        ours = self._heads_of(source)
        if ours is not None and (spans := self._witness.due(ours, theirs)):
            self._look(spans)
        # A source that does not answer has not lost anything: what was found out still holds.
        heads = HeadsRead(
            target=theirs,
            source=ours or {},
            diverged=dict(self._witness.diverged),
            waiting=self._witness.waiting(source.heads, theirs),
            begins={} if ours is None else dict(source.begins),
            empty=frozenset(target.empty),
        )
        self._answered(heads)

    def _close_holdings(self) -> None:
        for holdings in self._holdings.values():
            holdings.close()

    def _look(self, spans: Mapping[Partition, range]) -> None:
        try:
            ours, theirs = (self._holdings[side].client() for side in Side)
            self._witness.look(ours, theirs, spans)
        except QueryError as error:
            log.warning("cannot compare records", extra={"error": str(error)})

    def _heads_of(self, holdings: Holdings) -> dict[Partition, int] | None:
        if not holdings.ask():
            return None
        heads = dict(holdings.heads)
        self.surveyed[holdings.cluster] = (now_ms(), heads)
        return heads


_MEANS = {
    StopReason.DIVERGED: "same name, other record: this partition is not copied",
    StopReason.OVERTAKEN: "the source keeps no more what follows: this partition is not copied",
}


def _rested(began_ms: int) -> int:
    """When to work out the lag again, which has taken the time since `began_ms`."""
    ended_ms = now_ms()
    rest_ms = max((ended_ms - began_ms) * LAG_REST, LAG_INTERVAL_MS)
    return ended_ms + min(rest_ms, LAG_INTERVAL_MS_MAX)
