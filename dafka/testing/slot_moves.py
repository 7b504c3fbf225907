"""One seed, one run: slots move between the stores of a cluster while records flow.

python -m dafka.testing.slot_moves --seed 17

Stores are started anew with what they are to keep, at moments of their own, some of them for the
first time. Who moves slots dies and begins again, as everything does.
"""

from __future__ import annotations

import random
import sys
from typing import TYPE_CHECKING

from dafka.node.loop import NodeFailedError
from dafka.testing.checker import Anomaly, Name, check, vacuous
from dafka.testing.history import Fault
from dafka.testing.nodes import read_stores
from dafka.testing.scenario import (
    BACK_MS_MAX,
    GUESTS,
    GUESTS_EVERY,
    REST_MS,
    TOPICS,
    Outcome,
    ScenarioCluster,
    Traits,
    judged,
)
from dafka.testing.seeds import run_seeds
from dafka.testing.sim_mover import SimMover, SlotPlan, declare
from dafka.testing.timing import starved
from dafka.testing.world import Faults

if TYPE_CHECKING:
    from dafka.testing.nodes import SimStore

SENT_BEFORE_A_DROP = 10
"""Batches, some of which are of what is to be dropped."""

AGE_MS, EVER_MS = 10_000, 1 << 40
"""How long stores keep what is in one topic, in a third of the seeds, and in all others. In another
third retention takes anything at any time, and what it has emptied is forgotten."""

MOVED_MS_MAX = 240_000
"""By then all has moved, where nothing goes wrong any more."""


class MovingCluster(ScenarioCluster):
    """A cluster in which slots move.

    Args:
        seed: Everything random comes from it.
        faults: What goes wrong until they are healed.
        traits: What is particular about it.
        plan: Who keeps what.
        healthy: Whether nothing breaks.
    """

    def __init__(
        self, seed: int, faults: Faults, traits: Traits, plan: SlotPlan, *, healthy: bool
    ) -> None:
        super().__init__(seed, faults, traits, shares=plan.before)
        self.plan, self.healthy = plan, healthy
        self.mover = SimMover(self.world, self.stores, plan.copies, self._apart)

    def declare(self, number: int) -> None:
        """Start a store with what it is to keep: anew, or for the first time."""
        wanted = self.plan.after[number]
        if number < len(self.stores):
            declare(self.stores[number], wanted, self.world.random.randint(1, BACK_MS_MAX))
            return
        store = self.new_store(number, wanted, joins=True)
        self.stores.append(store)
        store.boot()

    def _apart(self, store: SimStore) -> set[tuple[str, str]]:
        """Half of the time only who drops hears producers for a while before."""
        if self.healthy or self.world.random.random() < 0.5:
            return set()
        for _ in range(SENT_BEFORE_A_DROP):
            self.send_somewhere()
        deaf = [other.name for other in self.stores if other is not store]
        return {(one.name, name) for one in self.producers for name in deaf}

    def break_something(self) -> None:
        """What breaks anyway, or who moves slots."""
        if self.world.random.random() < 0.2:
            self.mover.crash()
            self.mover.boot()
        else:
            super().break_something()


def run(seed: int) -> Outcome:
    """Run one seed; a quarter of them without any faults."""
    chance = random.Random(seed)
    healthy = chance.random() < 0.25
    faults = Faults(
        loss=0.0 if healthy else chance.choice((0.0, 0.05, 0.3)),
        duplication=0.0 if healthy else chance.choice((0.0, 0.1)),
        delay_ms_max=chance.choice((2, 20, 200)),
        disk_ms_max=chance.choice((1, 20, 200)),
        refusal=0.0 if healthy else chance.choice((0.0, 0.0, 0.2)),
    )
    plan = SlotPlan.drawn(chance)
    guests = GUESTS.get(seed % GUESTS_EVERY, ())
    traits = Traits(
        min_acks=chance.randint(1, plan.copies),
        age_ms=AGE_MS if seed % 3 == 1 else EVER_MS,
        forgetting=seed % 3 == 2,
        guests=guests,
    )
    cluster = MovingCluster(seed, faults, traits, plan, healthy=healthy)
    try:
        return _outcome(cluster, chance)
    finally:
        cluster.mover.crash()


def _outcome(cluster: MovingCluster, chance: random.Random) -> Outcome:
    world = cluster.world
    anomalies: list[Anomaly] = []
    try:
        anomalies = _lives(cluster, chance)
    except NodeFailedError as error:
        anomalies = [Anomaly(Name.FAILED, str(error))]
    cluster.mover.crash()
    read_stores(world, cluster.stores)
    anomalies += check(world.history)
    anomalies += vacuous(world.history)
    anomalies += starved(world.history, world.healed_ms)
    anomalies += cluster.mover.found(cluster.plan.after)
    crashes = sum(isinstance(event, Fault) for event in world.history)
    records = sum(end for store in cluster.stores for end in store.log.ends().values())
    return Outcome(tuple(anomalies), records, crashes, world.fingerprint)


def _lives(cluster: MovingCluster, chance: random.Random) -> list[Anomaly]:
    world = cluster.world
    _traffic(cluster, chance.randint(5, 30), harm=False)
    order = list(range(len(cluster.plan.after)))
    olds = order[: len(cluster.stores)]
    chance.shuffle(olds)
    for number in [*olds, *order[len(olds) :]]:
        cluster.declare(number)
        _traffic(cluster, chance.randint(0, 5), harm=False)
    cluster.mover.boot()
    _traffic(cluster, chance.randint(20, 80), harm=not cluster.healthy)
    world.heal()
    until_ms = world.now_ms + MOVED_MS_MAX
    world.run_until(world.now_ms + 2 * BACK_MS_MAX)
    for producer in cluster.producers:
        producer.send(TOPICS[0], 1)  # so that no run proves nothing
    while world.now_ms < until_ms and not (cluster.settled() and cluster.mover.done):
        world.run_until(world.now_ms + 1_000)
    late = [] if cluster.mover.done else [Anomaly(Name.UNSEEN, "slots have not moved")]
    if not cluster.settled():
        late.append(Anomaly(Name.UNSEEN, "not settled"))
    world.run_until(world.now_ms + REST_MS)
    return late


def _traffic(cluster: MovingCluster, sends: int, *, harm: bool) -> None:
    world = cluster.world
    for _ in range(sends):
        world.run_until(world.now_ms + world.random.randint(0, 200))
        cluster.send_somewhere()
        if harm and world.random.random() < 0.3:
            cluster.break_something()
        if cluster.traits.forgetting and world.random.random() < 0.3:
            cluster.retain()


def main() -> int:
    """Run seeds from the command line; 0 if all pass."""
    return run_seeds("dafka.testing.slot_moves", "Move slots in the simulator.", _judged)


def _judged(seed: int) -> tuple[str, list[str]]:
    return judged(run(seed))


if __name__ == "__main__":
    sys.exit(main())
