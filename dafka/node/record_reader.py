"""Reading records for Kafka clients from whichever store has them. One for each thread."""

from __future__ import annotations

import logging
from bisect import bisect_left
from typing import TYPE_CHECKING, NamedTuple

from dafka.errors import QueryError
from dafka.gateway.broker import ErrorCode, Found
from dafka.gateway.commits import merged
from dafka.gateway.owner import knows_all
from dafka.gateway.served import served
from dafka.limits import BATCH_RECORDS_MAX, READ_BYTES_MAX
from dafka.model import Partition
from dafka.process.clock import now_ms
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

_TIMES_END_MS = 2**62
"""No record is so late."""

_NOTHING = Found(ErrorCode.NONE)


class _Place(NamedTuple):
    """A record: its offset, and the entry it lies in."""

    offset: int
    entry: LedgerEntry


class _GroupCommits(NamedTuple):
    """What one store has of a group."""

    commits: dict[Partition, Commit]
    in_sync: bool
    new: bool


class RecordReader:
    """Asks the stores of a cluster one after the other, first the one that answered last.

    Args:
        cluster: Which.
    """

    def __init__(self, cluster: Cluster) -> None:
        self._stores = ClusterClient(cluster, LOOK_TIMEOUT_MS)
        self._order = list(cluster.stores)
        self._count = len(cluster.stores)

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

    def find(
        self, topic: str, entries: Sequence[LedgerEntry], until_ms: int, timestamp_ms: int
    ) -> Found:
        """Return the first record of some entries whose time is `timestamp_ms` or later.

        Args:
            topic: Whose.
            entries: Those of one Kafka partition.
            until_ms: By this gateway's clock, when to give up.
            timestamp_ms: The time that is looked for.

        Raises:
            TimeoutError: There are too many addresses to ask for, or stores are slow.
            QueryError: A store does not answer, and no other has one.
            RecordError: A batch cannot be read.
        """
        best: _Place | None = None
        for listed in _by_address(entries):
            _check_time(until_ms)
            sequence = self._sequence_at(Partition(topic, listed[0].address), timestamp_ms)
            place = None if sequence is None else _place_of(sequence, listed)
            if place is not None and (best is None or place.offset < best.offset):
                best = place
        if best is None:
            return Found(ErrorCode.NONE)
        return Found(ErrorCode.NONE, best.offset, self._time_of(topic, best))

    def newest(
        self, topic: str, entries: Sequence[LedgerEntry], until_ms: int, best: Found = _NOTHING
    ) -> Found:
        """Return the first of those records of some entries whose time is the largest.

        A store is asked three times for each address at most, and some sixty times more where the
        largest so far is outdone: it can be searched by time.

        Args:
            topic: Whose.
            entries: Those of one Kafka partition.
            until_ms: See `find`.
            best: The one of the entries before them.

        Raises:
            TimeoutError: See `find`.
            QueryError: A store does not answer, and no other has one.
            RecordError: A batch cannot be read.
        """
        for listed in reversed(_by_address(entries)):
            place = Partition(topic, listed[0].address)
            found = self._newest_of(place, listed, best.timestamp_ms, until_ms)
            best = max(best, found, key=lambda one: (one.timestamp_ms, -one.offset))
        return best

    def values(self, topic: str, entry: LedgerEntry) -> Iterator[tuple[int, bytes | None]]:
        """Yield sequence and value of an entry's records that are there and can be read.

        Raises:
            QueryError: A store does not answer, and no other has them.
        """
        start, end = entry.first, entry.first + entry.records
        while start < end:
            batches = self._read(topic, entry, start, READ_BYTES_MAX)
            if not batches:
                return
            for batch in batches:
                first = max(start, batch.sequence)
                values = values_of(batch, first, _passed_over)
                yield from enumerate(values[: end - first], first)
            start = batches[-1].end

    def commits(self, group: str) -> tuple[dict[Partition, Commit], bool]:
        """Return what a majority knows of a group's commits, and whether links have brought theirs.

        Raises:
            QueryError: Fewer stores answer; new disks count as in takeovers, see `knows_all`.
        """

        def ask(store: StoreClient) -> _GroupCommits:
            # Before the rest: a disk that was new when it was read may have lacked something.
            health = store.health()
            commits, in_sync = store.commits(group)
            if store.health().identity != health.identity:
                raise QueryError(f"{store.endpoint} has got another disk while it was read")
            return _GroupCommits(commits, in_sync, health.new)

        answers = self._stores.majority(ask)
        if not knows_all((one.new for one in answers), self._count):
            answers = [*self._stores.all(ask).given.values()]
            if not knows_all((one.new for one in answers), self._count):
                raise QueryError("a store has a new disk, and another does not answer")
        return merged(one.commits for one in answers), all(one.in_sync for one in answers)

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

    def _newest_of(
        self, log_of: Partition, entries: Sequence[LedgerEntry], least_ms: int, until_ms: int
    ) -> Found:
        """Of one address, if there is one that is no older than `least_ms`."""
        found = self._first_with(
            lambda store: _newest_in(store, log_of, entries, max(0, least_ms), until_ms)
        )
        return found or Found(ErrorCode.NONE)

    def _time_of(self, topic: str, place: _Place) -> int:
        entry, offset = place.entry, place.offset
        sequence = entry.sequence_of(offset)
        return _time_in(self._read(topic, entry, sequence, 0), sequence)

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


