"""The offset committer: writes positions into the `__consumer_offsets` of a cluster."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from dafka.cluster import Cluster
from dafka.errors import BufferFullError, NotStoredError, QueryError
from dafka.groups.commit import TOPIC, encode
from dafka.node.producer import Producer

if TYPE_CHECKING:
    from collections.abc import Sequence

    from dafka.groups.commit import Commit, CommitKey
    from topology.model import ClusterSpec

log = logging.getLogger(__name__)

WRITE_TIMEOUT_S = 5.0
"""How long the stores may take to acknowledge commits."""

_END_S = 0.5
"""How long that may take at the end: what is lost then is worked out again."""


class Committer:
    """Writes commits to one cluster.

    Args:
        cluster: Which.
        host: Where its producer is bound.
    """

    def __init__(self, cluster: ClusterSpec, host: str) -> None:
        self._cluster = cluster
        self._host = host
        self._producer: Producer | None = None
        """Opened with the first commit: most clusters have no groups."""

    def write(self, commits: Sequence[tuple[CommitKey, Commit]]) -> None:
        """Publish commits, and wait until a store has them.

        Raises:
            QueryError: None has in time; they may still get there, which does no harm.
        """
        if self._producer is None:
            self._producer = Producer(
                Cluster.declared(self._cluster).bound_at(self._host),
                linger_ms=1,
                max_block_ms=int(WRITE_TIMEOUT_S * 1_000),
                content="batches",
            )
        try:
            for key, commit in commits:
                name, value = encode(key, commit)
                self._producer.send(TOPIC, value, key=name)
            self._producer.flush(WRITE_TIMEOUT_S)
        except (BufferFullError, NotStoredError) as error:
            raise QueryError(
                f"cluster {self._cluster.name} has not taken positions in {WRITE_TIMEOUT_S:.0f} s"
            ) from error

    def close(self) -> None:
        """Release the connections."""
        if self._producer is None:
            return
        try:
            self._producer.close(_END_S)
        except NotStoredError:
            log.info("the last positions are not stored", extra={"cluster": self._cluster.name})
