"""Seeing that a store with a new disk has all that the others have (ADR 28)."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from dafka.errors import QueryError
from dafka.query.client import LOOK_TIMEOUT_MS, StoreClient

if TYPE_CHECKING:
    from collections.abc import Callable, Collection

    from dafka.transport.keys import Credentials

log = logging.getLogger(__name__)

LATE_MS = 60_000
"""A disk that is new for longer is told of: somebody may have to do something."""


class CatchingUp:
    """Follows one store while its disk is new.

    Args:
        others: The query ports of all other stores of the cluster.
        credentials: Whose to use, in a cluster with keys.
        connect: Makes a client of another store.
    """

    def __init__(
        self,
        others: Collection[str],
        credentials: Credentials | None,
        connect: Callable[..., StoreClient] = StoreClient,
    ) -> None:
        self._others = others
        self._credentials = credentials
        self._connect = connect
        self._identity = ""
        self._met: set[str] = set()
        """Of whom it has had all."""
        self._late_ms: int | None = None
        """When it is to be told that this takes long; None if it was."""

    def look(
        self, client: StoreClient, identity: str, topics: Collection[str], now_ms: int
    ) -> bool:
        """Compare it with the others; tell it once it has had all of each, and whether that is so.

        Args:
            client: Its query port.
            identity: What it calls itself.
            topics: Of which it has to have all.
            now_ms: The time.

        Raises:
            QueryError: It does not answer.
        """
        if identity != self._identity:
            self._identity, self._met = identity, set()
            self._late_ms = now_ms + LATE_MS
        for endpoint in self._others:
            if endpoint not in self._met and self._has_all_of(client, endpoint, topics):
                self._met.add(endpoint)
        if len(self._met) < len(self._others) or client.health().identity != identity:
            self._tell(now_ms)
            return False
        client.catch_up()
        log.info("store has all that the others have", extra={"address": identity})
        return True

    def _tell(self, now_ms: int) -> None:
        """Say once that it takes long."""
        if self._late_ms is None or now_ms < self._late_ms:
            return
        self._late_ms = None
        log.warning(
            "store has a new disk, which counts for no takeover until it has all that each of the "
            "others has: start those that are away",
            extra={"address": self._identity, "others": sorted({*self._others} - self._met)},
        )

    def _has_all_of(self, client: StoreClient, endpoint: str, topics: Collection[str]) -> bool:
        # The thread that asks has ledgers to read, too: it ends with the first that is lacking.
        with self._connect(endpoint, LOOK_TIMEOUT_MS, self._credentials) as other:
            return all(_has_all(client, other, topic) for topic in topics)


def _has_all(client: StoreClient, other: StoreClient, topic: str) -> bool:
    # The other one first: what it gets meanwhile is not asked for.
    try:
        theirs = other.ranges(topic)
    except QueryError:
        return False  # it is asked again; who follows it says that it is away
    ends = {place: kept.stop for place, kept in client.ranges(topic).items()}
    return all(ends.get(place, 0) >= kept.stop for place, kept in theirs.items() if kept)
