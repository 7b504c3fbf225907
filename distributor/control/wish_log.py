"""What controllers keep in their cluster: a topic, read and written at most of its stores.

Each record is the whole of what a controller wants, so of each of them only the last counts, and of
all of these that of the latest epoch. What was written and not answered may be read or not: nothing
of it has been said.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from dafka.groups.commit import CONTROLLERS
from dafka.groups.membership import majority_of
from dafka.node.producer import Producer
from dafka.query.client import LOOK_TIMEOUT_MS
from dafka.query.cluster_client import ClusterClient
from dafka.records.batch import records_of
from distributor.control.grants import NO_WISHES, Wishes
from distributor.control.wire import decode_wishes, encode_wishes

if TYPE_CHECKING:
    from collections.abc import Iterator

    from dafka.cluster import Cluster
    from dafka.query.client import StoreClient

log = logging.getLogger(__name__)

TOPIC = CONTROLLERS
"""Where it is kept; a topic of the cluster's own, which no link carries."""

STORED_TIMEOUT_S = 10.0
"""How long the stores may take to have what was written."""


class WishLog:
    """That of one cluster. Used by one thread at a time.

    Args:
        cluster: Which, with all of its stores.

    Raises:
        MisuseError: Its mesh cannot be joined like this.
    """

    def __init__(self, cluster: Cluster) -> None:
        self._majority = majority_of(len(cluster.stores))
        self._stores = ClusterClient(cluster, LOOK_TIMEOUT_MS)
        self._producer = Producer(cluster, linger_ms=0, min_acks=self._majority)

    def read(self, below: int | None = None) -> Wishes:
        """Return what is kept.

        Args:
            below: Of controllers of epochs before this one; None for all.

        Raises:
            QueryError: Too few stores answer.
        """
        found = (one for some in self._stores.some(_read, self._majority) for one in some)
        return _latest(one for one in found if below is None or one.epoch < below)

    def write(self, wishes: Wishes) -> None:
        """Keep this.

        Raises:
            NotStoredError: The stores do not have it in time; they may have it later.
            BufferFullError: What was written before is still not stored.
        """
        self._producer.send(TOPIC, encode_wishes(wishes))
        self._producer.flush(STORED_TIMEOUT_S)

    def close(self) -> None:
        """Leave the cluster; what was kept is stored already."""
        self._stores.close()
        self._producer.close(0)


def _latest(found: Iterator[Wishes]) -> Wishes:
    return max(found, key=lambda one: (one.epoch, one.version), default=NO_WISHES)


def _read(store: StoreClient) -> list[Wishes]:
    """What each controller has last written, as one store has it."""
    found = []
    for partition, kept in store.ranges(TOPIC).items():
        for batch in store.scan(partition, kept.stop - 1, kept.stop) if kept else ():
            for record in records_of(batch, kept.stop - 1):
                wishes = decode_wishes(record.value or b"")
                if wishes is None:
                    facts = {"address": record.address, "sequence": record.sequence}
                    log.warning("what a controller has kept is not understood", extra=facts)
                else:
                    found.append(wishes)
    return found
