"""A topology that changes while records flow: the steps of `topology.diff`, in the simulator.

Nothing is ever pulled here, so what a wrong change loses is seen to be missing.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

from distributor.link.target import Pause, Retarget
from distributor.testing.checkers import contents
from distributor.testing.clusters import SimCluster, placed
from distributor.testing.links import SimLink
from distributor.testing.world import SimWorld
from topology.diff import Action
from topology.model import ClusterName
from topology.plan import plan as plan_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from dafka.model import Partition
    from dafka.testing.world import Faults
    from topology.diff import Step
    from topology.model import Topology

STEP_MS_MAX = 120_000
"""Bound on one step: some rests of 8 s and GET-HEADS of 10 s, one after the other."""

LOOK_MS = 250
"""How often a step is looked at."""

TRAFFIC_MS = 150
"""How often a batch is published, somewhere."""


@dataclass(frozen=True, slots=True)
class Taken:
    """One step, and how long it took in simulated time; None if it never came to its end."""

    action: Action
    took_ms: int | None


class Changing:
    """A running topology with traffic on all clusters.

    Args:
        topology: What runs at first.
        seed: Everything random comes from it.
        faults: What goes wrong.
        topics: What is published, wherever it is placed.
    """

    def __init__(
        self, topology: Topology, seed: int, faults: Faults, topics: Iterable[str] = ("flights",)
    ) -> None:
        self.sim = SimWorld(plan_of(topology), seed, faults)
        self._topology = topology
        self._topics = tuple(topics)
        self._silent: set[tuple[str, str]] = set()
        self._homes: dict[Partition, str] = {}
        self._flowing = True
        self.run(2_500)
        self._flow()
        self.run(5_000)

    def run(self, milliseconds: int) -> None:
        """Let time pass."""
        self.sim.world.run_until(self.sim.world.now_ms + milliseconds)

    def take(self, steps: Iterable[Step], new: Topology) -> list[Taken]:
        """Take steps, in order; one that does not come to its end is passed over."""
        taken = []
        for step in steps:
            began_ms = self.sim.world.now_ms
            ended = self._until(self._begin(step, new))
            taken.append(Taken(step.action, self.sim.world.now_ms - began_ms if ended else None))
        return taken

    def settle(self, patience_ms: int = STEP_MS_MAX) -> list[str]:
        """Publish no more, and let everything come to rest; returns what is wrong then."""
        self._flowing = False
        self.run(2 * TRAFFIC_MS)
        self._until(lambda: not self.wrong(), patience_ms)
        return self.wrong()

    def wrong(self) -> list[str]:
        """What is not where it is to be, or is there otherwise than it was published."""
        held = {name: contents(cluster.store.log) for name, cluster in self.sim.clusters.items()}
        self._learn_homes()
        found = []
        for partition, home in sorted(self._homes.items()):
            best = max((records.get(partition, []) for records in held.values()), key=len)
            for name in self._expected(partition, home):
                records = held[name].get(partition, [])
                if [one.sequence for one in records] != list(range(len(records))):
                    found.append(f"{name} has records of {partition} twice or out of order")
                if [one.value for one in records] != [one.value for one in best]:
                    found.append(f"{name} has {len(records)} of {len(best)} records of {partition}")
        return found

    @property
    def lost(self) -> int:
        """Records, acknowledged by clusters that have left, that no other has."""
        return sum(self.sim.rpo().values())

    @property
    def carried(self) -> int:
        """Records that links have copied since they last began."""
        return sum(link.forwarded for link in self.sim.links)

    def _flow(self) -> None:
        if not self._flowing:
            return
        places = [
            (name, topic)
            for topic in self._topics
            for name in self._topology.placed_on(topic)
            if not {(name, ""), (name, topic)} & self._silent
        ]
        name, topic = self.sim.world.random.choice(places)
        self.sim.clusters[name].producers[0].send(topic, 2)
        self.sim.world.after(TRAFFIC_MS, self._flow)

    def _expected(self, partition: Partition, home: str) -> list[ClusterName]:
        """Where records of a partition are to be."""
        span = self._topology.placed_on(partition.topic)
        mute = [one.name for one in self._topology.clusters if one.receive_only]
        if home in self.sim.clusters and (home in mute or home not in span):
            return [ClusterName(home)]
        return [name for name in self.sim.clusters if name in span]

    def _learn_homes(self) -> None:
        for name, cluster in self.sim.clusters.items():
            for producer in cluster.producers:
                self._homes |= dict.fromkeys(producer.partitions, name)

    def _begin(self, step: Step, new: Topology) -> Callable[[], bool]:
        """Begin a step; returns whether it is done."""
        match step.action:
            case Action.SILENCE:
                self._silent.add((step.cluster, step.topics))
                return partial(self._is_silent, ClusterName(step.cluster))
            case Action.RETARGET:
                return self._retarget(step)
            case Action.HOLD:
                return self._hold(step.level)
            case Action.DRAIN:
                return partial(self._is_drained, self._heads(ClusterName(step.cluster)))
            case Action.FILL:
                return partial(self._is_drained, *map(self._heads, self.sim.clusters))
            case Action.MOVE:
                raise AssertionError("slots move in dafka.testing.slot_moves")
            case Action.SWITCH:
                self._switch(new)
                return lambda: True

    def _is_silent(self, name: ClusterName) -> bool:
        return not any(producer.waiting for producer in self.sim.clusters[name].producers)

    def _retarget(self, step: Step) -> Callable[[], bool]:
        links = [
            link
            for link in self.sim.links
            if (link.link.source, link.link.level) == (step.cluster, step.level)
            and step.to in link.link.targets
        ]
        for link in links:
            link.tell(Retarget(step.to))
        return lambda: all(link.target.name == step.to for link in links)

    def _hold(self, level: int) -> Callable[[], bool]:
        links = [link for link in self.sim.links if link.link.level == level]
        for link in links:
            link.tell(Pause())
        return lambda: all(link.drained for link in links)

    def _heads(self, name: ClusterName) -> Mapping[Partition, int]:
        """What a cluster has now."""
        return dict(self.sim.clusters[name].store.log.heads())

    def _is_drained(self, *due: Mapping[Partition, int]) -> bool:
        """Whether all that was somewhere is wherever it is to be."""
        self._learn_homes()
        return all(
            self.sim.clusters[name].store.log.heads().get(partition, -1) >= head
            for heads in due
            for partition, head in heads.items()
            for name in self._expected(partition, self._homes[partition])
        )

    def _switch(self, new: Topology) -> None:
        """Run another topology: who goes is stopped, who comes begins empty, links begin anew."""
        sim = self.sim
        self._learn_homes()
        for link in sim.links:
            link.crash()
        sim.links = []
        for name in sim.clusters.keys() - {cluster.name for cluster in new.clusters}:
            sim.lose(name)
        for cluster in new.clusters:
            if cluster.name not in sim.clusters:
                added = SimCluster(sim.world, cluster.name, cluster.id, 1)
                sim.clusters[cluster.name] = added
                added.store.boot()
                added.producers[0].boot()
        clusters = dict(sim.clusters)
        plan = placed(plan_of(new))
        sim.links = [SimLink(sim.world, plan, link, clusters, sim.settings) for link in plan.links]
        for link in sim.links:
            link.boot()
        self._topology = new

    def _until(self, done: Callable[[], bool], patience_ms: int = STEP_MS_MAX) -> bool:
        deadline_ms = self.sim.world.now_ms + patience_ms
        while not done():
            if self.sim.world.now_ms >= deadline_ms:
                return False
            self.run(LOOK_MS)
        return True
