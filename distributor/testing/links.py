"""Links under a simulated clock, and how they behave."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING

from dafka.model import WHOLE
from dafka.protocol.effects import Lost
from dafka.records.compression import Codec
from dafka.storage.forgetting import FORGET_AFTER_MS
from dafka.testing.queries import SimQueryClient
from dafka.testing.world import SimNode
from distributor.control.steering import ClusterStores, Steering
from distributor.link.events import (
    HeadsUnread,
    Hold,
    Hopped,
    LinkEvent,
    PassOver,
    Resumed,
    Side,
    Skipped,
    Stopped,
)
from distributor.link.holdings import BothEnds
from distributor.link.node import LinkRole, carried_by, link_machine
from distributor.link.settings import LinkSettings
from distributor.link.target import Drained, Switch, TargetSettings
from topology.model import ClusterName

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from dafka.model import Partition, PartitionShare
    from dafka.testing.sim_mover import SlotPlan
    from dafka.testing.world import World
    from dafka.transport.keys import Credentials
    from distributor.link.events import Stop, StopReason
    from distributor.link.machine import LinkMachine
    from distributor.link.target import TargetEffect, TargetEvent
    from distributor.testing.clusters import SimCluster
    from topology.plan import Link, Plan

ANSWER_TIMEOUT_MS = 200
"""How long a link waits for a target that does not answer."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SimSettings:
    """How the links of a world behave; times are shorter than in production, to save events.

    Attributes:
        link: Of every link; by default nothing is ever pulled: flags alone decide.
        aim: Of every link; by default no target is ever left.
        probe_interval_ms: How often targets are looked at.
        barrier: Whether a planned switch waits for what was sent; not to wait is a mistake.
        forget_after_ms: How long stores list what retention has emptied.
        sharing: Whether as many stores again share the slots with those that there are.
        codecs: By what links compress, each by one of these.
        moves: Of clusters whose slots move from store to store, by name.
    """

    link: LinkSettings = field(default_factory=lambda: LinkSettings(repair_after_ms=None))
    aim: TargetSettings = field(default_factory=lambda: TargetSettings(failover_after_ms=1 << 40))
    probe_interval_ms: int = 500
    barrier: bool = True
    forget_after_ms: int = FORGET_AFTER_MS
    sharing: bool = False
    codecs: tuple[Codec, ...] = (Codec.NONE,)
    moves: Mapping[ClusterName, SlotPlan] = field(default_factory=dict)


AS_USUAL = SimSettings()
"""Links that serve their preferred targets, and copy what flags tell them to."""

REPAIRING = SimSettings(
    link=LinkSettings(survey_interval_ms=1_000, repair_after_ms=6_000),
    aim=TargetSettings(failover_after_ms=3_000),
)
"""Links that leave silent targets and pull what nobody brings."""


class SimAsker:
    """The port `Asker`: what is asked is answered a little later."""

    def __init__(self, node: SimNode[Side, LinkEvent]) -> None:
        self._node = node

    def ask(self, question: Callable[[], LinkEvent], answered: Callable[[LinkEvent], None]) -> None:
        """Ask, and call with the answer."""
        node = self._node

        def put() -> None:
            answer = question()
            silent = isinstance(answer, HeadsUnread)
            delay_ms = ANSWER_TIMEOUT_MS if silent else node.world.delay_ms()
            node.later(delay_ms, partial(answered, answer))

        node.later(node.world.delay_ms(), put)

    def check(self) -> None:
        """What goes wrong in asking has ended the run."""

    def close(self, _last: Callable[[], None]) -> None:
        """The process has ended, and what it had asked."""


class SimMeter:
    """The port `Meter`: nobody asks a link here; what is counted is what it has done."""

    def hopped(self, _hopped: Hopped) -> None:
        """A batch is durable at the target."""

    def skipped(self, _skipped: Skipped) -> None:
        """Records need not cross this level."""

    def tell(self) -> None:
        """A turn has ended."""

    def standstill(self, _behind: int, _standstill_ms: int) -> None:
        """What the last survey of both ends has found."""

    def stopped(self, _counts: Mapping[StopReason, int], _shortened: int) -> None:
        """How many partitions are not copied."""

    def lag(self, _records: int, _age_ms: int) -> None:
        """How far behind the link is now."""


