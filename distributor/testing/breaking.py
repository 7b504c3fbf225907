"""One seed, one run: something of a target breaks and stays broken; everybody else goes on.

python -m distributor.testing.breaking --seed 17

Nothing is pulled in these runs, so others get their records only if links leave the broken target.
"""

from __future__ import annotations

import random
import sys
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from dafka.testing.seeds import run_seeds
from dafka.testing.world import Faults
from distributor.link.settings import LinkSettings
from distributor.link.target import TargetSettings
from distributor.testing.checkers import settled
from distributor.testing.links import SimSettings
from distributor.testing.world import SimWorld
from topology.plan import plan as plan_of
from topology.testing import random_topology

if TYPE_CHECKING:
    from distributor.testing.clusters import SimCluster
    from distributor.testing.links import SimLink
    from distributor.testing.world import SimTreeNode

LEAVING = SimSettings(
    link=LinkSettings(survey_interval_ms=1_000, repair_after_ms=None),
    aim=TargetSettings(failover_after_ms=3_000),
)

SENDING_S = 30
"""How long records come while it is broken."""

AROUND_MS = 60_000
"""How long after the last of them they may need to be where they can come: links in a row leave
their targets one after the other, and one that took nothing rests for 24 s."""

WHOLE_MS = 240_000
"""The same of all clusters, once nothing is broken any more; rests double."""

KINDS = "silent", "full", "relay", "topic"
"""No process of the target runs; its disk refuses; its links do not run; it takes nothing of a
topic, for so long that links do not try any more for a while."""

TOPIC, FORBIDDEN = "flights", "weather"

FORBIDDEN_S = 15
"""How much longer records come then."""


@dataclass(frozen=True, slots=True)
class BreakingOutcome:
    """What came of a run.

    Attributes:
        problems: What was found wrong; none is a pass.
        broken: What was, of which cluster.
        switches: How often links have left their targets.
        around_ms: When the others had everything, after the last record was sent.
    """

    problems: list[str]
    broken: str
    switches: int
    around_ms: int


def run(seed: int) -> BreakingOutcome:
    """Run one seed."""
    chance = random.Random(seed)
    topology = random_topology(chance, chance.randint(3, 5))
    # Every link has all targets.
    clusters = tuple(replace(cluster, targets={}) for cluster in topology.clusters)
    faults = Faults(delay_ms_max=chance.choice((2, 20, 100)), disk_ms_max=chance.choice((1, 20)))
    plan = plan_of(replace(topology, clusters=clusters))
    sim = SimWorld(plan, seed, faults, settings=LEAVING)
    for cluster in sim.clusters.values():
        cluster.producers[0].send(TOPIC, 1)
    sim.world.run_until(4_000)
    link = chance.choice([one for one in sim.links if len(one.link.targets) > 1] or sim.links)
    kind = chance.choice(KINDS)
    target = link.target  # the link will leave it
    _break(sim, target, kind)
    around_ms = _go_round(sim, link, target, kind)
    problems = [] if around_ms >= 0 else [f"others do not go on while {target.name} is broken"]
    target.store.disk.full = False
    target.store.forbidden.clear()
    for node in sim.nodes:
        if not node.alive:
            node.boot()
    mended_ms = sim.world.now_ms
    while not settled(sim) and sim.world.now_ms < mended_ms + WHOLE_MS:
        sim.world.run_until(sim.world.now_ms + 1_000)
    problems += [] if settled(sim) else ["not settled"]
    problems += sim.anomalies()
    switches = sum(len(one.switches) for one in sim.links)
    return BreakingOutcome(problems, f"{target.name} {kind}", switches, around_ms)


def _break(sim: SimWorld, target: SimCluster, kind: str) -> None:
    links = [one for one in sim.links if one.link.source == target.name]
    target.store.disk.full = kind == "full"
    down: dict[str, list[SimTreeNode]] = {
        "silent": [*target.stores, *target.producers, *links],
        "full": [],
        "relay": [*links],
        "topic": [],
    }
    target.store.forbidden.update({FORBIDDEN} if kind == "topic" else ())
    for node in down[kind]:
        node.crash()


def _go_round(sim: SimWorld, link: SimLink, target: SimCluster, kind: str) -> int:
    """Send at the link's source; how long until all others have it, in ms; -1 if they do not."""
    source = sim.clusters[link.link.source]
    (producer, *_) = source.producers
    if kind == "topic":
        producer.send(FORBIDDEN, 1)
    for _ in range(SENDING_S + (FORBIDDEN_S if kind == "topic" else 0)):
        producer.send(TOPIC, 1)
        sim.world.run_until(sim.world.now_ms + 1_000)
    takes = kind in ("relay", "topic")
    others = [one for one in sim.clusters.values() if one is not target or takes]
    sent_ms = sim.world.now_ms
    while sim.world.now_ms < sent_ms + AROUND_MS:
        heads = source.store.log.heads()
        if all(
            one.store.log.heads().get(partition) == heads[partition]
            for one in others
            for partition in producer.partitions
            if partition.topic == TOPIC
        ):
            return sim.world.now_ms - sent_ms
        sim.world.run_until(sim.world.now_ms + 250)
    return -1


def main() -> int:
    """Run seeds from the command line; 0 if all pass."""
    return run_seeds("distributor.testing.breaking", "Break targets in the simulator.", _judged)


def _judged(seed: int) -> tuple[str, list[str]]:
    outcome = run(seed)
    return str(outcome), outcome.problems


if __name__ == "__main__":
    sys.exit(main())