def _check_time(until_ms: int) -> None:
    if now_ms() >= until_ms:
        raise TimeoutError


def _newest_in(
    store: StoreClient,
    log_of: Partition,
    entries: Sequence[LedgerEntry],
    least_ms: int,
    until_ms: int,
) -> Found | None:
    """Of one address in one store; None if the store does not have all of it."""
    last = entries[-1].first + entries[-1].records - 1
    if not any(batch.sequence <= last < batch.end for batch in store.read(log_of, last, 1, 1)):
        return None

    def is_older(time_ms: int) -> bool:
        _check_time(until_ms)
        sequence = store.find(log_of, time_ms)
        return sequence is None or sequence > last

    if is_older(least_ms):
        return Found(ErrorCode.NONE)
    if not is_older(least_ms + 1):
        least_ms = bisect_left(range(_TIMES_END_MS), True, least_ms + 2, key=is_older) - 1
    # What is as late may not be listed any more: then the last stands for those that are.
    for sequence in (store.find(log_of, least_ms), last):
        place = None if sequence is None else _place_of(sequence, entries)
        if place is not None:
            there = place.entry.sequence_of(place.offset)
            time_ms = _time_in(store.read(log_of, there, 1, 1), there)
            if time_ms >= least_ms or sequence == last:
                return Found(ErrorCode.NONE, place.offset, time_ms)
    return None


def _place_of(sequence: int, entries: Sequence[LedgerEntry]) -> _Place | None:
    """Where a record of an address is, or else the first behind it; None if none is listed."""
    for entry in entries:
        if entry.first + entry.records > sequence:
            return _Place(entry.offset + max(0, sequence - entry.first), entry)
    return None


def _time_in(batches: Sequence[Batch], sequence: int) -> int:
    """The time of a record, or of the first behind it; -1 if there is none."""
    for batch in batches[:1]:
        for record in raw_records(batch.content):
            if record.sequence >= sequence:
                return record.timestamp_ms
    return -1


def _by_address(entries: Sequence[LedgerEntry]) -> list[list[LedgerEntry]]:
    """Entries, those of an address together, in the order in which addresses appear."""
    found: dict[str, list[LedgerEntry]] = {}
    for entry in entries:
        found.setdefault(entry.address, []).append(entry)
    return [*found.values()]


def _passed_over(batch: Batch, sequence: int) -> None:
    place = {"topic": batch.partition.topic, "address": batch.partition.address}
    log.warning("records passed over: nobody can read them", extra=place | {"start": sequence})