class SimLink(SimNode[Side, LinkEvent]):
    """A link as a process: forgets everything when it dies, also where it aimed.

    Args:
        world: Where it lives.
        plan: All links; see `placed`.
        link: Which.
        clusters: Those of the world.
        settings: How it behaves.
        twin: Of another process that runs the same link.
        share: Which partitions it carries.
    """

    def __init__(
        self,
        world: World,
        plan: Plan,
        link: Link,
        clusters: Mapping[ClusterName, SimCluster],
        settings: SimSettings,
        twin: str = "",
        share: PartitionShare = WHOLE,
    ) -> None:
        self.share = share
        self._whole = plan
        self.link = link
        self._clusters = clusters
        self._stores = {
            one.name: one for each in clusters.values() for one in (*each.stores, *each.coming)
        }
        self._target = clusters[link.target]
        meshes = {Side.SOURCE: clusters[link.source].mesh, Side.TARGET: self._target.mesh}
        super().__init__(world, f"link-{link.source}-{link.crossing}-{link.branch}{twin}", meshes)
        self._settings = settings
        self._role: LinkRole | None = None
        self._steering = _WatchedSteering(self, plan, settings)
        self._looks = 0
        """How often it was planned to look at targets: only the last time counts."""
        self.forwarded = 0
        self.pulled = 0
        self.skipped = 0
        self.lost: list[Lost] = []
        self.left_out: list[Lost] = []
        """Of that, what its target has more than nothing of, and nobody said it was to go on."""
        self.reports: list[Stopped | Resumed] = []
        self._passing: set[str] = set()
        """Topics that it was told to copy on."""
        self.switches: list[Switch] = []

    def divided(self, share: PartitionShare, mark: str) -> SimLink:
        """Another process, which runs a share of the same link."""
        world, settings = self.world, self._settings
        return SimLink(world, self._whole, self.link, self._clusters, settings, mark, share)

    @property
    def target(self) -> SimCluster:
        """The cluster it copies to at present."""
        return self._target

    @property
    def stops(self) -> Mapping[Partition, Stop]:
        """What it does not copy at present."""
        return {} if self._role is None else self._role.machine.stops.by_partition

    @property
    def drained(self) -> bool:
        """Whether it is paused, and what it sent is on every cluster beyond."""
        return self._steering.state == "drained"

    def build(self) -> tuple[LinkRole, LinkMachine]:
        """A link that knows nothing yet."""
        topology, target = self._whole.topology, self._target.name
        codecs = self._settings.codecs
        machine = link_machine(
            self._whole,
            self.link,
            target,
            f"{self.name}.{self.incarnation}",
            replace(self._settings.link, codec=codecs[sum(self.name.encode()) % len(codecs)]),
            foreign=False,
            share=self.share,
        )
        clock = self.clock
        ends = BothEnds(
            topology.cluster(self.link.source),
            topology.cluster(target),
            carried_by(topology, self.link),
            self.connect,
            clock.now_ms,
            self.share,
        )
        answered = partial(self.post, Side.TARGET)
        self._role = LinkRole(machine, SimMeter(), ends, SimAsker(self), answered, clock)
        return self._role, machine

    def boot(self) -> None:
        """Start the process: it aims at the preferred target."""
        self.reopen(self.link.target)
        self._steering = _WatchedSteering(self, self._whole, self._settings)
        self._plan_look()

    def tell(self, event: TargetEvent) -> None:
        """Say something about targets."""
        if self.alive:
            self._steering.handle(event)
            self._steering.aim.check()
            self._plan_look()

    @property
    def sent(self) -> Mapping[Partition, int] | None:
        """Once it is on hold: everything it sent, the end of each partition."""
        return None if self._role is None else self._role.sent

    @property
    def stuck_ms(self) -> int:
        """For how long the target has taken none of what waits for it; 0 if it takes."""
        return 0 if self._role is None else self._role.stuck_ms

    @property
    def late_ms(self) -> int:
        """How late the target stores what it is sent; 0 if nothing waits for it."""
        return 0 if self._role is None else self._role.late_ms

    def hold(self) -> None:
        """Copy nothing more, and say what was sent."""
        self.post(Side.SOURCE, Hold())
        if not self._settings.barrier:
            self.later(0, lambda: self.tell(Drained()))

    def reopen(self, target: str) -> None:
        """Begin anew towards a target."""
        if self.alive:
            super().crash()
        self._target = self._clusters[ClusterName(target)]
        self._meshes[Side.TARGET] = self._target.mesh
        super().boot()

    def unready(self) -> str:
        """All find each other at once."""
        return ""

    def switched(self, switch: Switch) -> None:
        """Note a switch; a planned one leaves nothing behind that is not everywhere."""
        self.switches.append(switch)
        if switch.planned and self._settings.barrier:
            for name in self.link.beyond:
                missing = self._missing(self._clusters[name])
                assert not missing, f"{self.name} has switched, but {name} lacks {missing}"

    def performed(self, _side: Side, effect: object, _completed: object) -> None:
        """Count."""
        if isinstance(effect, Hopped):
            if effect.pulled:
                self.pulled += effect.records
            else:
                self.forwarded += effect.records
        elif isinstance(effect, Skipped):
            self.skipped += effect.records
        elif isinstance(effect, Lost):
            self.lost.append(effect)
            if self._continues(effect):
                self.left_out.append(effect)
        elif isinstance(effect, Stopped | Resumed):
            self.reports.append(effect)

    def pass_over(self, topic: str) -> None:
        """Go on behind what nobody has any more, as `distributor resume` does."""
        self._passing.add(topic)
        self.post(Side.SOURCE, PassOver(topic))

    def _continues(self, lost: Lost) -> bool:
        """Whether the target keeps something of what lies before what was lost."""
        extents = [store.log.extents().get(lost.partition) for store in self._target.stores]
        kept = any(one and one.start < lost.start <= one.head + 1 for one in extents)
        return kept and lost.partition.topic not in self._passing

    def connect(self, endpoint: str, _credentials: Credentials | None) -> SimQueryClient:
        """A connection to a store's query port."""
        return SimQueryClient(self._stores[endpoint], partial(self._is_lost, endpoint))

    def refuses(self, endpoint: str) -> bool:
        """Whether a store's process is not there."""
        return not self._stores[endpoint].alive

    def _is_lost(self, store: str) -> bool:
        lost = self.world.random.random() < self.world.faults.loss
        return lost or self.world.parted(self.name, store)

    def _missing(self, cluster: SimCluster) -> list[Partition]:
        """What was sent and is on no disk of a cluster."""
        ends = [store.log.ends() for store in cluster.stores]
        return [
            partition
            for partition, end in (self.sent or {}).items()
            if all(held.get(partition, 0) < end for held in ends)
        ]

    def _plan_look(self) -> None:
        """Let it look as often as needed: in vain where there is neither choice nor barrier."""
        holding = self._steering.aim.holding
        if holding or len(self.link.targets) > 1:
            interval_ms = self._settings.probe_interval_ms
            # Who is suspended does not look, so what is due stays due.
            wait_ms = self._steering.wait_ms() if holding and self.awake else interval_ms
            self._looks += 1
            self.world.after(wait_ms, partial(self._look, self._looks))

    def _look(self, number: int) -> None:
        if not self.alive or number != self._looks:
            return
        if self.awake:
            self._steering.look()
            self._steering.aim.check()
        self._plan_look()


class _WatchedSteering(Steering):
    """Tells the link of switches."""

    def __init__(self, link: SimLink, plan: Plan, settings: SimSettings) -> None:
        stores = ClusterStores(plan.topology, link.link, link.connect, link.refuses)
        interval_ms, clock = settings.probe_interval_ms, link.clock
        super().__init__(
            link.link, settings.aim, link, stores, probe_interval_ms=interval_ms, clock=clock
        )
        self._switched = link.switched

    def perform(self, effect: TargetEffect) -> None:
        """Do what was decided."""
        if isinstance(effect, Switch):
            self._switched(effect)
        super().perform(effect)
