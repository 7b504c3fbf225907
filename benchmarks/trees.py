"""What a record costs as a tree grows, by count: no time, so any machine gives the same."""

from __future__ import annotations

from collections import Counter
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from dafka.protocol.events import Received
from dafka.testing.world import Faults, SimMesh, SimMeshPort
from distributor.testing.world import SimWorld
from topology.plan import plan
from topology.testing import topology_of, tree_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from topology.testing import Nested

TREE_LEVELS = (1, 2, 3, 4, 5)
"""Of binary trees: 2 to 32 clusters."""

RECORDS = 200
"""Each a batch, so that batches are counted as they are where few records come."""

APART_MS = 20
SETTLE_MS = 3_000
"""Until all have found each other; and at the end until all clusters have all."""


def tree_costs() -> dict[str, list[tuple[float, float]]]:
    """By quantity, its value for each number of clusters.

    Records are published on clusters taken at random. What is said while nothing is published
    counts not.
    """
    costs: dict[str, list[tuple[float, float]]] = {}
    for levels in TREE_LEVELS:
        for name, value in _costs(levels).items():
            costs.setdefault(name, []).append((2**levels, value))
    return costs


def _costs(levels: int) -> dict[str, float]:
    sim = SimWorld(plan(topology_of(tree_of(_binary(levels)))), seed=1, faults=Faults())
    sim.world.run_until(SETTLE_MS)
    duration_ms = RECORDS * APART_MS + SETTLE_MS
    with _counted() as idle:
        sim.world.run_until(sim.world.now_ms + duration_ms)
    with _counted() as busy:
        for _ in range(RECORDS):
            sim.send_somewhere("bench", 1)
            sim.world.run_until(sim.world.now_ms + APART_MS)
        sim.world.run_until(sim.world.now_ms + SETTLE_MS)
    held = {name: sum(one.store.log.ends().values()) for name, one in sim.clusters.items()}
    assert set(held.values()) == {RECORDS}, f"not everywhere: {held}"
    return {
        "copies": sum(link.forwarded for link in sim.links) / RECORDS,
        "messages sent": (busy["sent"] - idle["sent"]) / RECORDS,
        "messages received": (busy["received"] - idle["received"]) / RECORDS,
    }


def _binary(levels: int, first: int = 0) -> Nested:
    if levels == 0:
        return f"c{first}"
    half = 2 ** (levels - 1)
    return (levels, _binary(levels - 1, first), _binary(levels - 1, first + half))


@contextmanager
def _counted() -> Iterator[Counter[str]]:
    """Count messages that nodes send, and that reach one."""
    counts: Counter[str] = Counter()
    mesh: Any = SimMesh
    port: Any = SimMeshPort
    publish, arrive = mesh.publish, port.arrive

    def counted_publish(self: SimMesh, *given: object) -> None:
        counts["sent"] += 1
        publish(self, *given)

    def counted_arrive(self: SimMeshPort, event: object) -> None:
        counts["received"] += isinstance(event, Received)
        arrive(self, event)

    mesh.publish, port.arrive = counted_publish, counted_arrive
    try:
        yield counts
    finally:
        mesh.publish, port.arrive = publish, arrive
