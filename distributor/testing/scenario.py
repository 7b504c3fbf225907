"""One seed, one run: a random tree, random traffic, faults, healing, and the judgements.

python -m distributor.testing.scenario --seed 17
"""

from __future__ import annotations

import random
import sys
from collections import ChainMap
from dataclasses import dataclass, replace

from dafka.records.compression import Codec
from dafka.testing.seeds import run_seeds
from dafka.testing.world import Faults
from distributor.testing.checkers import flags_tell_the_way, settled
from distributor.testing.troubles import TROUBLES, Trouble
from distributor.testing.world import SimWorld
from topology.plan import plan as plan_of
from topology.testing import random_topology

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


def run(seed: int) -> TreeOutcome:
    """Run one seed; a quarter of them without any faults."""
    chance = random.Random(seed)
    topology = random_topology(chance, chance.randint(2, 6))
    kind = TROUBLES[seed % len(TROUBLES)]
    steered = seed % STEERED_EVERY == 0 and kind.steers
    if steered:  # every link has all targets
        clusters = tuple(replace(cluster, targets={}) for cluster in topology.clusters)
        topology = replace(topology, clusters=clusters)
    mixed = seed % MIXED_EVERY == 0
    guests = seed % GUESTS_EVERY == 2 and not mixed
    if guests:
        clusters = tuple(replace(cluster, delivery="stores") for cluster in topology.clusters)
        topology = replace(topology, clusters=clusters)
    plan = plan_of(topology)
    healthy = chance.random() < 0.25
    faults = Faults() if healthy else random_faults(chance)
    stores = max(kind.stores, 2 if seed % PAIRS_EVERY == 0 else 1)
    sharing = kind.shares and seed % SHARING_EVERY == 1
    codecs = CODECS if seed % COMPRESSED_EVERY == 3 else (Codec.NONE,)
    sim = SimWorld(
        plan,
        seed,
        faults,
        chance.randint(1, 2),
        replace(kind.settings, sharing=sharing, codecs=codecs),
        stores,
        kind.retention,
        mixed=mixed,
    )
    trouble = kind(sim)
    crashes = 0
    for _ in range(chance.randint(10, 40)):
        sim.world.run_until(sim.world.now_ms + chance.randint(0, TROUBLE_MS // 25))
        sim.send_somewhere(chance.choice(kind.topics), chance.randint(1, 5))
        if not healthy and chance.random() < 0.3:
            sim.break_something(BACK_MS_MAX, SUSPENDED_MS_MAX)
            crashes += 1
        if steered and chance.random() < 0.2:
            sim.retarget_something()
        trouble.happen()
    if sim.world.cuts and seed % LASTING_EVERY == 0:
        sim.world.run_until(sim.world.now_ms + LASTING_MS)
    sim.heal()
    sim.world.run_until(sim.world.now_ms + (BACK_MS_MAX if healthy else SUSPENDED_MS_MAX))
    sim.send_somewhere("flights", 1)  # so that no run proves nothing
    healed_ms = sim.world.now_ms
    _settle(sim, trouble)
    trouble.again()
    sim.world.run_until(sim.world.now_ms + BACK_MS_MAX)
    _settle(sim, trouble)
    problems = [] if settled(sim) else ["not settled"]
    problems += sim.anomalies()
    problems += trouble.wrong()
    if trouble.flags_tell and not steered:
        problems += flags_tell_the_way(sim, plan)  # the way to the preferred targets
    first = next(iter(sim.clusters.values()))
    records = sum(ChainMap(*(store.log.ends() for store in first.stores)).values())
    return TreeOutcome(
        problems, records, crashes, sim.world.now_ms - healed_ms, sim.world.fingerprint
    )


def _settle(sim: SimWorld, trouble: Trouble) -> None:
    """Give all of it time to settle, and the operator a turn now and then."""
    began_ms = sim.world.now_ms
    while not settled(sim) and sim.world.now_ms < began_ms + CONVERGENCE_MS_MAX:
        sim.world.run_until(sim.world.now_ms + 250)
        if (sim.world.now_ms - began_ms) % OPERATOR_MS == 0:
            trouble.mend()


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
