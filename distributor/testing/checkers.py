"""The judgements over a simulated run, apart from what produced it.

Each returns what it found wrong, as sentences; an empty list is a pass. Names in brackets are
those of the invariants in docs/testing.md.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from dafka.records.batch import records_of
from topology.spread import spread

if TYPE_CHECKING:
    from dafka.model import Partition, Record
    from distributor.testing.world import SimCluster, SimWorld
    from topology.plan import Plan

READ_ALL = 1 << 40


def contents(cluster: SimCluster) -> dict[Partition, list[Record]]:
    """Every record a cluster's store holds."""
    log = cluster.store.log
    return {
        partition: [
            record
            for batch in log.read(partition, 0, READ_ALL, READ_ALL)
            for record in records_of(batch)
        ]
        for partition in log.heads()
    }


def nothing_acknowledged_is_missing(world: SimWorld) -> list[str]:
    """[I3] What a producer was told is stored is on every cluster."""
    found = []
    for cluster in world.clusters.values():
        for producer in cluster.producers:
            for partition, end in producer.stored.items():
                found += [
                    f"{other.name} has {partition} to {head}, acknowledged to {end - 1}"
                    for other in world.clusters.values()
                    if (head := other.store.log.heads().get(partition, -1)) < end - 1
                ]
    return found


def every_record_once_and_in_order(world: SimWorld) -> list[str]:
    """[I1, I2, D1, D2] Each cluster holds, of each partition, what was sent, as it was sent."""
    sent = {
        partition: values
        for cluster in world.clusters.values()
        for producer in cluster.producers
        for partition, values in producer.sent.items()
    }
    found = []
    for cluster in world.clusters.values():
        for partition, records in contents(cluster).items():
            values = [record.value for record in records]
            sequences = [record.sequence for record in records]
            if sequences != list(range(len(records))):
                found.append(f"{cluster.name} has gaps in {partition}: {sequences}")
            if values != sent.get(partition, [])[: len(values)]:
                found.append(f"{cluster.name} holds other records of {partition} than were sent")
    return found


def clusters_are_equal(world: SimWorld) -> list[str]:
    """[I14] All clusters hold the same partitions to the same heads."""
    first, *others = world.clusters.values()
    return [
        f"{other.name} and {first.name} differ in their heads"
        for other in others
        if other.store.log.heads() != first.store.log.heads()
    ]


def flags_tell_the_way(world: SimWorld, plan: Plan) -> list[str]:
    """[I2, D4] Flags and origin of every record are those of its way through the tree."""
    expected: dict[tuple[str, str], int] = {}
    for origin in world.clusters:
        expected[origin, origin] = 0
        for hop in spread(plan, origin).hops:
            expected[origin, hop.target] = hop.flags_after
    homes = {
        partition: cluster
        for cluster in world.clusters.values()
        for producer in cluster.producers
        for partition in producer.sent
    }
    found = []
    for cluster in world.clusters.values():
        for partition, records in contents(cluster).items():
            home = homes[partition]
            flags = expected[home.name, cluster.name]
            number = home.number if home is not cluster else 0
            if any((record.copy_flags, record.origin) != (flags, number) for record in records):
                found.append(f"{cluster.name} has wrong flags or origin in {partition}")
    return found
