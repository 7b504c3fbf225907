"""How many events a second the machines handle in the simulator."""

from __future__ import annotations

import time
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from dafka.protocol.producer import ProducerMachine
from dafka.protocol.store import StoreMachine
from dafka.testing.world import Faults
from distributor.link.machine import LinkMachine
from distributor.testing.world import SimWorld
from topology.plan import plan
from topology.testing import topology_of, tree_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from benchmarks.harness import Results

BATCHES = 400
TREE = (3, (1, "c1", "c2"), (1, "c3", "c4"))
MACHINES: tuple[Any, ...] = LinkMachine, StoreMachine, ProducerMachine


def simulator(results: Results) -> None:
    """Four clusters, traffic, some loss; no judgements. By CPU time: it is one thread."""
    events, seconds = _run()
    results.add("simulator", "events/s", events / seconds)
    with _watched() as watch:
        _run()
    results.add("simulator: the machines alone", "events/s", watch.events / watch.seconds)


def _run() -> tuple[int, float]:
    """How many events there were, and in which time."""
    sim = SimWorld(plan(topology_of(tree_of(TREE))), seed=1, faults=Faults(loss=0.02))
    sim.world.run_until(2_000)
    began, events = time.process_time(), sim.world.events
    for _ in range(BATCHES):
        sim.send_somewhere("bench", 3)
        sim.world.run_until(sim.world.now_ms + 5)
    sim.world.run_until(sim.world.now_ms + 5_000)
    return sim.world.events - events, time.process_time() - began


class _Watch:
    def __init__(self) -> None:
        self.events = 0
        self.seconds = 0.0

    def over(self, handle: Callable[..., list[object]]) -> Callable[..., list[object]]:
        def watched(*given: object) -> list[object]:
            began = time.thread_time()
            effects = handle(*given)
            self.seconds += time.thread_time() - began
            self.events += 1
            return effects

        return watched


@contextmanager
def _watched() -> Iterator[_Watch]:
    """Take the time that machines spend on events, without checks, network and history."""
    watch = _Watch()
    handles = [machine.handle for machine in MACHINES]
    for machine, handle in zip(MACHINES, handles, strict=True):
        machine.handle = watch.over(handle)
    try:
        yield watch
    finally:
        for machine, handle in zip(MACHINES, handles, strict=True):
            machine.handle = handle
