"""The offsets of a link on real sockets: a thread between the query ports of two clusters."""

from __future__ import annotations

import logging
import threading
from typing import TYPE_CHECKING, TypeVar

from dafka.cluster import Cluster
from dafka.errors import DafkaError, QueryError
from dafka.process.clock import now_ms, wall_ms
from dafka.query.client import LOOK_TIMEOUT_MS
from dafka.query.cluster_client import ClusterClient
from distributor.offsets.committer import Committer
from distributor.offsets.events import PassedOver, Unanswered
from distributor.offsets.machine import OffsetsMachine
from distributor.offsets.meter import OffsetsMeter
from distributor.offsets.reading import Follower
from distributor.offsets.rounds import turn

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from dafka.groups.commit import Commit, CommitKey
    from dafka.query.client import StoreClient
    from topology.model import ClusterSpec, Topology
    from topology.plan import Link

log = logging.getLogger(__name__)

INTERVAL_MS = 250
"""How often the source is asked for commits: a position is at the target after some of these."""

RETRY_MS = 2_000
"""When to go on after a store did not answer: the source's commits are then all read again."""

ANSWER_TIMEOUT_MS = 2_000
"""How long a store may take to answer."""

T = TypeVar("T")


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
        self._machine = OffsetsMachine(
            level=link.level,
            source=source.id,
            target=target.id,
            offsets=topology.offsets,
            wants=topology.topics.wants,
        )
        self._follower = Follower()
        self._ends = _Clusters(source, target)
        self._meter = OffsetsMeter(link, target.name)
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

    def unwell(self) -> str:
        """Why it does not work, for people; empty if it does."""
        if self._thread.is_alive() or self._stopping.is_set():
            return ""
        return f"positions of groups are not copied any more: {self._failure}"

    def close(self) -> None:
        """End."""
        self._stopping.set()
        self._thread.join()

    def _main(self) -> None:
        try:
            while not self._stopping.wait((RETRY_MS if self._complaint else INTERVAL_MS) / 1_000):
                self._turn()
        except DafkaError as error:
            self._failure = error
            log.critical("positions of groups are not copied: %s", error)
        finally:
            self._ends.close()

    def _turn(self) -> None:
        try:
            for effect in turn(self._machine, self._follower, self._ends, now_ms()):
                if isinstance(effect, PassedOver):
                    self._meter.passed_over(effect)
                else:
                    self._meter.brought(effect)
        except QueryError as error:
            self._machine.handle(Unanswered())
            # Another store may have other commits in another order: it is read from the beginning.
            self._follower = Follower()
            self._ends.turn_away()
            if str(error) != self._complaint:
                self._complaint = str(error)
                facts = {"source": self._link.source, "error": self._complaint}
                log.warning("positions of groups wait", extra=facts)
        else:
            self._complaint = ""
        self._meter.ages(self._machine.ages(wall_ms()))


class _Clusters:
    """Both ends, over their query ports; what is committed goes through a producer."""

    def __init__(self, source: ClusterSpec, target: ClusterSpec) -> None:
        self._source_stores = _Stores(source)
        self._target_stores = _Stores(target)
        # The source's host is this process's own, on which nodes of both meshes are bound.
        self._committer = Committer(target, source.host)

    @property
    def source(self) -> StoreClient:
        """The store of the source that is asked."""
        return self._source_stores.current

    @property
    def target(self) -> StoreClient:
        """The store of the target that is asked."""
        return self._target_stores.current

    def live(self, groups: frozenset[str]) -> frozenset[str]:
        """Ask every store that answers: one alone may have missed what members say."""
        return frozenset(group for group in groups if self._is_live(group))

    def _is_live(self, group: str) -> bool:
        return any(
            pulse.alive
            for roster in self._target_stores.each(lambda store: store.members(group))
            for pulse in roster.pulses
        )

    def write(self, commits: Sequence[tuple[CommitKey, Commit]]) -> None:
        """Commit at the target.

        Raises:
            QueryError: It does not take them in time.
        """
        self._committer.write(commits)

    def turn_away(self) -> None:
        """Ask other stores, if there are any."""
        self._source_stores.turn_away()
        self._target_stores.turn_away()

    def close(self) -> None:
        """Release everything."""
        self._source_stores.close()
        self._target_stores.close()
        self._committer.close()


class _Stores:
    """The stores of a cluster, of which one is asked until it fails."""

    def __init__(self, cluster: ClusterSpec) -> None:
        self._name = cluster.name
        self._stores = ClusterClient(Cluster.declared(cluster), LOOK_TIMEOUT_MS)
        self._endpoints = [store.query for store in cluster.stores]
        self._index = 0

    @property
    def current(self) -> StoreClient:
        """The one that is asked."""
        return self._stores.store(self._endpoints[self._index])

    def each(self, ask: Callable[[StoreClient], T]) -> list[T]:
        """Ask all; what those say that answer.

        Raises:
            QueryError: None does.
        """
        answers = self._stores.all(ask)
        if not answers.given:
            raise QueryError(f"no store of cluster {self._name} answers")
        return list(answers.given.values())

    def turn_away(self) -> None:
        """Ask the next one from now on."""
        self._index = (self._index + 1) % len(self._endpoints)

    def close(self) -> None:
        """Release the connections."""
        self._stores.close()
