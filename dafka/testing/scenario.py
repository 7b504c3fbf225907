"""One seed, one run: one cluster, random traffic, faults, healing, and the checker.

python -m dafka.testing.scenario --seed 17
"""

from __future__ import annotations

import random
import sys
from dataclasses import dataclass

from dafka.node.loop import NodeFailedError
from dafka.protocol.consumer import ConsumerSettings, Start
from dafka.storage.forgetting import FORGET_AFTER_MS
from dafka.storage.memory import MemoryLog
from dafka.testing.checker import Anomaly, Name, check, condensed, vacuous
from dafka.testing.history import Fault
from dafka.testing.nodes import SimConsumer, SimProducer, SimStore, read_stores
from dafka.testing.seeds import run_seeds
from dafka.testing.world import Faults, SimMesh, World

TOPICS = ("flights", "flights-late")
"""One begins as the other does, and that is where it ends: nobody gets what he did not ask for."""

SETTLING_MS_MAX = 180_000
"""Bound on settling: HEADs come ever more rarely, up to every 32 s, each may start a round."""

BACK_MS_MAX = 1_500
"""How long a crashed node stays away."""

FORGETTING_EVERY = 3
"""Of so many seeds one has retention, and stores that forget what it has emptied."""

FORGETTING_MS = 200
"""How soon."""

