"""One seed, one run: a random tree, random traffic, faults, healing, and the judgements.

python -m distributor.testing.scenario --seed 17
"""

from __future__ import annotations

import random
import sys
from collections import ChainMap
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from dafka.records.compression import Codec
from dafka.testing.seeds import run_seeds
from dafka.testing.sim_mover import SlotPlan
from dafka.testing.world import Faults
from distributor.testing.checkers import flags_tell_the_way, settled
from distributor.testing.moves import MOVED_MS_MAX, SlotMoves
from distributor.testing.troubles import TROUBLES
from distributor.testing.world import SimWorld
from topology.plan import plan as plan_of
from topology.testing import random_topology

if TYPE_CHECKING:
    from distributor.testing.troubles import Trouble
    from topology.model import ClusterName
    from topology.plan import Plan

MODULE = "distributor.testing.scenario"

TROUBLE_MS = 6_000
"""How long things go wrong while producers send."""

BACK_MS_MAX = 2_000
"""How long a crashed node stays away."""

SUSPENDED_MS_MAX = 10_000
"""How long a machine is suspended at most."""

MIXED_EVERY = 3
"""Of so many seeds one has a link that two processes run, and a producer without envelopes."""

CODECS = Codec.ZSTD, Codec.NONE, Codec.LZ4
"""Of links that compress."""

COMPRESSED_EVERY = 4
"""Of so many seeds one has links that compress."""

LASTING_EVERY = 9
"""Of so many seeds one goes on for long while something is cut off."""

LASTING_MS = 40_000
"""So long that who is cut off counts as gone."""

STEERED_EVERY = 5
"""Of so many seeds one has links told to serve other targets."""

PAIRS_EVERY = 4
"""Of so many seeds one has two stores in every cluster."""

SHARING_EVERY = 3
"""Of so many seeds one has stores that share the slots, if that trouble lets them."""

GUESTS_EVERY = 7
"""Of so many seeds one has clusters with delivery through stores."""

MOVING_EVERY = 4
"""Of so many seeds one has a cluster whose slots move, if that trouble lets them."""

OPERATOR_MS = 30_000
"""How long an operator lets things settle by themselves."""

CONVERGENCE_MS_MAX = 120_000
"""Bound on settling afterwards: some rests of 8 s and GET-HEADS of 10 s, one after the other."""


@dataclass(frozen=True, slots=True)
class TreeOutcome:
    """What came of a run.

    Attributes:
        problems: What was found wrong; none is a pass.
        records: How many records every cluster ended up with.
        crashes: How many nodes were killed.
        settled_ms: Simulated time from healing, all nodes being back, to all clusters equal.
        fingerprint: Equal for equal runs.
    """

    problems: list[str]
    records: int
    crashes: int
    settled_ms: int
    fingerprint: str


@dataclass(frozen=True, slots=True)
class _TreeRun:
    """What runs, and what goes wrong in it."""

    sim: SimWorld
    plan: Plan
    trouble: Trouble
    moving: list[SlotMoves]
    healthy: bool
    steered: bool

    @property
    def at_rest(self) -> bool:
        """Whether all has come everywhere, and slots are where they are to be."""
        return settled(self.sim) and all(one.done for one in self.moving)

    def settle(self) -> None:
        """Give all of it time to settle, and the operator a turn now and then."""
        world, began_ms = self.sim.world, self.sim.world.now_ms
        until_ms = began_ms + CONVERGENCE_MS_MAX + MOVED_MS_MAX * len(self.moving)
        while not self.at_rest and world.now_ms < until_ms:
            world.run_until(world.now_ms + 250)
            if (world.now_ms - began_ms) % OPERATOR_MS == 0:
                self.trouble.mend()

    def problems(self) -> list[str]:
        """What is wrong in the end."""
        found = [] if settled(self.sim) else ["not settled"]
        found += [problem for one in self.moving for problem in one.wrong()]
        found += self.sim.anomalies()
        found += self.trouble.wrong()
        if self.trouble.flags_tell and not self.steered:
            # The way to the preferred targets.
            found += flags_tell_the_way(self.sim, self.plan)
        return found


def run(seed: int) -> TreeOutcome:
    """Run one seed; a quarter of them without any faults."""
    chance = random.Random(seed)
    tree = _drawn(seed, chance)
    try:
        return _lived(tree, seed, chance)
    finally:
        for one in tree.moving:
            one.close()


