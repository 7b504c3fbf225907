"""What both ends of a link say they hold, asked for again and again: only what has changed."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from dafka.cluster import Cluster
from dafka.errors import QueryError, RefusedError
from dafka.process.clock import CLOCK
from dafka.query.cluster_client import ClusterClient
from dafka.transport.request import QueryClient
from distributor.link.events import HeadsRead, HeadsUnread
from distributor.verify.divergence import Witness

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from dafka.model import Partition
    from dafka.query.client import StoreClient
    from dafka.storage.log import Mark
    from dafka.transport.request import ConnectClient
    from topology.model import ClusterSpec

log = logging.getLogger(__name__)


class Holdings:
    """What one cluster holds of what a link carries. Used by one thread.

    Args:
        cluster: Whose stores to ask.
        wants: Whether the link carries a topic.
        connect: Makes the connections to the stores.
    """

    def __init__(
        self,
        cluster: ClusterSpec,
        wants: Callable[[str], bool],
        connect: ConnectClient = QueryClient,
    ) -> None:
        self.cluster = cluster.name
        self._stores = ClusterClient(Cluster.declared(cluster), connect=connect)
        self._wants = wants
        self._until: Mark | None = None
        self.store = ""
        """The query port of the store that last spoke for the cluster."""
        self.heads: dict[Partition, int] = {}
        """The last sequence of each partition."""
        self.begins: dict[Partition, int] = {}
        """Log starts, where they are above 0."""
        self.empty: set[Partition] = set()
        """Partitions of which nothing is kept any more."""

    def ask(self) -> bool:
        """Bring this up to date; False if no store answered.

        The stores are asked in turn; the first that answers speaks for all. Another one may have
        more or less. Less is repeated and ignored, more is repaired among the stores.
        """
        try:
            self._stores.first(self._ask)
        except QueryError:
            return False  # each has been told of
        return True

    def client(self) -> StoreClient:
        """The store that last spoke for the cluster."""
        return self._stores.store(self.store)

    def close(self) -> None:
        """Release the connections."""
        self._stores.close()

    def _ask(self, client: StoreClient) -> None:
        try:
            self._read(client)
        except QueryError as error:
            facts = {"cluster": self.cluster, "store": client.endpoint, "error": str(error)}
            log.warning("a store does not say what it holds", extra=facts)
            raise

    def _read(self, client: StoreClient) -> None:
        store = client.endpoint
        if store == self.store and self._until is not None:
            changed = _changed(client, self._until)
            if changed is not None:
                ranges, self._until = changed
                self._take(ranges)
                return
        # Before the list: what changes meanwhile is told again.
        beginning = _changed(client, None)
        ranges = client.ranges()
        # All there: nothing of what another store had said is left.
        self.store, self._until = store, None if beginning is None else beginning[1]
        self.heads, self.begins, self.empty = {}, {}, set()
        self._take(ranges)

    def _take(self, ranges: Mapping[Partition, range]) -> None:
        for partition, kept in ranges.items():
            if not self._wants(partition.topic):
                continue
            self.heads[partition] = kept.stop - 1
            if kept.start:
                self.begins[partition] = kept.start
            if kept:
                self.empty.discard(partition)
            else:
                self.empty.add(partition)


class BothEnds:
    """What both ends hold, and whether they mean the same records. Used by one thread.

    Args:
        source: Where the link reads.
        target: Where it writes.
        wants: Whether it carries a topic.
        connect: Makes the connections to the stores.
        now_ms: The monotonic clock.
    """

    def __init__(
        self,
        source: ClusterSpec,
        target: ClusterSpec,
        wants: Callable[[str], bool],
        connect: ConnectClient = QueryClient,
        now_ms: Callable[[], int] = CLOCK.now_ms,
    ) -> None:
        self.source, self.target = source.name, target.name
        self._source = Holdings(source, wants, connect)
        self._target = Holdings(target, wants, connect)
        self._witness = Witness()
        self._now_ms = now_ms
        self.told: dict[str, tuple[int, Mapping[Partition, int]]] = {}
        """When each cluster last said what it holds, and that; read by other threads."""

    def survey(self) -> HeadsRead | HeadsUnread:
        """Ask both ends' stores."""
        source, target = self._source, self._target
        # Copies of what changes with the next survey: they are read in another thread.
        theirs = self._heads_of(target)
        if theirs is None:
            return HeadsUnread()
        ours = self._heads_of(source)
        if ours is not None and (spans := self._witness.due(ours, theirs)):
            self._look(spans)
        # A source that does not answer has not lost anything: what was found out still holds.
        return HeadsRead(
            target=theirs,
            source=ours or {},
            diverged=dict(self._witness.diverged),
            waiting=self._witness.waiting(source.heads, theirs),
            begins={} if ours is None else dict(source.begins),
            empty=frozenset(target.empty),
        )

    def close(self) -> None:
        """Release the connections."""
        self._source.close()
        self._target.close()

    def _look(self, spans: Mapping[Partition, range]) -> None:
        try:
            self._witness.look(self._source.client(), self._target.client(), spans)
        except QueryError as error:
            log.warning("cannot compare records", extra={"error": str(error)})

    def _heads_of(self, holdings: Holdings) -> dict[Partition, int] | None:
        if not holdings.ask():
            return None
        heads = dict(holdings.heads)
        self.told[holdings.cluster] = (self._now_ms(), heads)
        return heads


def _changed(
    client: StoreClient, since: Mark | None
) -> tuple[Mapping[Partition, range], Mark] | None:
    """What has changed; None if the store cannot say, being of before there was that question."""
    try:
        return client.changes(since)
    except RefusedError:
        return None
