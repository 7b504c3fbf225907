"""The offsets of a link on real sockets: a thread between the query ports of two clusters."""

from __future__ import annotations

import logging
import threading
from typing import TYPE_CHECKING

from dafka.cluster import Cluster
from dafka.errors import DafkaError, QueryError
from dafka.groups.link_sync import LinkStanding
from dafka.node.committer import Committer
from dafka.process.clock import now_ms, wall_ms
from dafka.process.signals import SHUTDOWN_MS
from dafka.process.threads import wait_for_end
from dafka.query.client import LOOK_TIMEOUT_MS
from dafka.query.cluster_client import ClusterClient
from distributor.offsets.distributor import OffsetsDistributor
from distributor.offsets.meter import OffsetsMeter

if TYPE_CHECKING:
    from collections.abc import Sequence

    from dafka.groups.commit import Commit, CommitKey
    from dafka.model import Batch, Partition
    from dafka.query.client import StoreClient
    from topology.model import ClusterSpec, Topology
    from topology.plan import Link

log = logging.getLogger(__name__)

INTERVAL_MS = 250
"""How often the source is asked for commits: a position is at the target after some of these."""

RETRY_MS = 2_000
"""When to go on after a store did not answer: the source's commits are then all read again."""


class OffsetsNode:
    """The positions of groups, brought from one cluster to another for as long as it lives.

    Args:
        topology: Where both clusters are declared.
        link: Which arrow of the plan.
        aim: Which of its targets; by default the preferred one.
    """

    def __init__(self, topology: Topology, link: Link, aim: str = "") -> None:
        source, target = topology.cluster(link.source), topology.cluster(aim or link.target)
        self._link = link
        # The source's host is this process's own, on which nodes of both meshes are bound.
        self._clusters = [_QueriedCluster(one, source) for one in (source, target)]
        self._distributor = OffsetsDistributor(
            level=link.level,
            source=self._clusters[0],
            target=self._clusters[1],
            offsets=topology.offsets,
            wants=topology.topics.wants,
        )
        self._meter = OffsetsMeter(link, target.name)
        self._at_work = f"positions, which stores of {source.name} or {target.name} tell or take"
        self._complaint = ""
        """What was last complained of; the same is not said again every time it is tried."""
        self._failure: DafkaError | None = None
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._main, name="dafka-offsets", daemon=True)
        self._thread.start()

    def check(self) -> None:
        """Return if it works.

        Raises:
            DafkaError: It ended with that.
        """
        if self._failure is not None:
            raise self._failure

    def join(self, timeout: float) -> bool:
        """See `LongRunning`."""
        self._thread.join(timeout)
        self.check()
        return not self._thread.is_alive()

    def unwell(self) -> str:
        """Why it does not work, for people; empty if it does."""
        if self._thread.is_alive() or self._stopping.is_set():
            return ""
        return f"positions of groups are not copied any more: {self._failure}"

    def close(self, timeout_s: float = SHUTDOWN_MS / 1_000) -> None:
        """End; a round that is under way for longer than that ends by itself, and does no harm."""
        self._stopping.set()
        wait_for_end(self._thread, self._at_work, timeout_s)

    def _main(self) -> None:
        try:
            while not self._stopping.wait((RETRY_MS if self._complaint else INTERVAL_MS) / 1_000):
                self._round()
        except DafkaError as error:
            self._failure = error
            log.critical("positions of groups are not copied: %s", error)
        finally:
            self._meter.close()
            for cluster in self._clusters:
                cluster.close()

    def _round(self) -> None:
        done = self._distributor.round(now_ms())
        self._meter.count(done)
        if done.error and done.error != self._complaint:
            facts = {"source": self._link.source, "error": done.error}
            log.warning("positions of groups wait", extra=facts)
        self._complaint = done.error
        self._meter.ages(self._distributor.ages(wall_ms()))


class _QueriedCluster:
    """One end of a link: a store that is asked until it fails, and a committer.

    Args:
        cluster: Which.
        own: That of this process, where it is bound and reached.
    """

    def __init__(self, cluster: ClusterSpec, own: ClusterSpec) -> None:
        self.number = cluster.id
        self._name = cluster.name
        self._stores = ClusterClient(Cluster.declared(cluster), LOOK_TIMEOUT_MS)
        self._endpoints = [store.query for store in cluster.stores]
        self._index = 0
        place = Cluster.declared(cluster).bound_at(own.host, own.advertise)
        self._committer = Committer(place)

    def groups(self) -> list[str]:
        return self._store.groups()

    def offsets(self, group: str) -> dict[Partition, Commit]:
        return self._store.offsets(group)

    def is_live(self, group: str) -> bool:
        """Ask every store that answers: one alone may have missed what members say."""
        rosters = self._stores.all(lambda store: store.members(group)).given.values()
        if not rosters:
            raise QueryError(f"no store of cluster {self._name} answers")
        return any(pulse.alive for roster in rosters for pulse in roster.pulses)

    def ranges(self, topic: str) -> dict[Partition, range]:
        return self._store.ranges(topic)

    def end(self, partition: Partition) -> int:
        return self._store.ranges_of([partition]).get(partition, range(0)).stop

    def find(self, partition: Partition, timestamp_ms: int) -> int | None:
        return self._store.find(partition, timestamp_ms)

    def read(
        self, partition: Partition, sequence: int, count_max: int, bytes_max: int
    ) -> list[Batch]:
        return self._store.read(partition, sequence, count_max, bytes_max)

    def write(self, commits: Sequence[tuple[CommitKey, Commit]]) -> None:
        self._committer.write(commits)

    def tell_link(self, link: str, *, in_sync: bool) -> LinkStanding:
        answers = self._stores.all(lambda store: store.tell_link(link, in_sync=in_sync)).given
        known = all(one.known for one in answers.values())
        return LinkStanding(known, bool(answers) and all(one.awaited for one in answers.values()))

    def turn_away(self) -> None:
        self._index = (self._index + 1) % len(self._endpoints)

    def close(self) -> None:
        self._stores.close()
        self._committer.close()

    @property
    def _store(self) -> StoreClient:
        return self._stores.store(self._endpoints[self._index])
