"""The judgements that only a tree can be put to: whether all has come everywhere, and copy flags.

All others are those of `dafka.testing.checker`: a record that reached a cluster twice or out of
order, came back or never came shows in the history of all the clusters' stores.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from dafka.model import WHOLE
from dafka.records.batch import records_of
from dafka.records.envelope import unpack
from dafka.testing.nodes import kept
from topology.copyflags import should_forward
from topology.spread import spread

if TYPE_CHECKING:
    from collections.abc import Mapping

    from dafka.model import Partition, Record
    from dafka.storage.log import RecordLog
    from distributor.testing.clusters import SimCluster
    from distributor.testing.world import SimWorld
    from topology.plan import Plan


def contents(log: RecordLog) -> dict[Partition, list[Record]]:
    """Every record a store holds."""
    return {
        partition: [record for batch in kept(log, partition) for record in records_of(batch)]
        for partition in log.heads()
    }


def settled(world: SimWorld) -> bool:
    """Whether every producer is told that all is stored, and all stores hold the same."""
    if not all(node.awake for node in world.nodes) or not all_has_come(world):
        return False
    clusters = world.clusters.values()
    return not any(producer.waiting for cluster in clusters for producer in cluster.producers)


def all_has_come(world: SimWorld) -> bool:
    """Whether every store has what any of them keeps.

    But for what retention has taken on every way to it: who keeps it then has no link there.
    """
    due: dict[Partition, int] = {}
    taken: dict[Partition, int] = {}
    """Below it retention has taken something, from some store."""
    for store in world.stores:
        for partition, extent in store.log.extents().items():
            taken[partition] = max(extent.start, taken.get(partition, 0))
            # What nobody keeps any more comes to nobody any more.
            if partition not in world.contested and extent.start <= extent.head:
                due[partition] = max(extent.head, due.get(partition, -1))
    for cluster in world.clusters.values():
        for store in cluster.stores:
            held = store.log.ends()
            lacking = {
                one: end
                for one in due
                if store.slots.keeps(*one) and (end := held.get(one, 0)) <= due[one]
            }
            if any(taken[one] <= end for one, end in lacking.items()):
                return False
            if lacking and _may_come(world, cluster, lacking):
                return False
    return True


def _may_come(world: SimWorld, cluster: SimCluster, lacking: Mapping[Partition, int]) -> bool:
    """Whether its own stores keep what goes on there, or a link to it has it to send."""
    pulls = world.settings.link.repair_after_ms is not None
    ways = [(0, WHOLE, store) for store in cluster.stores]
    ways += [
        (one.link.level, one.share, store)
        for one in world.links
        if one.target is cluster
        for store in world.clusters[one.link.source].stores
    ]
    for level, share, store in ways:
        for partition, end in lacking.items():
            if not share.has(partition.address):
                continue
            held = kept(store.log, partition) if partition in store.log.extents() else ()
            batch = next((one for one in held if one.end > end), None)
            if batch is None:
                continue
            envelope = unpack(batch.content)
            assert envelope is not None
            if not level or pulls or should_forward(envelope.copy_flags, level):
                return True
    return False


def flags_tell_the_way(world: SimWorld, plan: Plan) -> list[str]:
    """[D4] Flags and origin of every record are those of its way through the tree.

    Returns:
        What is wrong, as sentences.
    """
    expected: dict[tuple[str, str], int] = {}
    for origin in world.clusters:
        expected[origin, origin] = 0
        for hop in spread(plan.everywhere, origin).hops:
            expected[origin, hop.target] = hop.flags_after
    homes = {
        partition: cluster
        for cluster in world.clusters.values()
        for producer in cluster.producers
        for partition in producer.partitions
    }
    found = []
    held = [(cluster, store) for cluster in world.clusters.values() for store in cluster.stores]
    for cluster, store in held:
        for partition, records in contents(store.log).items():
            if partition in world.contested:
                continue
            home = homes[partition]
            flags = expected[home.name, cluster.name]
            number = home.number if home is not cluster else 0
            if any((record.copy_flags, record.origin) != (flags, number) for record in records):
                found.append(f"{store.name} has wrong flags or origin in {partition}")
    return found
