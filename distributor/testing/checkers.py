"""The judgement that only a tree can be put to: copy flags.

All others are those of `dafka.testing.checker`: a record that reached a cluster twice or out of
order, came back or never came shows in the history of all the clusters' stores.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from dafka.records.batch import records_of
from dafka.testing.nodes import kept
from topology.spread import spread

if TYPE_CHECKING:
    from dafka.model import Partition, Record
    from dafka.storage.log import RecordLog
    from distributor.testing.world import SimWorld
    from topology.plan import Plan


def contents(log: RecordLog) -> dict[Partition, list[Record]]:
    """Every record a store holds."""
    return {
        partition: [record for batch in kept(log, partition) for record in records_of(batch)]
        for partition in log.heads()
    }


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
