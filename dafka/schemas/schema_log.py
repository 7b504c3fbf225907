"""The topic `_schemas` of a cluster: read through a store's query port, written by a producer.

Nothing is followed in the background. Whoever wants to know reads what has been added since, and so
every answer is as fresh as the store: a few hundred microseconds for a question asked rarely.

Entries in memory, for simulation: what one log writes, all on the same list read.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Protocol

from dafka.errors import NotStoredError, QueryError
from dafka.node.producer import Producer
from dafka.process.clock import CLOCK
from dafka.process.unreadable import pass_over
from dafka.query.client import LOOK_TIMEOUT_MS
from dafka.query.cluster_client import ClusterClient
from dafka.records.batch import records_of
from dafka.schemas.entries import TOPIC, SchemaEntry, decode, encode
from dafka.transport.request import QueryClient

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from dafka.cluster import Cluster
    from dafka.model import Partition
    from dafka.process.clock import Clock
    from dafka.query.client import StoreClient
    from dafka.schemas.state import State
    from dafka.transport.request import ConnectClient


log = logging.getLogger(__name__)

_STORED_TIMEOUT_S = 10.0
"""How long the stores may take to have what was written."""


class EntryProducer(Protocol):
    """What entries are written with: `Producer`."""

    @property
    def address(self) -> str:
        """Who writes."""

    def send(self, topic: str, value: bytes | None, *, key: bytes) -> object:
        """Publish a record."""

    def flush(self, timeout: float) -> None:
        """Wait until all is stored; raises `NotStoredError` if it is not in time."""

    def close(self, timeout: float) -> None:
        """Leave the cluster."""


def _producer(cluster: Cluster, min_acks: int) -> EntryProducer:
    return Producer(cluster, linger_ms=0, min_acks=min_acks)


class SchemaLog:
    """One cluster's `_schemas`. Not thread-safe.

    Whoever decides on what it has read writes to more than half of the stores and reads from more
    than half: of two that do so at the same time at least one sees the other.

    Args:
        cluster: Which, with all of its stores; its mesh is joined when there is something to write.
        connect: Makes the connections to stores.
        produce: Joins the mesh, given how many stores have to have what is written.
        clock: What time it is.

    Raises:
        MisuseError: An endpoint cannot be used.
    """

    def __init__(
        self,
        cluster: Cluster,
        connect: ConnectClient = QueryClient,
        produce: Callable[[Cluster, int], EntryProducer] = _producer,
        clock: Clock = CLOCK,
    ) -> None:
        self._cluster = cluster
        self._produce = produce
        self.majority = len(cluster.stores) // 2 + 1
        """How many stores are more than half."""
        self._producer: EntryProducer | None = None
        self._stores = ClusterClient(cluster, LOOK_TIMEOUT_MS, connect, clock)
        self._read: dict[str, dict[Partition, int]] = {store: {} for store in cluster.stores}
        self.strangers = 0
        """Records that are none of a registry's, passed over."""

    @property
    def address(self) -> str:
        """Who writes here, as claims name it.

        Raises:
            MisuseError: The mesh cannot be joined like this.
        """
        return self._joined().address

    def read_into(self, state: State, stores_min: int = 1) -> None:
        """Apply what has been added since the last call.

        Args:
            state: The same at every call.
            stores_min: How many stores must have been read.

        Raises:
            QueryError: Fewer answer.
        """
        self._stores.some(lambda store: self._read_one(store, state), stores_min)

    def write(self, entries: Sequence[SchemaEntry]) -> None:
        """Publish entries, and wait until more than half of the stores have them on disk.

        Raises:
            NotStoredError: They do not in time; the entries may come to be all the same.
            BufferFullError: What was written before is still not stored.
            MisuseError: The mesh cannot be joined like this.
        """
        producer = self._joined()
        for entry in entries:
            key, value = encode(entry)
            producer.send(TOPIC, value, key=key)
        producer.flush(_STORED_TIMEOUT_S)

    def close(self) -> None:
        """Leave the cluster; what has been answered is stored already."""
        self._stores.close()
        if self._producer is not None:
            self._producer.close(0)

    def _joined(self) -> EntryProducer:
        if self._producer is None:
            self._producer = self._produce(self._cluster, self.majority)
        return self._producer

    def _read_one(self, store: StoreClient, state: State) -> None:
        read = self._read[store.endpoint]
        ranges = store.ranges(TOPIC)
        if any(
            partition not in ranges or ranges[partition].stop < at for partition, at in read.items()
        ):
            # Its disk is new, say. It knows less than it has told us, so it cannot vouch for more
            # until others have repaired it.
            raise QueryError(
                f"a store has lost records of {TOPIC}: start this process anew if no other has them"
            )
        for partition, kept in ranges.items():
            begin = max(read.get(partition, 0), kept.start)
            for batch in store.scan(partition, begin, kept.stop):
                for record in records_of(batch, begin, pass_over):
                    try:
                        state.apply(decode(record.key, record.value), store.endpoint)
                    except ValueError as error:
                        self.strangers += 1
                        place = f"{record.address}/{record.sequence}"
                        log.warning("record passed over", extra={"at": place, "why": str(error)})
                read[partition] = begin = batch.end


class MemorySchemaLog:
    """One process's access to a cluster's entries.

    Args:
        records: All entries of the cluster, shared.
        address: Who writes here.
    """

    majority = 1

    def __init__(self, records: list[SchemaEntry], address: str) -> None:
        self.address = address
        self.records = records
        self.reachable = True
        """Whether the stores answer."""
        self._read = 0

    def read_into(self, state: State, stores_min: int = 1) -> None:
        """Apply what has been added since the last call.

        Raises:
            QueryError: It is not reachable.
        """
        if not self.reachable:
            raise QueryError(f"0 of {stores_min} stores can be read")
        for entry in self.records[self._read :]:
            state.apply(entry)
        self._read = len(self.records)

    def write(self, entries: Sequence[SchemaEntry]) -> None:
        """Add entries.

        Raises:
            NotStoredError: It is not reachable.
        """
        if not self.reachable:
            raise NotStoredError("no store has it", [])
        self.records.extend(entries)

    def close(self) -> None:
        """Nothing is held open."""
