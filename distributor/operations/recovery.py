"""Recovery points: how much of each cluster's records the others would lack, were it lost now.

Told by the heartbeats of `distributor.operations.heartbeat`, from a process that hears them or
from what the stores keep of them.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from dafka.cluster import Cluster
from dafka.query.client import LOOK_TIMEOUT_MS
from dafka.query.cluster_client import ClusterClient
from distributor.survey import at_once, record_at
from topology import plan
from topology.model import HEARTBEATS

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from dafka.model import Record
    from dafka.query.client import StoreClient
    from topology.model import ClusterSpec, Topology


class Recovery:
    """What a cluster has heard of the others: the newest heartbeat of each.

    Args:
        origins: The clusters of the topology; what others say is left out.
    """

    def __init__(self, origins: Iterable[str]) -> None:
        self._sent_ms = dict.fromkeys(origins, 0)

    def heard(self, record: Record, now_wall_ms: int) -> tuple[str, int] | None:
        """Take a heartbeat in.

        Returns:
            Whose it is, and how long it took, in milliseconds; None if it is none.
        """
        origin = (record.value or b"").decode(errors="replace")
        if origin not in self._sent_ms:
            return None
        # A clock that is ahead must not hide for as long that nothing comes any more.
        sent_ms = min(record.timestamp_ms, now_wall_ms)
        self._sent_ms[origin] = max(self._sent_ms[origin], sent_ms)
        return origin, max(0, now_wall_ms - record.timestamp_ms)

    def point_ms(self, origin: str) -> int:
        """Wall time of the newest heartbeat of a cluster that has come; 0 if none has."""
        return self._sent_ms[origin]


@dataclass(frozen=True, slots=True)
class RecoveryPoint:
    """What of one cluster has come to another.

    Attributes:
        origin: Where it was published.
        cluster: Where it has come to.
        seconds: Age of the newest heartbeat that has; None if none has.
    """

    origin: str
    cluster: str
    seconds: float | None


def recovery_points(topology: Topology, clock: Callable[[], int]) -> list[RecoveryPoint]:
    """Read the newest heartbeats off every cluster that answers; none if the file declares none.

    Args:
        topology: Whose; a cluster without links sends no heartbeats.
        clock: Wall time in milliseconds, read in any thread.
    """
    if topology.heartbeat_ms is None:
        return []
    sources = {link.source for link in plan(topology).links}
    origins = [cluster.name for cluster in topology.clusters if cluster.name in sources]

    def ask(cluster: ClusterSpec) -> tuple[list[Record], int]:
        newest = list(_newest(cluster))
        # Read when it has answered, which may have taken seconds: what has come meanwhile is none
        # too young, and ages are none too small. Another machine's clock may still be ahead.
        return newest, clock()

    points = []
    answers = at_once(ask, topology.clusters)
    for cluster, (newest, now_wall_ms) in zip(topology.clusters, answers, strict=True):
        recovery = Recovery(origins)
        for record in newest:
            recovery.heard(record, now_wall_ms)
        for origin in origins:
            sent_ms = recovery.point_ms(origin)
            seconds = (now_wall_ms - sent_ms) / 1_000 if sent_ms else None
            points.append(RecoveryPoint(origin, cluster.name, seconds))
    return points


def _newest(cluster: ClusterSpec) -> Iterator[Record]:
    """The last heartbeat of every partition that a cluster's stores keep."""
    with ClusterClient(Cluster.declared(cluster), LOOK_TIMEOUT_MS) as stores:
        # Of one that does not answer `status` says so itself.
        for heartbeats in stores.all(_heartbeats).given.values():
            yield from heartbeats


def _heartbeats(store: StoreClient) -> list[Record]:
    ends = [(place, kept.stop - 1) for place, kept in store.ranges(HEARTBEATS).items() if kept]
    records = (record_at(store, partition, head) for partition, head in ends)
    return [record for record in records if record is not None]
