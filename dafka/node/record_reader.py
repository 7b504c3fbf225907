"""Reading records for Kafka clients from whichever store has them. One for each thread."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from dafka.errors import QueryError
from dafka.gateway.broker import ErrorCode, Found
from dafka.gateway.commits import merged
from dafka.gateway.served import served
from dafka.limits import BATCH_RECORDS_MAX, READ_BYTES_MAX
from dafka.model import Partition
from dafka.query.client import LOOK_TIMEOUT_MS
from dafka.query.cluster_client import ClusterClient
from dafka.records.batch import raw_records, values_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from typing import TypeVar

    from dafka.cluster import Cluster
    from dafka.gateway.ledger import LedgerEntry
    from dafka.groups.commit import Commit
    from dafka.model import Batch
    from dafka.query.client import StoreClient

    T = TypeVar("T")

log = logging.getLogger(__name__)


class RecordReader:
    """Asks the stores of a cluster one after the other, first the one that answered last.

    Args:
        cluster: Which.
    """

    def __init__(self, cluster: Cluster) -> None:
        self._stores = ClusterClient(cluster, LOOK_TIMEOUT_MS)
        self._order = list(cluster.stores)

    def fetch(
        self, topic: str, entries: Sequence[LedgerEntry], offset: int, bytes_max: int
    ) -> list[bytes]:
        """Return batches of some entries as clients read them, at least one if there is any.

        Raises:
            QueryError: A store does not answer, and no other has them.
            RecordError: A batch cannot be read.
        """
        found: list[bytes] = []
        size = 0
        for entry in entries:
            batches = self._read(topic, entry, entry.sequence_of(offset), bytes_max - size)
            for batch in batches:
                if found and size + len(batch.content) > bytes_max:
                    return found
                found.append(served(batch, entry))
                size += len(batch.content)
            if size >= bytes_max or (batches and batches[-1].end < entry.first + entry.records):
                break
        return found

    def find(self, topic: str, entries: Sequence[LedgerEntry], timestamp_ms: int) -> Found:
        """Return the first record of some entries whose time is `timestamp_ms` or later.

        Raises:
            QueryError: A store does not answer, and no other has one.
            RecordError: A batch cannot be read.
        """
        best: tuple[LedgerEntry, int] | None = None
        for address in {entry.address for entry in entries}:
            sequence = self._sequence_at(Partition(topic, address), timestamp_ms)
            for entry in entries if sequence is not None else ():
                assert sequence is not None
                if entry.address == address and entry.first + entry.records > sequence:
                    offset = entry.offset + max(0, sequence - entry.first)
                    if best is None or offset < best[1]:
                        best = entry, offset
                    break
        if best is None:
            return Found(ErrorCode.NONE)
        return Found(ErrorCode.NONE, best[1], self._time_of(topic, *best))

    def values(self, topic: str, entry: LedgerEntry) -> Iterator[bytes | None]:
        """Yield the values of an entry's records, as far as they are there and can be read.

        Raises:
            QueryError: A store does not answer, and no other has them.
        """
        start, end = entry.first, entry.first + entry.records
        while start < end:
            batches = self._read(topic, entry, start, READ_BYTES_MAX)
            if not batches:
                return
            for batch in batches:
                values = values_of(batch, start, _passed_over)
                yield from values[: end - max(start, batch.sequence)]
            start = batches[-1].end

    def commits(self, group: str) -> tuple[dict[Partition, Commit], bool]:
        """Return what a majority knows of a group's commits, and whether links have brought theirs.

        Raises:
            QueryError: Fewer stores answer.
        """
        answers = self._stores.majority(lambda store: store.commits(group))
        return merged(commits for commits, _ in answers), all(in_sync for _, in_sync in answers)

    def lives(self, group: str) -> bool:
        """Whether a group of Dafka consumers of this name has live members.

        Raises:
            QueryError: Too few stores answer.
        """
        rosters = self._stores.majority(lambda store: store.members(group))
        return any(pulse.alive for roster in rosters for pulse in roster.pulses)

    def _read(self, topic: str, entry: LedgerEntry, start: int, bytes_max: int) -> list[Batch]:
        """Batches of an entry from the record `start` on, or behind it; none if none is there."""
        place = Partition(topic, entry.address)
        end = entry.first + entry.records
        size = min(max(1, bytes_max), READ_BYTES_MAX)

        def ask(store: StoreClient) -> list[Batch] | None:
            batches = store.read(place, start, min(end - start, BATCH_RECORDS_MAX), size)
            return [one for one in batches if one.end > start and one.sequence < end] or None

        return self._first_with(ask) or []

    def _sequence_at(self, place: Partition, timestamp_ms: int) -> int | None:
        return self._first_with(lambda store: store.find(place, timestamp_ms))

    def _time_of(self, topic: str, entry: LedgerEntry, offset: int) -> int:
        sequence = entry.sequence_of(offset)
        for batch in self._read(topic, entry, sequence, 0)[:1]:
            for record in raw_records(batch.content):
                if record.sequence >= sequence:
                    return record.timestamp_ms
        return -1

    def close(self) -> None:
        """Release the connections."""
        self._stores.close()

    def _first_with(self, ask: Callable[[StoreClient], T | None]) -> T | None:
        failure: QueryError | None = None
        for endpoint in [*self._order]:
            try:
                found = ask(self._stores.store(endpoint))
            except QueryError as error:
                failure = error
                self._order.remove(endpoint)
                self._order.append(endpoint)
                continue
            if found is not None:
                return found
        if failure is not None:
            raise failure
        return None


def _passed_over(batch: Batch, sequence: int) -> None:
    place = {"topic": batch.partition.topic, "address": batch.partition.address}
    log.warning("records passed over: nobody can read them", extra=place | {"start": sequence})
