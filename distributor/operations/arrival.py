"""What clusters lack of what they are to have: of others, or of a store that was stopped."""

from __future__ import annotations

from contextlib import closing
from typing import TYPE_CHECKING

from dafka.cluster import Cluster
from dafka.errors import StorageError
from dafka.plural import counted
from dafka.query.client import LOOK_TIMEOUT_MS
from dafka.query.cluster_client import ClusterClient
from dafka.storage.lmdb_log import LmdbLog
from distributor.survey import furthest, lacking, survey
from topology.model import HEARTBEATS, INTERNAL

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping
    from pathlib import Path

    from dafka.model import Partition
    from distributor.survey import Holding
    from topology.model import ClusterSpec, Topology


def lacks(topology: Topology, due: Mapping[Partition, int], holdings: Iterable[Holding]) -> str:
    """Which cluster is waited for, as it lacks something of what is due there; empty if none.

    Args:
        topology: Says which topics a cluster is to have.
        due: The last sequence of each partition.
        holdings: What clusters have.
    """
    for holding in holdings:
        if holding.store is None:
            return f"{holding.cluster} to answer"
        missing = [
            partition
            for partition in lacking(due, holding.heads)
            if topology.wants(partition.topic, holding.cluster)
        ]
        if missing:
            return _lacking_of(holding.cluster, len(missing))
    return ""


def lacked(topology: Topology, due: Mapping[Partition, int], cluster: str = "") -> str:
    """Ask clusters for what is due; which is waited for, as `lacks` says.

    Each partition is asked for by name. What no cluster lists had come, if retention took it
    afterwards: then its end is known.

    Args:
        topology: Whose clusters.
        due: The last sequence of each partition.
        cluster: The only one that is to have it, also what it says of itself; empty for all.
    """
    holdings = survey(topology, due=due)
    lacking_there = lacks(topology, due, [one for one in holdings if cluster in ("", one.cluster)])
    return lacking_there or (_lacked_own(topology.cluster(cluster), due) if cluster else "")


def _lacked_own(cluster: ClusterSpec, due: Mapping[Partition, int]) -> str:
    """The same of what a cluster says of itself: one of its stores has it for all others.

    Heartbeats nobody needs: who sent the last one may be gone, too.
    """
    own = {
        one: head
        for one, head in due.items()
        if one.topic.startswith(INTERNAL) and one.topic != HEARTBEATS
    }
    if not own:
        return ""
    with ClusterClient(Cluster.declared(cluster), LOOK_TIMEOUT_MS) as stores:
        answers = stores.all(lambda store: store.ranges_of(own))
    heads = furthest(
        {one: span.stop - 1 for one, span in ranges.items()} for ranges in answers.given.values()
    )
    missing = lacking(own, heads)
    if missing and answers.failures:
        endpoint, error = next(iter(answers.failures.items()))
        return f"{endpoint} to answer: {error}"
    return _lacking_of(cluster.name, len(missing)) if missing else ""


def _lacking_of(cluster: str, partitions: int) -> str:
    return f"{cluster}, which lacks records of {counted(partitions, 'partition')}"


def left_on_disks(
    directories: Iterable[Path],
    cluster: str,
    lacks_of: Callable[[dict[Partition, int]], str],
    cure: str,
) -> str:
    """What stores have that were stopped, and nobody else has, or not yet; empty if others do.

    Args:
        directories: Of stores that are stopped; those that are not there have nothing.
        cluster: Its name.
        lacks_of: Says which cluster lacks something of what is due.
        cure: What brings it back.
    """
    for data in directories:
        if not (data / "data.mdb").exists():
            continue
        try:
            with closing(LmdbLog(data)) as log:
                due = log.heads()
        except StorageError as error:
            return f"the store of {cluster} to end: {error}; if it has, move that directory away"
        if missing := lacks_of(due):
            return f"{missing}: {cluster} has them in {data}, which is stopped; {cure}"
    return ""
