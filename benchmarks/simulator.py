"""How many events a second the machines handle in the simulator."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from dafka.testing.world import Faults
from distributor.testing.world import SimWorld
from topology.plan import plan
from topology.testing import topology_of, tree_of

if TYPE_CHECKING:
    from benchmarks.harness import Results

BATCHES = 400
TREE = (3, (1, "c1", "c2"), (1, "c3", "c4"))


def simulator(results: Results) -> None:
    """Four clusters, traffic, some loss; no judgements. By CPU time: it is one thread."""
    sim = SimWorld(plan(topology_of(tree_of(TREE))), seed=1, faults=Faults(loss=0.02))
    sim.world.run_until(2_000)
    began, events = time.process_time(), sim.world.events
    for _ in range(BATCHES):
        sim.send_somewhere("bench", 3)
        sim.world.run_until(sim.world.now_ms + 5)
    sim.world.run_until(sim.world.now_ms + 5_000)
    seconds = time.process_time() - began
    results.add("simulator", "events/s", (sim.world.events - events) / seconds)
