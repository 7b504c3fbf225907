"""Clusters and links under one simulated clock."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from dafka.protocol.consumer import ConsumerMachine, ConsumerSettings, Start
from dafka.protocol.effects import Lost
from dafka.protocol.mirror import MirrorMachine, MirrorSettings
from dafka.protocol.stores import HEADS_INTERVAL_MS_MAX
from dafka.storage.memory import MemoryLog
from dafka.testing.checker import check, condensed, vacuous
from dafka.testing.nodes import SimProducer, SimStore, read_stores
from dafka.testing.world import Faults, SimMesh, SimNode, World
from distributor.link.events import (
    AskHeads,
    HeadsRead,
    HeadsUnread,
    Held,
    Hold,
    Hopped,
    Resumed,
    Side,
    Skipped,
    Stopped,
)
from distributor.link.machine import LinkMachine, LinkSettings
from distributor.link.pull_order import patient
from distributor.link.target import (
    ClusterLost,
    Drain,
    Drained,
    Probed,
    Switch,
    TargetMachine,
    TargetSettings,
)
from distributor.testing.query_port import QueryPort
from distributor.verify.divergence import Witness
from topology.model import ClusterName

if TYPE_CHECKING:
    from collections.abc import Mapping

    from dafka.model import Partition
    from dafka.storage.log import RecordLog
    from distributor.link.events import LinkEvent, SidedEffect
    from distributor.link.target import TargetEvent
    from topology.plan import Link, Plan

ANSWER_TIMEOUT_MS = 200
"""How long a link waits for a target that does not answer."""


class SimCluster:
    """One leaf: a mesh, its stores and its producers."""

    def __init__(
        self, world: World, name: str, number: int, producers: int, stores: int = 1
    ) -> None:
        self.name = name
        self.number = number
        self.mesh = SimMesh(world)
        names = [name, *(f"{name}-{index}" for index in range(1, stores))]
        self.stores = [
            SimStore(world, f"store-{one}", self.mesh, MemoryLog(f"STORE-{one}")) for one in names
        ]
        self.store = self.stores[0]
        self.producers = [
            SimProducer(world, f"producer-{name}-{index}", self.mesh) for index in range(producers)
        ]

    @property
    def answering(self) -> SimStore | None:
        """The first of its stores that lives: it speaks for all."""
        return next((store for store in self.stores if store.alive), None)


@dataclass(frozen=True, slots=True, kw_only=True)
class SimSettings:
    """How the links of a world behave; times are shorter than in production, to save events.

    Attributes:
        link: Of every link; by default nothing is ever pulled: flags alone decide.
        aim: Of every link; by default no target is ever left.
        probe_interval_ms: How often targets are looked at.
        barrier: Whether a planned switch waits for what was sent; not to wait is a mistake.
    """

    link: LinkSettings = field(default_factory=lambda: LinkSettings(repair_after_ms=None))
    aim: TargetSettings = field(default_factory=lambda: TargetSettings(failover_after_ms=1 << 40))
    probe_interval_ms: int = 500
    barrier: bool = True


REPAIRING = SimSettings(
    link=LinkSettings(survey_interval_ms=1_000, repair_after_ms=6_000),
    aim=TargetSettings(failover_after_ms=3_000),
)
"""Links that leave silent targets and pull what nobody brings."""


class _TwoSided:
    """Gives a link's machine the shape that `SimNode` asks for."""

    def __init__(self, machine: LinkMachine) -> None:
        self._machine = machine
        self.wakeup_ms = machine.wakeup_ms
        self.check = machine.check

    def handle(self, side: Side, event: LinkEvent, now_ms: int) -> list[SidedEffect]:
        return self._machine.handle((side, event), now_ms)