def _drawn(seed: int, chance: random.Random) -> _TreeRun:
    topology = random_topology(chance, chance.randint(2, 6))
    kind = TROUBLES[seed % len(TROUBLES)]
    steered = seed % STEERED_EVERY == 0 and kind.steers
    if steered:  # every link has all targets
        clusters = tuple(replace(cluster, targets={}) for cluster in topology.clusters)
        topology = replace(topology, clusters=clusters)
    mixed = seed % MIXED_EVERY == 0
    if seed % GUESTS_EVERY == 2 and not mixed:
        clusters = tuple(replace(cluster, delivery="stores") for cluster in topology.clusters)
        topology = replace(topology, clusters=clusters)
    plan = plan_of(topology)
    healthy = chance.random() < 0.25
    faults = Faults() if healthy else random_faults(chance)
    moves: dict[ClusterName, SlotPlan] = {}
    if seed % MOVING_EVERY == 1 and kind.shares and kind.moves:
        apart = random.Random(f"moves of {seed}")
        moves = {apart.choice(topology.clusters).name: SlotPlan.drawn(apart)}
    settings = replace(
        kind.settings,
        sharing=kind.shares and seed % SHARING_EVERY == 1,
        codecs=CODECS if seed % COMPRESSED_EVERY == 3 else (Codec.NONE,),
        moves=moves,
    )
    stores = max(kind.stores, 2 if seed % PAIRS_EVERY == 0 else 1)
    producers = chance.randint(1, 2)
    sim = SimWorld(plan, seed, faults, producers, settings, stores, kind.retention, mixed=mixed)
    trouble = kind(sim)
    moving = [SlotMoves(sim, name, one, healthy=healthy) for name, one in moves.items()]
    return _TreeRun(sim, plan, trouble, moving, healthy, steered)


def _lived(tree: _TreeRun, seed: int, chance: random.Random) -> TreeOutcome:
    sim, trouble = tree.sim, tree.trouble
    crashes = 0
    for _ in range(chance.randint(10, 40)):
        sim.world.run_until(sim.world.now_ms + chance.randint(0, TROUBLE_MS // 25))
        sim.send_somewhere(chance.choice(trouble.topics), chance.randint(1, 5))
        if not tree.healthy and chance.random() < 0.3:
            sim.break_something(BACK_MS_MAX, SUSPENDED_MS_MAX)
            crashes += 1
        if tree.steered and chance.random() < 0.2:
            sim.retarget_something()
        trouble.happen()
        for one in tree.moving:
            one.happen()
    for one in tree.moving:
        one.finish()
    if sim.world.cuts and seed % LASTING_EVERY == 0:
        sim.world.run_until(sim.world.now_ms + LASTING_MS)
    sim.heal()
    sim.world.run_until(sim.world.now_ms + (BACK_MS_MAX if tree.healthy else SUSPENDED_MS_MAX))
    sim.send_somewhere("flights", 1)  # so that no run proves nothing
    healed_ms = sim.world.now_ms
    tree.settle()
    trouble.again()
    sim.world.run_until(sim.world.now_ms + BACK_MS_MAX)
    tree.settle()
    problems = tree.problems()
    first = next(iter(sim.clusters.values()))
    records = sum(ChainMap(*(store.log.ends() for store in first.stores)).values())
    return TreeOutcome(
        problems, records, crashes, sim.world.now_ms - healed_ms, sim.world.fingerprint
    )


def random_faults(chance: random.Random) -> Faults:
    """Return what goes wrong in a run."""
    return Faults(
        loss=chance.choice((0.0, 0.05, 0.3)),
        duplication=chance.choice((0.0, 0.1, 0.5)),
        delay_ms_max=chance.choice((2, 20, 200)),
        disk_ms_max=chance.choice((1, 20, 200)),
    )


def main() -> int:
    """Run seeds from the command line; 0 if all pass."""
    return run_seeds(MODULE, "Run whole topologies in the simulator.", _judged)


def _judged(seed: int) -> tuple[str, list[str]]:
    outcome = run(seed)
    summary = f"{outcome.records} records, {outcome.crashes} crashes"
    settled = f"settled after {outcome.settled_ms} ms, fingerprint {outcome.fingerprint}"
    return f"{summary}, {settled}", outcome.problems


if __name__ == "__main__":
    sys.exit(main())
