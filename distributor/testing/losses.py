"""Clusters that are lost for ever, at any moment: do the survivors converge to what they have?

python -m distributor.testing.losses --size 6 --lost 2
"""

from __future__ import annotations

import argparse
import random
import sys
from dataclasses import dataclass
from itertools import combinations
from typing import TYPE_CHECKING

from dafka.testing.world import Faults, mute
from distributor.testing.checkers import contents, settled
from distributor.testing.links import REPAIRING, SimSettings
from distributor.testing.world import SimWorld
from topology.plan import plan as plan_of
from topology.testing import labellings, shapes, topology_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from dafka.model import Partition, Record
    from topology.model import ClusterName, Topology


CONVERGENCE_MS_MAX = 180_000
"""Bound on settling: a failover, and a repair for each hop of the longest way, with their rests."""


@dataclass(frozen=True, slots=True)
class LossOutcome:
    """What came of a run.

    Attributes:
        problems: What was found wrong; none is a pass.
        pulled: Records that were copied against their flags.
        gone: Records, acknowledged by lost clusters, that no survivor has: the RPO.
        settled_ms: Simulated time from the loss to all survivors equal.
    """

    problems: list[str]
    pulled: int
    gone: int
    settled_ms: int


def every_loss(size: int, lost: int) -> Iterator[tuple[Topology, tuple[ClusterName, ...]]]:
    """Every tree shape with `size` leaves, and every choice of `lost` of them."""
    for shape in shapes(size):
        topology = topology_of(next(labellings(shape)))
        names = [cluster.name for cluster in topology.clusters]
        for chosen in combinations(names, lost):
            yield topology, chosen


def run(
    topology: Topology,
    lost: Sequence[ClusterName],
    seed: int,
    settings: SimSettings = REPAIRING,
    *,
    declared: bool = False,
) -> LossOutcome:
    """Let records flow, lose clusters in the middle of it, and wait for the survivors.

    Args:
        topology: The tree.
        lost: Who does not come back.
        seed: Everything random comes from it.
        settings: Of the links.
        declared: Whether the operator says so at once, so that nobody waits for silence.
    """
    chance = random.Random(seed)
    faults = Faults(delay_ms_max=chance.choice((5, 50)), disk_ms_max=chance.choice((2, 30)))
    sim = SimWorld(plan_of(topology), seed, faults, settings=settings)
    sim.world.run_until(2_500)
    for name in lost:
        for cluster in sim.clusters.values():
            cluster.producers[0].send("flights", chance.randint(1, 3))
        # Not long: the records are to be under way, here and there.
        sim.world.run_until(sim.world.now_ms + chance.randint(0, 8 * faults.delay_ms_max))
        sim.lose(name)
        if declared:
            sim.declare_lost(name)
    lost_ms = sim.world.now_ms
    while not settled(sim) and sim.world.now_ms < lost_ms + CONVERGENCE_MS_MAX:
        sim.world.run_until(sim.world.now_ms + 500)
    problems = [] if settled(sim) else ["the survivors do not hold the same"]
    first, *others = sim.clusters.values()
    held = contents(first.store.log)
    problems += [
        f"{other.name} and {first.name} hold other records"
        for other in others
        if _places(contents(other.store.log)) != _places(held)
    ]
    return LossOutcome(
        problems,
        pulled=sum(link.pulled for link in sim.links),
        gone=sum(sim.rpo().values()),
        settled_ms=sim.world.now_ms - lost_ms,
    )


def _places(
    records: Mapping[Partition, Sequence[Record]],
) -> dict[Partition, list[tuple[int, bytes | None]]]:
    return {
        partition: [(record.sequence, record.value) for record in found]
        for partition, found in records.items()
    }


def main() -> int:
    """Run every loss of so many clusters from trees of a size; 0 if all survivors converge."""
    parser = argparse.ArgumentParser(description="Lose clusters in the simulator.")
    parser.add_argument("--size", type=int, default=4, help="clusters in the tree")
    parser.add_argument("--lost", type=int, default=1, help="how many of them are lost")
    parser.add_argument("--seed", type=int, default=0)
    arguments = parser.parse_args()
    mute()
    runs = failed = pulling = 0
    for topology, lost in every_loss(arguments.size, arguments.lost):
        outcome = run(topology, lost, arguments.seed + runs)
        runs += 1
        failed += bool(outcome.problems)
        pulling += bool(outcome.pulled)
        for problem in outcome.problems:
            seed = arguments.seed + runs - 1
            sys.stdout.write(f"{lost} of {topology.tree}, seed {seed}: {problem}\n")
    sys.stdout.write(f"{runs - failed} of {runs} losses converge, {pulling} by pulling\n")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