class SimLink(SimNode[Side]):
    """A link as a process: forgets everything when it dies, also where it aimed."""

    def __init__(
        self,
        world: World,
        plan: Plan,
        link: Link,
        clusters: Mapping[ClusterName, SimCluster],
        settings: SimSettings,
    ) -> None:
        self._plan = plan
        self._source = clusters[link.source]
        self._target = clusters[link.target]
        meshes = {Side.SOURCE: self._source.mesh, Side.TARGET: self._target.mesh}
        name = f"link-{link.source}-{link.crossing}-{link.branch}"
        super().__init__(world, name, meshes)
        self.link = link
        self._clusters = clusters
        self._settings = settings
        self._aim = TargetMachine(link.targets, settings.aim, 0)
        self._sent: Mapping[Partition, int] | None = None
        self._witness = Witness()
        self._lives = 0
        self.forwarded = 0
        self.pulled = 0
        self.skipped = 0
        self.lost: list[Lost] = []
        self.reports: list[Stopped | Resumed] = []
        self.switches: list[Switch] = []

    @property
    def target(self) -> SimCluster:
        """The cluster it copies to at present."""
        return self._target

    def build(self) -> _TwoSided:
        """A link that knows nothing yet."""

        def wants(topic: str) -> bool:
            return self._plan.topology.carries(topic, self.link.span)

        settings = ConsumerSettings(
            wants=wants,
            start=Start.ASSIGNED,
            committed=True,
            heads_interval_ms_max=HEADS_INTERVAL_MS_MAX,
        )
        machine = LinkMachine(
            level=self.link.level,
            origin=self._source.number,
            epoch=self._plan.topology.levels.epoch,
            source=ConsumerMachine(f"{self.name}.{self.incarnation}", settings),
            mirror=MirrorMachine(MirrorSettings()),
            settings=patient(
                self._settings.link, self._plan.links, self.link.source, self._target.name
            ),
        )
        return _TwoSided(machine)

    def boot(self) -> None:
        """Start the process: it aims at the preferred target."""
        self._aim = TargetMachine(self.link.targets, self._settings.aim, self.world.now_ms)
        self._lives += 1
        self._point(self.link.target)
        self._plan_probe(self._lives)

    def tell(self, event: TargetEvent) -> None:
        """Say something about targets."""
        if not self.alive:
            return
        for effect in self._aim.handle(event, self.world.now_ms):
            if isinstance(effect, Switch):
                self.switches.append(effect)
                self._point(effect.target)
            elif isinstance(effect, Drain):
                self.feed(Side.SOURCE, Hold())
                if not self._settings.barrier:
                    self.tell(Drained())
            else:
                self._point(self._aim.current)
        self._aim.check()

    def _point(self, target: str) -> None:
        """Begin anew towards a target."""
        if self.alive:
            super().crash()
        self._sent = None
        self._witness = Witness()
        self._target = self._clusters[ClusterName(target)]
        self._meshes[Side.TARGET] = self._target.mesh
        super().boot()

    def _plan_probe(self, life: int) -> None:
        if len(self.link.targets) > 1:
            self.world.after(self._settings.probe_interval_ms, lambda: self._probe(life))

    def _probe(self, life: int) -> None:
        """Look at every target, and at the barrier."""
        if not self.alive or life != self._lives:
            return
        for name in self.link.targets:
            lost = self.world.random.random() < self.world.faults.loss
            self.tell(Probed(name, self._clusters[name].answering is not None and not lost))
        if self.drained:
            self.tell(Drained())
        self._plan_probe(life)

    @property
    def drained(self) -> bool:
        """Whether it holds, and what it sent is on every cluster beyond."""
        return self._sent is not None and self._drained(self._sent)

    def _drained(self, sent: Mapping[Partition, int]) -> bool:
        stores = [self._clusters[name].store for name in self.link.beyond]
        return all(
            store.alive and store.log.heads().get(partition, -1) + 1 >= end
            for store in stores
            for partition, end in sent.items()
        )

    def perform(self, _side: Side, effect: object) -> None:
        """Ask both ends' stores, count."""
        if isinstance(effect, AskHeads):
            incarnation = self.incarnation
            self.world.after(self.world.delay_ms(), lambda: self._ask(incarnation))
        elif isinstance(effect, Hopped):
            if effect.pulled:
                self.pulled += effect.records
            else:
                self.forwarded += effect.records
        elif isinstance(effect, Skipped):
            self.skipped += effect.records
        elif isinstance(effect, Lost):
            self.lost.append(effect)
        elif isinstance(effect, Stopped | Resumed):
            self.reports.append(effect)
        elif isinstance(effect, Held):
            self._sent = effect.sent

    def _ask(self, incarnation: int) -> None:
        """The question has arrived."""
        if incarnation != self.incarnation:
            return
        lost = self.world.random.random() < self.world.faults.loss
        target = self._target.answering
        if target is not None and not lost:
            self.later(self.world.delay_ms(), Side.TARGET, self._survey(target.log))
        else:
            self.later(ANSWER_TIMEOUT_MS, Side.TARGET, HeadsUnread())

    def _survey(self, target: RecordLog) -> HeadsRead:
        """What both ends hold, and whether it is the same, as far as the witness looks."""
        answering = self._source.answering
        if answering is None:
            return HeadsRead(target.heads())
        source = answering.log
        heads = HeadsRead(
            target.heads(),
            source.heads(),
            begins={place: one.start for place, one in source.extents().items() if one.start},
            empty=frozenset(
                place for place, one in target.extents().items() if one.start > one.head
            ),
        )
        spans = self._witness.due(heads.source, heads.target)
        self._witness.look(QueryPort(source), QueryPort(target), spans)
        waiting = self._witness.waiting(heads.source, heads.target)
        return replace(heads, diverged=dict(self._witness.diverged), waiting=waiting)


