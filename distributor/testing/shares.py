"""One seed, one run: links in shares, of which the number changes while records come.

python -m distributor.testing.shares --seed 17

Replicas hear of another number one by one, so the flows of before go on for a while beside the new
ones, or for as long as the run takes.
"""

from __future__ import annotations

import random
import sys
from dataclasses import dataclass
from functools import partial

from dafka.model import PartitionShare
from dafka.testing.seeds import run_seeds
from dafka.testing.world import Faults
from distributor.testing.checkers import flags_tell_the_way, settled
from distributor.testing.links import SimLink, SimSettings
from distributor.testing.scenario import CODECS, random_faults
from distributor.testing.world import SimWorld
from topology.plan import plan as plan_of
from topology.testing import random_topology

SHARES_MAX = 4

OVERLAP_MS_MAX = 3_000
"""How long flows of before go on, if they end."""

PAUSE_MS_MAX = 300
"""Between two batches."""

BACK_MS_MAX = 2_000
"""How long a crashed node stays away."""

SUSPENDED_MS_MAX = 5_000
"""How long a machine is suspended at most."""

SETTLED_MS_MAX = 120_000
"""How long all may take to be everywhere."""


@dataclass(frozen=True, slots=True)
class SharesOutcome:
    """What came of a run.

    Attributes:
        problems: What was found wrong; none is a pass.
        numbers: How many shares links had, one after the other.
        records: How many records every cluster ended up with.
        fingerprint: Equal for equal runs.
    """

    problems: list[str]
    numbers: list[int]
    records: int
    fingerprint: str


class _Divided:
    """A world whose links are divided, and divided again."""

    def __init__(self, sim: SimWorld) -> None:
        self._sim = sim
        self.numbers: list[int] = []

    def divide(self, of: int) -> None:
        """Let others copy in so many shares; those of before end a little later, or never."""
        self.numbers.append(of)
        sim, chance = self._sim, self._sim.world.random
        for old in sim.links:
            if chance.random() < 0.8:
                sim.world.after(chance.randint(0, OVERLAP_MS_MAX), partial(_end, old))
        sim.links = [
            one.divided(PartitionShare(number, of), f"-{len(self.numbers)}-{number}")
            for one in {link.link: link for link in sim.links}.values()
            for number in range(of)
        ]
        for link in sim.links:
            link.boot()


def _end(link: SimLink) -> None:
    if link.alive:
        link.crash()


def run(seed: int, settled_ms_max: int = SETTLED_MS_MAX) -> SharesOutcome:
    """Run one seed, and give all so long to be everywhere; a quarter have no faults."""
    chance = random.Random(seed)
    plan = plan_of(random_topology(chance, chance.randint(2, 4)))
    healthy = chance.random() < 0.25
    faults = Faults() if healthy else random_faults(chance)
    sim = SimWorld(plan, seed, faults, chance.randint(1, 3), SimSettings(codecs=CODECS[seed % 2 :]))
    divided = _Divided(sim)
    divided.divide(chance.randint(1, SHARES_MAX))
    for _ in range(chance.randint(10, 20)):
        sim.world.run_until(sim.world.now_ms + chance.randint(0, PAUSE_MS_MAX))
        sim.send_somewhere(chance.choice(("flights", "weather")), chance.randint(1, 5))
        if not healthy and chance.random() < 0.3:
            sim.break_something(BACK_MS_MAX, SUSPENDED_MS_MAX)
        if chance.random() < 0.1:
            divided.divide(chance.randint(1, SHARES_MAX))
    sim.heal()
    sim.world.run_until(sim.world.now_ms + max(SUSPENDED_MS_MAX, OVERLAP_MS_MAX))
    sim.send_somewhere("flights", 1)  # so that no run proves nothing
    healed_ms = sim.world.now_ms
    while not settled(sim) and sim.world.now_ms < healed_ms + settled_ms_max:
        sim.world.run_until(sim.world.now_ms + 250)
    problems = [] if settled(sim) else ["not settled"]
    problems += sim.anomalies() + flags_tell_the_way(sim, plan)
    records = sum(next(iter(sim.clusters.values())).store.log.ends().values())
    return SharesOutcome(problems, divided.numbers, records, sim.world.fingerprint)


def main() -> int:
    """Run seeds from the command line; 0 if all pass."""
    return run_seeds("distributor.testing.shares", "Divide links in the simulator.", _judged)


def _judged(seed: int) -> tuple[str, list[str]]:
    outcome = run(seed)
    return f"{outcome.records} records, shares {outcome.numbers}", outcome.problems


if __name__ == "__main__":
    sys.exit(main())
