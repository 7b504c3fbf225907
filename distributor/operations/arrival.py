"""What clusters lack of what they are to have: of others, or of a store that was stopped."""

from __future__ import annotations

from contextlib import closing
from typing import TYPE_CHECKING

from dafka.errors import StorageError
from dafka.plural import counted
from dafka.storage.lmdb_log import LmdbLog
from distributor.survey import lacking, survey

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping
    from pathlib import Path

    from dafka.model import Partition
    from distributor.survey import Holding
    from topology.model import Topology


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
            return f"{holding.cluster}, which lacks records of {counted(len(missing), 'partition')}"
    return ""


def lacked(topology: Topology, due: Mapping[Partition, int], cluster: str = "") -> str:
    """Ask clusters for what is due; which is waited for, as `lacks` says.

    Each partition is asked for by name. What no cluster lists had come, if retention took it
    afterwards: then its end is known.

    Args:
        topology: Whose clusters.
        due: The last sequence of each partition.
        cluster: The only one that is to have it; empty for all.
    """
    holdings = survey(topology, due=due)
    return lacks(topology, due, [one for one in holdings if cluster in ("", one.cluster)])


def left_on_disks(
    directories: Iterable[Path],
    cluster: str,
    lacks_of: Callable[[dict[Partition, int]], str],
    cure: str,
) -> str:
    """What stores acknowledged at the last moment, if it is nowhere else; empty if it is.

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
        except StorageError:
            return f"the store of {cluster} to end"
        if missing := lacks_of(due):
            return (
                f"{missing}: {cluster} took them as it was stopped, and has them in {data}; {cure}"
            )
    return ""