class SimWorld:
    """A topology, running.

    Args:
        plan: Clusters and links.
        seed: Everything random comes from it.
        faults: What goes wrong until `heal`.
        producers: How many on each cluster.
        settings: Of the links.
        stores: How many on each cluster.
    """

    def __init__(
        self,
        plan: Plan,
        seed: int,
        faults: Faults,
        producers: int = 1,
        settings: SimSettings = SimSettings(),
        stores: int = 1,
    ) -> None:
        self.world = World(seed, faults)
        self.settings = settings
        self.clusters = {
            cluster.name: SimCluster(self.world, cluster.name, cluster.id, producers, stores)
            for cluster in plan.topology.clusters
        }
        self.links = [
            SimLink(self.world, plan, link, dict(self.clusters), settings) for link in plan.links
        ]
        self.lost: dict[ClusterName, SimCluster] = {}
        for node in self.nodes:
            node.boot()

    @property
    def stores(self) -> list[SimStore]:
        """Those of all clusters."""
        return [store for cluster in self.clusters.values() for store in cluster.stores]

    @property
    def nodes(self) -> list[SimStore | SimProducer | SimLink]:
        """Everything that can crash."""
        nodes: list[SimStore | SimProducer | SimLink] = []
        for cluster in self.clusters.values():
            nodes += [*cluster.stores, *cluster.producers]
        return nodes + self.links

    def send_somewhere(self, topic: str, count: int) -> None:
        """Let a random living producer send a batch."""
        alive = [
            producer
            for cluster in self.clusters.values()
            for producer in cluster.producers
            if producer.alive
        ]
        if alive:
            self.world.random.choice(alive).send(topic, count)

    def crash_something(self, back_within_ms: int) -> None:
        """Kill a random living node, if there is one; it comes back after a while."""
        chance = self.world.random
        alive = [node for node in self.nodes if node.alive]
        if not alive:
            return
        node = chance.choice(alive)
        node.crash()
        self.world.after(chance.randint(1, back_within_ms), node.boot)

    def lose(self, name: ClusterName) -> None:
        """A cluster is gone for ever: its stores, its producers, its links."""
        cluster = self.clusters.pop(name)
        self.lost[name] = cluster
        gone = [link for link in self.links if link.link.source == name]
        self.links = [link for link in self.links if link not in gone]
        nodes: list[SimStore | SimProducer | SimLink] = [*cluster.stores, *cluster.producers, *gone]
        for node in nodes:
            if node.alive:
                node.crash()

    def empty(self, name: ClusterName) -> None:
        """A cluster's store comes back with a new disk."""
        store = self.clusters[name].store
        if store.alive:
            store.crash()
        store.log = MemoryLog(f"{store.log.identity}-new")
        store.boot()

    def rpo(self) -> dict[Partition, int]:
        """Records that a lost cluster had on disk and no survivor has, by partition."""
        kept = [cluster.store.log.heads() for cluster in self.clusters.values()]
        gone: dict[Partition, int] = {}
        for cluster in self.lost.values():
            for partition, head in cluster.store.log.heads().items():
                missing = head - max(heads.get(partition, -1) for heads in kept)
                if missing > 0:
                    gone[partition] = max(missing, gone.get(partition, 0))
        return gone

    def declare_lost(self, name: ClusterName) -> None:
        """Tell every link, as `distributor lost` does."""
        for link in self.links:
            link.tell(ClusterLost(name))

    def heal(self) -> None:
        """From now on nothing goes wrong. Nodes that are down still have to come back."""
        self.world.faults.heal()

    def anomalies(self) -> list[str]:
        """End the history: read every cluster's store, and say what is wrong."""
        read_stores(self.world, self.stores)
        return condensed(check(self.world.history) + vacuous(self.world.history))

    def settled(self) -> bool:
        """Whether every producer is told that all is stored, and all stores hold the same."""
        if not all(node.alive for node in self.nodes):
            return False
        heads = [store.log.heads() for store in self.stores]
        if any(other != heads[0] for other in heads):
            return False
        return not any(
            producer.waiting for cluster in self.clusters.values() for producer in cluster.producers
        )
