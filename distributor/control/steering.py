"""Steering a link with a choice of targets: when to look at them, and when what it sent is there.

Which target is served `TargetMachine` decides. Here is what it takes to know and what it leads to;
the thread is the agent's, or the simulator's.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, NamedTuple, Protocol

from dafka.cluster import Cluster
from dafka.errors import QueryError
from dafka.plural import counted
from dafka.process.clock import CLOCK
from dafka.protocol.events import Woke
from dafka.query.client import LOOK_TIMEOUT_MS
from dafka.query.cluster_client import ClusterClient
from dafka.transport.request import QueryClient
from dafka.transport.sockets import refuses
from distributor.control.relays import RelayWatch
from distributor.link.holdings import Holdings
from distributor.link.node import carried_by
from distributor.link.target import (
    Drain,
    Drained,
    Probed,
    Starved,
    Stuck,
    Switch,
    TargetMachine,
    TargetSettings,
    TargetState,
)
from distributor.survey import gives_sign_of_life

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Mapping

    from dafka.model import Partition
    from dafka.process.clock import Clock
    from dafka.transport.request import ConnectClient
    from distributor.link.target import TargetEffect, TargetEvent
    from topology.model import Topology
    from topology.plan import Link

log = logging.getLogger(__name__)

PROBE_INTERVAL_MS = 1_000
"""How often the targets are asked for a sign of life, and what they have."""

STUCK_MS = 3_000
"""A target that takes nothing for so long is said to be stuck: an acknowledgement takes some
milliseconds."""

LATE_PARTS = 4
"""A target that stores what it was sent a while ago is as good as one that has stored nothing for
this part of the time: slow, though it takes something all the while. What fills the buffers of a
link that catches up is stored seconds after it was sent."""

PROBE_AGAIN_MS = 100
"""How soon they are asked again where that may decide that the served one is left."""

BARRIER_INTERVAL_MS = 200
"""How often the clusters behind a target are asked whether they have everything."""


class SteeredNode(Protocol):
    """The link itself, towards one target at a time."""

    @property
    def sent(self) -> Mapping[Partition, int] | None:
        """Once it is on hold: everything it sent, the end of each partition."""

    @property
    def stuck_ms(self) -> int:
        """For how long the target has taken none of what waits for it; 0 if it takes."""

    @property
    def late_ms(self) -> int:
        """How late the target stores what it is sent; 0 if nothing waits for it."""

    def hold(self) -> None:
        """Copy nothing more, and say what was sent."""

    def reopen(self, target: str) -> None:
        """End, and begin anew towards a target."""

    def unready(self) -> str:
        """Which of its clusters it has not found, for people; empty if both are there."""


class _Look(NamedTuple):
    """What a target has answered; its heads are None if it did not, or was not asked."""

    probed: Probed
    heads: Mapping[Partition, int] | None = None


class ClusterStores:
    """The stores of a topology's clusters, as far as steering asks them.

    Different clusters may be asked at once, each by one thread.

    Args:
        topology: Where they are declared.
        link: What is steered.
        connect: Makes the connections.
        refuses: Whether nobody listens at an endpoint, for certain.
    """

    def __init__(
        self,
        topology: Topology,
        link: Link,
        connect: ConnectClient = QueryClient,
        refuses: Callable[[str], bool] = refuses,
    ) -> None:
        self._topology = topology
        self._connect = connect
        self._refuses = refuses
        self._carried = carried_by(topology, link)
        self._holdings: dict[str, Holdings] = {}

    def is_well(self, name: str) -> bool:
        """Whether any store of a cluster gives a sign of life."""
        return gives_sign_of_life(self._topology.cluster(name), self._connect)

    def are_gone(self, name: str) -> bool:
        """Whether no process listens any more where the stores of a cluster are asked."""
        return all(self._refuses(one.query) for one in self._topology.cluster(name).stores)

    def heads(self, name: str, partitions: Collection[Partition]) -> Mapping[Partition, int] | None:
        """The heads of these in a cluster, as its first store says that answers; None if none."""
        cluster = Cluster.declared(self._topology.cluster(name))
        try:
            with ClusterClient(cluster, LOOK_TIMEOUT_MS, self._connect) as stores:
                ranges = stores.first(lambda store: store.ranges_of(partitions))
        except QueryError:
            return None
        return {partition: kept.stop - 1 for partition, kept in ranges.items()}

    def carried(self, name: str) -> Mapping[Partition, int] | None:
        """The heads of what the link carries; only what has changed is asked for."""
        holdings = self._holdings.get(name)
        if holdings is None:
            cluster = self._topology.cluster(name)
            holdings = Holdings(cluster, self._carried, self._connect, LOOK_TIMEOUT_MS)
            self._holdings[name] = holdings
        if not holdings.ask():
            return None
        holdings.name(())  # of what is listed no more nothing needs to be known
        return holdings.said.heads

    def close(self) -> None:
        """Release the connections."""
        for holdings in self._holdings.values():
            holdings.close()


class _Left(NamedTuple):
    """A target that was left because another one got too little of what it took."""

    target: str
    starved: str
    at_ms: int


class Steering:
    """One link of the plan, with all its targets.

    Args:
        link: Which arrow of the plan; it is open towards the first of its targets.
        settings: When to aim elsewhere.
        node: What is steered.
        stores: Those of the targets, and of the clusters behind them.
        probe: Applies a question to all targets, maybe at once.
        probe_interval_ms: How often.
        clock: Tells the time.
    """

    def __init__(
        self,
        link: Link,
        settings: TargetSettings,
        node: SteeredNode,
        stores: ClusterStores,
        *,
        probe: Callable[[Callable[[str], _Look], tuple[str, ...]], Iterable[_Look]] = map,
        probe_interval_ms: int = PROBE_INTERVAL_MS,
        clock: Clock = CLOCK,
    ) -> None:
        self._link = link
        self._node = node
        self._stores = stores
        self._apply = probe
        self._probe_interval_ms = probe_interval_ms
        self._now_ms = clock.now_ms
        self._probe_due_ms = self._now_ms()
        self._stood_ms: int | None = None
        """Since when nothing is copied because the target is being changed."""
        self._stall_ms = 0
        self.aim = TargetMachine(link.targets, settings, self._now_ms())
        self.switches = 0
        self._barrier = ""
        """What the barrier waits for."""
        self._relays = RelayWatch()
        self._left: _Left | None = None
        self._silent: set[str] = set()
        """Targets that gave no sign of life last time."""

    @property
    def state(self) -> str:
        """What it does, in a word."""
        if self.aim.silent and len(self._link.targets) > 1 and not self.aim.paused:
            return "silent"
        stuck = self.aim.state is TargetState.SERVING and self._stuck_ms >= STUCK_MS
        return "stuck" if stuck else self.aim.state.value

    @property
    def waits_for(self) -> str:
        """What the barrier waits for, or why nothing arrives, for people; empty if all is well."""
        if self._barrier or self.state != "stuck":
            return self._barrier
        target, stuck_ms = self.aim.current, self._node.stuck_ms
        if stuck_ms < STUCK_MS:
            return f"{target} acknowledges what was sent {self._node.late_ms // 1_000} s ago"
        return (
            self._node.unready() or f"{target} has acknowledged nothing for {stuck_ms // 1_000} s"
        )

    @property
    def left(self) -> tuple[str, str, int] | None:
        """Which target was left lately as which other one got too little of it, and how long ago.

        Lately: for as long as no target is left again for that. Whether it is mended shows only
        when one is.
        """
        left, now_ms = self._left, self._now_ms()
        if left is None or left.target == self.aim.current or now_ms >= self.aim.starved_until_ms:
            return None
        return left.target, left.starved, now_ms - left.at_ms

    @property
    def _stuck_ms(self) -> int:
        """For how long it has taken nothing, or as good as nothing."""
        return max(self._node.stuck_ms, self._node.late_ms // LATE_PARTS)

    @property
    def stall_ms(self) -> int:
        """How long the last change took; -1 while there is one."""
        return self._stall_ms if self._stood_ms is None else -1

    def handle(self, event: TargetEvent) -> None:
        """Take in what the operator wants, or what was found out."""
        for effect in self.aim.handle(event, self._now_ms()):
            self.perform(effect)

    def look(self) -> None:
        """Look at the targets, if that is due, and at the barrier, if there is one."""
        self._notice_end_of_stall()
        due_ms = self.aim.wakeup_ms()
        if due_ms is not None and self._now_ms() >= due_ms:
            self.handle(Woke())
        if self._now_ms() >= self._probe_due_ms:
            self._probe_due_ms = self._now_ms() + self._probe_interval_ms
            self._probe()
        waits = self.aim.state in (TargetState.DRAINING, TargetState.PAUSED)
        if waits and self._is_drained():
            self.handle(Drained())

    def wait_ms(self) -> int:
        """How long there is nothing to look at; 0 if there is."""
        return max(0, min(BARRIER_INTERVAL_MS, self._probe_due_ms - self._now_ms()))

    def perform(self, effect: TargetEffect) -> None:
        """Do what was decided."""
        facts = {
            "source": self._link.source,
            "level": self._link.level,
            "target": self.aim.current,
        }
        match effect:
            case Drain():
                log.info("link drains", extra=facts)
                self._stood_ms = self._now_ms()
                self._node.hold()
            case Switch():
                log.warning("link is retargeted", extra={**facts, "planned": effect.planned})
                self.switches += 1
                self._reopen()
            case _:
                log.warning("link could not be drained", extra=facts)
                self._reopen()

    def _reopen(self) -> None:
        if self._stood_ms is None:
            self._stood_ms = self._now_ms()
        self._barrier = ""
        self._relays.forget()
        self._node.reopen(self.aim.current)

    def _notice_end_of_stall(self) -> None:
        if self._stood_ms is not None and not self.aim.holding and not self._node.unready():
            self._stall_ms = self._now_ms() - self._stood_ms
            self._stood_ms = None
            log.info("link goes on", extra={"stall_ms": self._stall_ms})

    def _probe(self) -> None:
        targets = self._link.targets
        if len(targets) < 2:
            return  # nothing depends on it
        heads: dict[str, Mapping[Partition, int]] = {}
        for probed, held in self._apply(self._look_at, targets):
            (self._silent.discard if probed.well else self._silent.add)(probed.target)
            if held is not None:
                heads[probed.target] = held
            self.handle(probed)
        self.handle(Stuck(self._stuck_ms))
        if self.aim.state is TargetState.SERVING:
            self._look_at_relays(heads)
        left_ms = self.aim.patience_left_ms(self._now_ms())
        if left_ms > 0:
            soon_ms = self._now_ms() + max(left_ms, PROBE_AGAIN_MS)
            self._probe_due_ms = min(self._probe_due_ms, soon_ms)

    def _look_at(self, name: str) -> _Look:
        # Whether it is gone is known at once, and no sign of life would be waited for.
        gone = name in self._silent and self._stores.are_gone(name)
        if gone or not self._stores.is_well(name):
            return _Look(Probed(name, well=False, gone=gone or self._stores.are_gone(name)))
        serving = self.aim.state is TargetState.SERVING
        return _Look(Probed(name, well=True), self._stores.carried(name) if serving else None)

    def _look_at_relays(self, heads: Mapping[str, Mapping[Partition, int]]) -> None:
        served = self.aim.current
        who, for_ms = self._relays.look(served, heads, self._now_ms())
        self.handle(Starved(for_ms))
        if self.aim.current != served:
            self._left = _Left(served, who, self._now_ms())
            facts = {"target": served, "starved": who, "for_ms": for_ms}
            log.warning("target was left, it relays nothing to another", extra=facts)

    def _is_drained(self) -> bool:
        """Whether everything sent is on every cluster behind the target."""
        sent = self._node.sent
        if sent is None:
            return False
        for name in self._link.beyond:
            heads = self._stores.heads(name, sent)
            if heads is None:
                self._barrier = f"{name} does not answer"
                return False
            lacking = sum(heads.get(partition, -1) + 1 < end for partition, end in sent.items())
            if lacking:
                self._barrier = f"{name} lacks records of {counted(lacking, 'partition')}"
                return False
        return True
