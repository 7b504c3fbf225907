"""A link on real sockets: one thread in two meshes."""

from __future__ import annotations

import logging
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import replace
from functools import lru_cache, partial
from typing import TYPE_CHECKING, Protocol

from dafka.cluster import Cluster
from dafka.limits import PARTITIONS_MAX
from dafka.model import WHOLE
from dafka.node.loop import Node
from dafka.process.clock import CLOCK
from dafka.protocol.consumer import ConsumerMachine, ConsumerSettings, Start
from dafka.protocol.events import TurnEnded
from dafka.protocol.machine import earliest
from dafka.protocol.mirror import MirrorMachine, MirrorSettings
from dafka.protocol.stores import HEADS_INTERVAL_MS_MAX
from dafka.records.compression import Codec
from dafka.transport.mesh import Mesh
from distributor.link.events import (
    AskHeads,
    HeadsRead,
    HeadsUnread,
    Held,
    Hold,
    Hopped,
    LinkEvent,
    PassOver,
    Permit,
    Resumed,
    Side,
    SidedEffect,
    Skipped,
    Stop,
    Stopped,
    StopReason,
    overtaken_of,
)
from distributor.link.holdings import BothEnds
from distributor.link.machine import LinkMachine
from distributor.link.meter import LinkMeter
from distributor.link.progress import LinkProgress
from distributor.link.pull_order import patient
from distributor.link.settings import LinkSettings
from distributor.link.tracing import HopTracer, tracer_of
from topology.plan import plan

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping
    from concurrent.futures import Future

    from dafka.model import Partition, PartitionShare
    from dafka.node.turn import Role
    from dafka.process.clock import Clock
    from dafka.transport.sockets import Pollable
    from distributor.link.events import Hole
    from topology.model import Topology
    from topology.plan import Link, Plan

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
        permitted: Whether it may write; if not, it is ready to, until `permit`.
        watched: Whether somebody asks for its `progress`.
        share: Which partitions it carries; it may send as large a part of what the link may.
        passes: Holes that it passes over.
    """

    def __init__(
        self,
        topology: Topology,
        link: Link,
        aim: str = "",
        *,
        permitted: bool = True,
        watched: bool = False,
        share: PartitionShare = WHOLE,
        passes: Iterable[Hole] = (),
    ) -> None:
        source = topology.cluster(link.source)
        target = topology.cluster(aim or link.target)
        here, there = Cluster.declared(source), Cluster.declared(target)
        address = here.new_address()

        tracer = tracer_of()
        bounds = topology.links
        settings = LinkSettings(
            repair_after_ms=bounds.repair_after_ms,
            bytes_per_s=part_of(bounds.bytes_per_s, share),
            records_per_s=part_of(bounds.records_per_s, share),
            skips=bounds.skips,
            passes={hole.partition: hole for hole in passes},
            traced=tracer is not None,
            codec=Codec.named(bounds.compression_at(link.level)),
        )
        # Both ends of the link are nodes of this process, reached at the source's host.
        meshes: dict[Side, Mesh] = {}
        with ExitStack() as opened:
            for side, cluster in (
                (Side.SOURCE, here),
                (Side.TARGET, there.checked_mirroring().bound_at(here.host, here.advertise)),
            ):
                meshes[side] = Mesh(cluster, address)
                opened.callback(meshes[side].close, 0)
            opened.pop_all()  # all there: from here on the node's thread closes them
        foreign = meshes[Side.TARGET].foreign
        machine = link_machine(
            plan(topology),
            link,
            target.name,
            address,
            settings,
            foreign=foreign,
            permitted=permitted,
            share=share,
        )
        ends = BothEnds(source, target, carried_by(topology, link), share=share)
        hops = None if tracer is None else HopTracer(tracer, link, target.name)
        meter = self._meter = LinkMeter(link, target.name, share, hops)
        role = LinkRole(machine, meter, ends, ThreadAsker(), self._answered, watched=watched)
        self._clusters: dict[Side, str] = {Side.SOURCE: source.name, Side.TARGET: target.name}
        self._role = role
        live: Role[Side, HeadsRead | HeadsUnread | Hold | PassOver | Permit] = role
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
        self._meter.close()

    @property
    def sent(self) -> Mapping[Partition, int] | None:
        """Once it is on hold: everything it sent, the end of each partition."""
        return self._role.sent

    def hold(self) -> None:
        """Copy nothing more, and say what was sent."""
        self._node.post(Side.SOURCE, Hold())

    def permit(self) -> None:
        """Write from now on."""
        self._node.post(Side.SOURCE, Permit())

    @property
    def progress(self) -> LinkProgress:
        """How far it is, if that is watched."""
        return self._role.progress

    @property
    def turned_ms(self) -> int:
        """When its loop has turned last, on the monotonic clock."""
        return self._node.turned_ms

    def pass_over(self, topic: str) -> Mapping[Partition, Stop]:
        """Go on with a topic behind what the source keeps no more; returns what stands still."""
        self._node.post(Side.SOURCE, PassOver(topic))
        return overtaken_of(topic, self._role.stops)

    @property
    def stuck_ms(self) -> int:
        """For how long the target has taken none of what waits for it; 0 if it takes."""
        return self._role.stuck_ms

    @property
    def late_ms(self) -> int:
        """How late the target stores what it is sent; 0 if nothing waits for it."""
        return self._role.late_ms

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
        return self._role.told.get(cluster)

    def _answered(self, event: LinkEvent) -> None:
        self._node.post(Side.TARGET, event)


def carried_by(topology: Topology, link: Link) -> Callable[[str], bool]:
    """Return whether a link carries a topic."""

    @lru_cache(PARTITIONS_MAX)  # asked for every message of a topic that is not carried
    def wants(topic: str) -> bool:
        return topology.carries(topic, link.span)

    return wants


def part_of(rate: int | None, share: PartitionShare) -> int | None:
    """Return what of a link's bound one share of it may use."""
    return None if rate is None else max(1, rate // share.of)


def link_machine(
    whole: Plan,
    link: Link,
    target: str,
    address: str,
    settings: LinkSettings,
    *,
    foreign: bool,
    permitted: bool = True,
    share: PartitionShare = WHOLE,
) -> LinkMachine:
    """Return a link that knows nothing yet.

    Args:
        whole: All links.
        link: Which.
        target: Which of its targets.
        address: Of its node, in both meshes.
        settings: See there.
        foreign: Whether nodes of another make may be at the target.
        permitted: Whether it may write at once.
        share: Which partitions it carries.
    """
    topology = whole.topology
    consumer = ConsumerSettings(
        wants=carried_by(topology, link),
        share=share,
        start=Start.ASSIGNED,
        committed=True,
        guest=topology.cluster(link.source).delivery == "stores",
        heads_interval_ms_max=HEADS_INTERVAL_MS_MAX,
    )
    if settings.bytes_per_s is not None or settings.records_per_s is not None:
        # What is taken in goes out at once, before the rate can hold anything back.
        consumer = replace(consumer, buffer_bytes_max=LIMITED_BUFFER_BYTES)
    return LinkMachine(
        level=link.level,
        origin=topology.cluster(link.source).id,
        epoch=topology.levels.epoch,
        source=ConsumerMachine(address, consumer),
        mirror=MirrorMachine(MirrorSettings(foreign=foreign)),
        settings=patient(settings, whole.links, link.source, target),
        permitted=permitted,
    )


class Asker(Protocol):
    """How a link asks stores without waiting for them."""

    def ask(self, question: Callable[[], LinkEvent], answered: Callable[[LinkEvent], None]) -> None:
        """Ask, and be called with the answer."""

    def check(self) -> None:
        """Raise what went wrong in the asking."""

    def close(self, last: Callable[[], None]) -> None:
        """Ask nothing more; do something last."""


class ThreadAsker:
    """Asks in a thread: there may be many pages, and the meshes go on meanwhile."""

    def __init__(self) -> None:
        self._thread = ThreadPoolExecutor(max_workers=1, thread_name_prefix="dafka-ask")
        self._asked: Future[None] | None = None

    def ask(self, question: Callable[[], LinkEvent], answered: Callable[[LinkEvent], None]) -> None:
        """Ask, and call with the answer from that thread."""
        self._asked = self._thread.submit(lambda: answered(question()))

    def check(self) -> None:
        """Raise what went wrong in the asking: it ends the link, as it would here."""
        if self._asked is not None and self._asked.done():
            self._asked.result()
            self._asked = None

    def close(self, last: Callable[[], None]) -> None:
        """Ask nothing more; do something last, in that thread."""
        self._thread.submit(last)
        self._thread.shutdown(wait=False)


class Meter(Protocol):
    """What a link tells of itself: `LinkMeter`."""

    def hopped(self, hopped: Hopped) -> None:
        """A batch is durable at the target."""

    def skipped(self, skipped: Skipped) -> None:
        """Records need not cross this level."""

    def tell(self) -> None:
        """A turn has ended."""

    def standstill(self, behind: int, standstill_ms: int) -> None:
        """What the last survey of both ends has found."""

    def stopped(self, counts: Mapping[StopReason, int], shortened: int) -> None:
        """How many partitions are not copied, and are copied without their beginning."""

    def lag(self, records: int, age_ms: int) -> None:
        """How far behind the link is now."""


class LinkRole:
    """A link's machine in its node.

    Args:
        machine: See there.
        meter: What is told.
        ends: Both clusters' stores.
        asker: How they are asked.
        answered: Posts what was answered to the node.
        clock: Its clock.
        watched: Whether to keep `progress`.
    """

    name = "link"

    def __init__(
        self,
        machine: LinkMachine,
        meter: Meter,
        ends: BothEnds,
        asker: Asker,
        answered: Callable[[LinkEvent], None],
        clock: Clock = CLOCK,
        *,
        watched: bool = False,
    ) -> None:
        self._watched = watched
        self.progress = LinkProgress({}, {}, {})
        self.machine = machine
        self._meter = meter
        self._ends = ends
        self._asker = asker
        self._answered = answered
        self._now_ms = clock.now_ms
        self._lag_due_ms = self._told_due_ms = 0
        # Read by other threads; each is replaced whole.
        self.sent: Mapping[Partition, int] | None = None
        self.told = ends.told
        self.stops: Mapping[Partition, Stop] = {}
        self.shortened = 0
        self.stuck_ms = self.late_ms = 0

    def handle(self, side: Side, event: LinkEvent, now_ms: int) -> Iterable[SidedEffect]:
        """Pass an event to the machine; at the end of a turn, tell how things are."""
        if isinstance(event, TurnEnded):
            self._meter.tell()
            self._asker.check()
            if now_ms >= self._told_due_ms:
                self._told_due_ms = now_ms + LAG_INTERVAL_MS
                self._tell(now_ms)
            if now_ms >= self._lag_due_ms:
                self._meter.lag(*self.machine.lag(now_ms))
                if self._watched:
                    self.progress = self.machine.progress()
                self._lag_due_ms = _rested(now_ms, self._now_ms())
            return ()
        return self.machine.handle((side, event), now_ms)

    def wakeup_ms(self) -> int | None:
        """When the machine wants to be woken, or something is to be told."""
        due_ms = self.machine.wakeup_ms()
        return earliest(due_ms, self._lag_due_ms, self._told_due_ms)

    def perform(self, _side: Side, effect: object) -> None:
        """Ask both ends' stores; count, and report what stops."""
        match effect:
            case AskHeads():
                self._asker.ask(partial(self._ends.survey, effect.found), self._answered)
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
        """No sockets of its own."""
        return {}

    def close(self) -> None:
        """Ask nothing more."""
        self._asker.close(self._ends.close)

    def _tell(self, now_ms: int) -> None:
        self.stuck_ms = self.machine.stuck_ms(now_ms)
        self.late_ms = self.machine.late_ms
        self._meter.standstill(*self.machine.standstill(now_ms))
        self._meter.stopped(self.machine.stops.counts(), len(self.machine.shortened))
        self.stops = dict(self.machine.stops.by_partition)
        self.shortened = len(self.machine.shortened)

    def _report(self, effect: Stopped | Resumed) -> None:
        facts: dict[str, object] = {
            "topic": effect.partition.topic,
            "address": effect.partition.address,
            "source": self._ends.source,
            "target": self._ends.target,
        }
        if isinstance(effect, Resumed):
            log.warning(COPIED_AGAIN, extra=facts)
            return
        stop = effect.stop
        means = _UNSURE if stop.unsure else MEANINGS[stop.reason]
        log.error(means, extra={**facts, "first": stop.first, "end": stop.end})


COPIED_AGAIN = "partition is copied again"

MEANINGS = {
    StopReason.DIVERGED: "partition has diverged, same name, other record: it is not copied",
    StopReason.OVERTAKEN: (
        "partition is overtaken, the source keeps no more what follows: it is not copied"
    ),
    StopReason.REFUSED: (
        "partition is refused, the target acknowledges nothing of it: it is tried again later"
    ),
}
"""What is logged of a partition that stops."""

_UNSURE = "partition waits: not every store of the source says whether it keeps what follows"


def _rested(began_ms: int, ended_ms: int) -> int:
    """When to work out the lag again, which has taken this time."""
    rest_ms = max((ended_ms - began_ms) * LAG_REST, LAG_INTERVAL_MS)
    return ended_ms + min(rest_ms, LAG_INTERVAL_MS_MAX)
