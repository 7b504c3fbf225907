"""The clusters of a simulated tree, and what their stores keep."""

from __future__ import annotations

from dataclasses import replace
from types import MappingProxyType
from typing import TYPE_CHECKING

from dafka.model import ALL_SLOTS, SLOTS, Slots
from dafka.node.store_settings import STORE_SETTINGS, StoreSettings
from dafka.storage.memory import MemoryLog
from dafka.testing.nodes import SimProducer, SimStore
from dafka.testing.world import SimMesh
from topology.model import StoreSpec

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from dafka.storage.retention import Retention
    from dafka.testing.strangers import SimBareProducer
    from dafka.testing.world import World
    from topology.model import ClusterName
    from topology.plan import Plan


def kept_by(stores: int, *, sharing: bool) -> list[Slots]:
    """What each store of a cluster keeps; so many keep each slot, where they share them or not."""
    if not sharing:
        return [ALL_SLOTS] * stores
    half = SLOTS // 2
    return [Slots.of([one]) for one in (range(half), range(half, SLOTS)) for _ in range(stores)]


def placed(
    plan: Plan,
    slots: Sequence[Slots] = (ALL_SLOTS,),
    others: Mapping[ClusterName, Sequence[Slots]] = MappingProxyType({}),
) -> Plan:
    """Return a plan in which clusters have these stores, called as in the simulator.

    Args:
        plan: Of which clusters.
        slots: What each of a cluster's stores keeps.
        others: The same of single clusters, by name.
    """
    topology = plan.topology
    clusters = tuple(
        replace(
            cluster,
            security=None,
            stores=tuple(
                StoreSpec(query=name, data="", slots=tuple(kept.ranges()))
                for name, kept in _named(cluster.name, others.get(cluster.name, slots))
            ),
        )
        for cluster in topology.clusters
    )
    return replace(plan, topology=replace(topology, clusters=clusters))


def _named(cluster: str, slots: Sequence[Slots]) -> list[tuple[str, Slots]]:
    name = f"store-{cluster}"
    return [(f"{name}-{index}" if index else name, kept) for index, kept in enumerate(slots)]


class SimCluster:
    """One leaf: a mesh, its stores and its producers.

    Args:
        world: Where it lives.
        name: Its name.
        number: Its id.
        producers: How many.
        slots: What each of its stores keeps.
        settings: Of these, but for that.
        retention: What they need not keep.
        coming: What stores are to keep that are to come later.
    """

    def __init__(
        self,
        world: World,
        name: str,
        number: int,
        producers: int,
        slots: Sequence[Slots] = (ALL_SLOTS,),
        settings: StoreSettings = STORE_SETTINGS,
        retention: Sequence[Retention] = (),
        coming: Sequence[Slots] = (),
    ) -> None:
        self.name = name
        self.number = number
        self.mesh = SimMesh(world)
        stores = [
            SimStore(
                world,
                one,
                self.mesh,
                MemoryLog(one.upper()),
                replace(settings, number=number, slots=kept, joins=index >= len(slots)),
                retention,
            )
            for index, (one, kept) in enumerate(_named(name, (*slots, *coming)))
        ]
        self.stores, self.coming = stores[: len(slots)], stores[len(slots) :]
        self.store = self.stores[0]
        self.producers: list[SimProducer | SimBareProducer] = [
            SimProducer(world, f"producer-{name}-{index}", self.mesh) for index in range(producers)
        ]
