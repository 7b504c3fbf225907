"""What a cluster's stores say they hold, asked for again and again: only what has changed."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from dafka.cluster import Cluster
from dafka.errors import QueryError, RefusedError
from dafka.query.cluster_client import ClusterClient

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from dafka.model import Partition
    from dafka.query.client import StoreClient
    from dafka.storage.log import Mark
    from topology.model import ClusterSpec

log = logging.getLogger(__name__)


class Holdings:
    """What one cluster holds of what a link carries. Used by one thread.

    Args:
        cluster: Whose stores to ask.
        wants: Whether the link carries a topic.
    """

    def __init__(self, cluster: ClusterSpec, wants: Callable[[str], bool]) -> None:
        self.cluster = cluster.name
        self._stores = ClusterClient(Cluster.declared(cluster))
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


def _changed(
    client: StoreClient, since: Mark | None
) -> tuple[Mapping[Partition, range], Mark] | None:
    """What has changed; None if the store cannot say, being of before there was that question."""
    try:
        return client.changes(since)
    except RefusedError:
        return None
