"""Writing commits of groups to a cluster, for whoever is no member: links and operators."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from dafka.errors import BufferFullError, NotStoredError, QueryError
from dafka.groups.commit import TOPIC, encode
from dafka.groups.membership import blocking_of
from dafka.node.producer import Producer

if TYPE_CHECKING:
    from collections.abc import Sequence

    from dafka.cluster import Cluster
    from dafka.groups.commit import Commit, CommitKey

log = logging.getLogger(__name__)

WRITE_TIMEOUT_S = 5.0
_END_S = 0.5
"""How long stores may take to acknowledge the last ones: what is lost then is worked out again."""


class Committer:
    """Writes commits to one cluster.

    Args:
        cluster: Which; of one that names no stores one has to take them. Its host is where the
            producer is bound.
        timeout_s: How long the stores may take to acknowledge commits.
    """

    def __init__(self, cluster: Cluster, timeout_s: float = WRITE_TIMEOUT_S) -> None:
        self._cluster = cluster
        self._timeout_s = timeout_s
        self._producer: Producer | None = None
        """Opened with the first commit: most clusters have no groups."""

    def write(self, commits: Sequence[tuple[CommitKey, Commit]]) -> None:
        """Publish commits, and wait until as many stores have them as block a majority.

        Raises:
            QueryError: They have not in time; they may still get there, which does no harm.
        """
        if self._producer is None:
            self._producer = Producer(
                self._cluster,
                linger_ms=1,
                max_block_ms=int(self._timeout_s * 1_000),
                content="batches",
                min_acks=blocking_of(max(1, len(self._cluster.stores))),
            )
        try:
            for key, commit in commits:
                name, value = encode(key, commit)
                self._producer.send(TOPIC, value, key=name)
            self._producer.flush(self._timeout_s)
        except (BufferFullError, NotStoredError) as error:
            where = f"cluster {self._cluster.name}" if self._cluster.name else "the cluster"
            raise QueryError(
                f"{where} has not taken positions in {self._timeout_s:.0f} s"
            ) from error

    def close(self) -> None:
        """Release the connections."""
        if self._producer is None:
            return
        try:
            self._producer.close(_END_S)
        except NotStoredError:
            log.info("the last positions are not stored", extra={"cluster": self._cluster.name})
