"""Clusters and links under one simulated clock."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dafka.node.store_settings import StoreSettings
from dafka.testing.checker import check, condensed, vacuous
from dafka.testing.history import History
from dafka.testing.nodes import SimProducer, SimStore, read_stores
from dafka.testing.strangers import SimBareProducer
from dafka.testing.world import Faults, World
from distributor.link.target import ClusterLost, Retarget
from distributor.testing.clusters import SimCluster, kept_by, placed
from distributor.testing.links import AS_USUAL, SimLink

if TYPE_CHECKING:
    from collections.abc import Sequence

    from dafka.model import Partition
    from dafka.storage.retention import Retention
    from distributor.testing.links import SimSettings
    from topology.model import ClusterName
    from topology.plan import Plan

SimTreeNode = SimStore | SimProducer | SimBareProducer | SimLink


class SimWorld:
    """A topology, running.

    Args:
        plan: Clusters and links.
        seed: Everything random comes from it.
        faults: What goes wrong until `heal`.
        producers: How many on each cluster.
        settings: Of the links.
        stores: How many on each cluster keep each slot.
        retention: What they need not keep.
        mixed: Whether one link is run by two processes, and one producer knows no envelopes.
    """

    def __init__(
        self,
        plan: Plan,
        seed: int,
        faults: Faults,
        producers: int = 1,
        settings: SimSettings = AS_USUAL,
        stores: int = 1,
        retention: Sequence[Retention] = (),
        *,
        mixed: bool = False,
    ) -> None:
        self.world = World(seed, faults)
        self.settings = settings
        slots = kept_by(stores, sharing=settings.sharing)
        plan = placed(plan, slots, {name: one.after for name, one in settings.moves.items()})
        self.clusters: dict[ClusterName, SimCluster] = {}
        for cluster in plan.topology.clusters:
            moves = settings.moves.get(cluster.name)
            self.clusters[cluster.name] = one = SimCluster(
                self.world,
                cluster.name,
                cluster.id,
                producers,
                moves.before if moves else slots,
                StoreSettings(forget_after_ms=settings.forget_after_ms),
                retention,
                moves.coming if moves else (),
            )
            one.mesh.guests = cluster.delivery == "stores"
        self.links = [
            SimLink(self.world, plan, link, dict(self.clusters), settings) for link in plan.links
        ]
        if mixed:
            link = self.world.random.choice(plan.links)
            twin = SimLink(self.world, plan, link, dict(self.clusters), settings, "-twin")
            self.links.append(twin)
            home = self.world.random.choice([*self.clusters.values()])
            home.producers.append(SimBareProducer(self.world, f"bare-{home.name}", home.mesh))
        self.lost: dict[ClusterName, SimCluster] = {}
        self.silent: set[str] = set()
        """Clusters on which nobody publishes."""
        self.contested: set[Partition] = set()
        """Partitions of which clusters have other records: nothing is owed of them."""
        for node in self.nodes:
            node.boot()

    @property
    def stores(self) -> list[SimStore]:
        """Those of all clusters."""
        return [store for cluster in self.clusters.values() for store in cluster.stores]

    @property
    def nodes(self) -> list[SimTreeNode]:
        """Everything that can crash."""
        nodes: list[SimTreeNode] = []
        for cluster in self.clusters.values():
            nodes += [*cluster.stores, *cluster.producers]
        return nodes + self.links

    def send_somewhere(self, topic: str, count: int) -> None:
        """Let a random living producer send a batch."""
        alive = [
            producer
            for cluster in self.clusters.values()
            for producer in cluster.producers
            if producer.awake and cluster.name not in self.silent
        ]
        if alive:
            self.world.random.choice(alive).send(topic, count)

    def break_something(self, back_within_ms: int, suspended_ms_max: int) -> None:
        """Kill something or suspend its machine for a while, or cut a link off from a store."""
        chance = self.world.random
        what = chance.choice(("crash", "crash", "crash", "suspend", "cut"))
        awake = [node for node in self.nodes if node.awake]
        if what == "crash":
            self.crash_something(back_within_ms)
        elif what == "suspend" and awake:
            chance.choice(awake).suspend(chance.randint(1, suspended_ms_max))
        elif what == "cut":
            link = chance.choice(self.links)
            ends = self.clusters[link.link.source], link.target
            others = [store.name for end in ends for store in end.stores]
            pair = chance.sample([link.name, chance.choice(others)], 2)
            self.world.cut(*pair, both=chance.random() < 0.5)

    def crash_something(self, back_within_ms: int) -> None:
        """Kill a random living node, if there is one; it comes back after a while."""
        chance = self.world.random
        awake = [node for node in self.nodes if node.awake]
        if not awake:
            return
        node = chance.choice(awake)
        node.crash()
        self.world.after(chance.randint(1, back_within_ms), node.boot)

    def retarget_something(self) -> None:
        """Tell a random living link to serve a random one of its targets."""
        chance = self.world.random
        able = [link for link in self.links if link.awake and len(link.link.targets) > 1]
        if able:
            link = chance.choice(able)
            link.tell(Retarget(chance.choice(link.link.targets)))

    def lose(self, name: ClusterName) -> None:
        """A cluster is gone for ever: its stores, its producers, its links."""
        cluster = self.clusters.pop(name)
        self.lost[name] = cluster
        gone = [link for link in self.links if link.link.source == name]
        self.links = [link for link in self.links if link not in gone]
        nodes: list[SimTreeNode] = [*cluster.stores, *cluster.producers, *gone]
        for node in nodes:
            if node.alive:
                node.crash()

    def empty(self, name: ClusterName) -> None:
        """A cluster's store comes back with a new disk."""
        store = self.clusters[name].store
        store.lose_disk()
        store.boot()

    def is_spare(self, store: SimStore) -> bool:
        """Whether others have all that a store has."""
        others = [one.log.heads() for one in self.stores if one is not store]
        return all(
            any(heads.get(partition, -1) >= head for heads in others)
            for partition, head in store.log.heads().items()
        )

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
        self.world.heal()

    def anomalies(self) -> list[str]:
        """End the history: read every cluster's store, and say what is wrong."""
        read_stores(self.world, self.stores)
        owed = [
            event
            for event in self.world.history
            if getattr(event, "partition", None) not in self.contested
        ]
        history = History(owed)
        return condensed(check(history) + vacuous(history))