REST_MS = 30_000
"""Time that consumers have for the last records."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """What came of a run.

    Attributes:
        anomalies: None is a pass.
        records: How many the stores ended up with, all in all.
        crashes: How many nodes were killed.
        fingerprint: Equal for equal runs.
    """

    anomalies: tuple[Anomaly, ...]
    records: int
    crashes: int
    fingerprint: str


class ScenarioCluster:
    """Two producers, one with a spool, two stores, three consumers, one of what is stored only.

    Args:
        seed: Everything random comes from it.
        faults: What goes wrong until they are healed.
        min_acks: How many stores the producers wait for.
        forgetting: Whether stores have retention, and forget what it has emptied.
    """

    def __init__(
        self, seed: int, faults: Faults, min_acks: int = 1, *, forgetting: bool = False
    ) -> None:
        self.forgetting = forgetting
        after_ms = FORGETTING_MS if forgetting else FORGET_AFTER_MS
        self.world = World(seed, faults)
        mesh = SimMesh(self.world)
        self.producers = [
            SimProducer(self.world, f"P{number}", mesh, spooled=number == 1, min_acks=min_acks)
            for number in range(2)
        ]
        self.stores = [
            SimStore(
                self.world, f"S{number}", mesh, MemoryLog(f"S{number}"), forget_after_ms=after_ms
            )
            for number in range(2)
        ]
        self.consumers = [
            SimConsumer(self.world, "C0", mesh, ConsumerSettings(topics=TOPICS)),
            SimConsumer(
                self.world, "C1", mesh, ConsumerSettings(topics=TOPICS[:1], start=Start.LATEST)
            ),
            SimConsumer(self.world, "C2", mesh, ConsumerSettings(topics=TOPICS, committed=True)),
        ]
        for node in self.nodes:
            node.boot()

    @property
    def nodes(self) -> list[SimProducer | SimStore | SimConsumer]:
        """Everything that can crash."""
        return [*self.producers, *self.stores, *self.consumers]

    def settled(self) -> bool:
        """Whether all live, and nothing is waiting for stores."""
        return all(node.alive for node in self.nodes) and not any(
            producer.waiting for producer in self.producers
        )

    def send_somewhere(self) -> None:
        """Let a random living producer send a batch."""
        chance = self.world.random
        alive = [producer for producer in self.producers if producer.alive]
        if alive:
            chance.choice(alive).send(chance.choice(TOPICS), chance.randint(1, 5))

    def retain(self) -> None:
        """Let retention take some or all of a partition from the stores that live."""
        chance = self.world.random
        ends = {
            partition: extent.head + 1
            for store in self.stores
            for partition, extent in store.log.extents().items()
        }
        if ends:
            partition = chance.choice(sorted(ends))
            start = chance.choice((ends[partition], chance.randint(0, ends[partition])))
            for store in self.stores:
                if store.alive and partition in store.log.extents():
                    store.trim(partition, start)

    def empty(self) -> None:
        """Let retention take everything."""
        for store in self.stores:
            for partition, extent in [*store.log.extents().items()]:
                store.trim(partition, extent.head + 1)

    def crash_something(self) -> None:
        """Kill a random living node; it comes back after a while."""
        chance = self.world.random
        alive = [node for node in self.nodes if node.alive]
        if alive:
            node = chance.choice(alive)
            node.crash()
            self.world.after(chance.randint(1, BACK_MS_MAX), node.boot)


def run(seed: int) -> Outcome:
    """Run one seed; a quarter of them without any faults."""
    chance = random.Random(seed)
    healthy = chance.random() < 0.25
    faults = Faults() if healthy else _random_faults(chance)
    forgetting = seed % FORGETTING_EVERY == 0
    cluster = ScenarioCluster(seed, faults, min_acks=chance.randint(1, 2), forgetting=forgetting)
    world = cluster.world
    anomalies = []
    try:
        if not _lives(cluster, chance, healthy=healthy):
            anomalies = [Anomaly(Name.UNSEEN, "not settled")]
    except NodeFailedError as error:
        anomalies = [Anomaly(Name.FAILED, str(error))]
    read_stores(world, cluster.stores)
    anomalies += check(world.history)
    anomalies += vacuous(world.history)
    crashes = sum(isinstance(event, Fault) for event in world.history)
    records = sum(end for store in cluster.stores for end in store.log.ends().values())
    return Outcome(tuple(anomalies), records, crashes, world.fingerprint)


def _lives(cluster: ScenarioCluster, chance: random.Random, *, healthy: bool) -> bool:
    """Let things go wrong, then heal them; whether all has settled in time."""
    world = cluster.world
    for _ in range(chance.randint(10, 50)):
        world.run_until(world.now_ms + chance.randint(0, 100))
        cluster.send_somewhere()
        if not healthy and chance.random() < 0.3:
            cluster.crash_something()
        if cluster.forgetting and chance.random() < 0.3:
            cluster.retain()
    world.faults.heal()
    world.run_until(world.now_ms + BACK_MS_MAX)
    settled = _settles(cluster)
    if cluster.forgetting:
        cluster.empty()
        world.run_until(world.now_ms + 2 * FORGETTING_MS)
        settled = _settles(cluster)
    world.run_until(world.now_ms + REST_MS)
    return settled


def _settles(cluster: ScenarioCluster) -> bool:
    """Let producers go on, and all settle; whether it has in time."""
    world = cluster.world
    for producer in cluster.producers:
        producer.send(TOPICS[0], 1)  # so that no run proves nothing
    healed_ms = world.now_ms
    while not cluster.settled() and world.now_ms < healed_ms + SETTLING_MS_MAX:
        world.run_until(world.now_ms + 250)
    return cluster.settled()


def _random_faults(chance: random.Random) -> Faults:
    return Faults(
        loss=chance.choice((0.0, 0.05, 0.3)),
        duplication=chance.choice((0.0, 0.1, 0.5)),
        delay_ms_max=chance.choice((2, 20, 200)),
        disk_ms_max=chance.choice((1, 20, 200)),
        corruption=chance.choice((0.0, 0.0, 0.05)),
        refusal=chance.choice((0.0, 0.0, 0.2)),
    )


def main() -> int:
    """Run seeds from the command line; 0 if all pass."""
    return run_seeds("dafka.testing.scenario", "Run one cluster in the simulator.", _judged)


def _judged(seed: int) -> tuple[str, list[str]]:
    outcome = run(seed)
    summary = f"{outcome.records} records, {outcome.crashes} crashes"
    return f"{summary}, fingerprint {outcome.fingerprint}", condensed(outcome.anomalies)


if __name__ == "__main__":
    sys.exit(main())
