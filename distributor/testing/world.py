"""Clusters and links under one simulated clock."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dafka.protocol.consumer import ConsumerMachine, ConsumerSettings, Start
from dafka.protocol.effects import Lost
from dafka.protocol.mirror import MirrorMachine, MirrorSettings
from dafka.storage.memory import MemoryLog
from dafka.testing.checker import check, condensed, vacuous
from dafka.testing.nodes import SimProducer, SimStore, read_stores
from dafka.testing.world import Faults, Mesh, Node, World
from distributor.link import AskHeads, HeadsRead, HeadsUnread, Hopped, LinkMachine, Side, Skipped

if TYPE_CHECKING:
    from topology.plan import Link, Plan

ANSWER_TIMEOUT_MS = 200
"""How long a link waits for a target that does not answer."""


class SimCluster:
    """One leaf: a mesh, its store and its producers."""

    def __init__(self, world: World, name: str, number: int, producers: int) -> None:
        self.name = name
        self.number = number
        self.mesh = Mesh(world)
        log = MemoryLog(f"STORE-{name}")
        self.store = SimStore(world, f"store-{name}", self.mesh, log)
        self.producers = [
            SimProducer(world, f"producer-{name}-{index}", self.mesh) for index in range(producers)
        ]


class SimLink(Node[Side]):
    """A link as a process: forgets everything when it dies."""

    def __init__(self, world: World, link: Link, source: SimCluster, target: SimCluster) -> None:
        meshes = {Side.SOURCE: source.mesh, Side.TARGET: target.mesh}
        super().__init__(world, f"link-{source.name}-{link.level}-{target.name}", meshes)
        self._link = link
        self._source = source
        self._target = target
        self.forwarded = 0
        self.skipped = 0
        self.lost: list[Lost] = []

    def build(self) -> LinkMachine:
        """A link that knows nothing yet."""
        settings = ConsumerSettings(start=Start.ASSIGNED, committed=True)
        return LinkMachine(
            level=self._link.level,
            origin=self._source.number,
            source=ConsumerMachine(f"{self.name}.{self.incarnation}", settings),
            mirror=MirrorMachine(MirrorSettings()),
        )

    def perform(self, _side: Side, effect: object) -> None:
        """Ask the target's store, count."""
        if isinstance(effect, AskHeads):
            incarnation = self.incarnation
            self.world.after(self.world.delay_ms(), lambda: self._ask(incarnation))
        elif isinstance(effect, Hopped):
            self.forwarded += effect.records
        elif isinstance(effect, Skipped):
            self.skipped += effect.records
        elif isinstance(effect, Lost):
            self.lost.append(effect)

    def _ask(self, incarnation: int) -> None:
        """The question has arrived."""
        if incarnation != self.incarnation:
            return
        lost = self.world.random.random() < self.world.faults.loss
        if self._target.store.alive and not lost:
            heads = HeadsRead(dict(self._target.store.log.heads()))
            self.later(self.world.delay_ms(), Side.TARGET, heads)
        else:
            self.later(ANSWER_TIMEOUT_MS, Side.TARGET, HeadsUnread())


class SimWorld:
    """A topology, running.

    Args:
        plan: Clusters and links.
        seed: Everything random comes from it.
        faults: What goes wrong until `heal`.
        producers: How many on each cluster.
    """

    def __init__(self, plan: Plan, seed: int, faults: Faults, producers: int = 1) -> None:
        self.world = World(seed, faults)
        self.clusters = {
            cluster.name: SimCluster(self.world, cluster.name, cluster.id, producers)
            for cluster in plan.topology.clusters
        }
        self.links = [
            SimLink(self.world, link, self.clusters[link.source], self.clusters[link.target])
            for link in plan.links
        ]
        for node in self.nodes:
            node.boot()

    @property
    def nodes(self) -> list[SimStore | SimProducer | SimLink]:
        """Everything that can crash."""
        nodes: list[SimStore | SimProducer | SimLink] = []
        for cluster in self.clusters.values():
            nodes += [cluster.store, *cluster.producers]
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

    def heal(self) -> None:
        """From now on nothing goes wrong. Nodes that are down still have to come back."""
        self.world.faults.heal()

    def anomalies(self) -> list[str]:
        """End the history: read every cluster's store, and say what is wrong."""
        read_stores(self.world, [cluster.store for cluster in self.clusters.values()])
        return condensed(check(self.world.history) + vacuous(self.world.history))

    def settled(self) -> bool:
        """Whether every producer is told that all is stored, and all stores hold the same."""
        if not all(node.alive for node in self.nodes):
            return False
        heads = [cluster.store.log.heads() for cluster in self.clusters.values()]
        if any(other != heads[0] for other in heads):
            return False
        return not any(
            producer.waiting for cluster in self.clusters.values() for producer in cluster.producers
        )
