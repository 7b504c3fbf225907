"""What the machine of offsets asks of stores, asked through their query ports."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from dafka.errors import CommitError, RecordError
from dafka.groups.commit import TOPIC, CommitKey, decode
from dafka.records.batch import newest_ms, raw_records
from distributor.offsets.events import CommitsRead, PlaceAt, RecordAt, TargetPlace
from distributor.offsets.translation import Absent

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from dafka.groups.commit import Commit
    from dafka.model import Batch, Partition

WHOLE_INTERVAL_MS = 30_000
"""How often all commits are looked at again: a target may have lost what it had."""

NEWS_BATCHES_MAX = 1_000
"""Batches of commits read at once from one partition; the rest is read the next time."""

_ONE_BATCH = 1


class StoreView(Protocol):
    """What is asked of a store: the part of `dafka.query.client.StoreClient` needed here."""

    def groups(self) -> list[str]:
        """Return the groups that have ever committed something."""

    def offsets(self, group: str) -> dict[Partition, Commit]:
        """Return what holds of a group's commits."""

    def ranges(self, topic: str | None = None) -> dict[Partition, range]:
        """Return the sequences that are kept of every partition."""

    def find(self, partition: Partition, timestamp_ms: int) -> int | None:
        """Return the sequence of the first record that is of this time or later."""

    def read(
        self, partition: Partition, sequence: int, count_max: int, bytes_max: int
    ) -> list[Batch]:
        """Return batches from the one that holds `sequence` on."""


class Follower:
    """Follows the commits of one store: all at first, then those that come."""

    def __init__(self) -> None:
        self._next: dict[Partition, int] = {}
        self._whole_due_ms: int | None = None

    def read(self, store: StoreView, now_ms: int) -> CommitsRead:
        """Return what is new.

        Raises:
            QueryError: The store does not answer; nothing is lost.
        """
        kept = store.ranges(TOPIC)
        if self._whole_due_ms is None or now_ms >= self._whole_due_ms:
            commits = list(held(store, store.groups()).items())
            self._next = {partition: there.stop for partition, there in kept.items()}
            self._whole_due_ms = now_ms + WHOLE_INTERVAL_MS
            return CommitsRead(commits, whole=True)
        news: list[tuple[CommitKey, Commit]] = []
        for partition, there in kept.items():
            # A sequence below 0 never is: a partition that is new here is read from its start.
            start = max(self._next.get(partition, 0), there.start)
            if start < there.stop:
                news += self._news(store, partition, start)
        return CommitsRead(news)

    def _news(
        self, store: StoreView, partition: Partition, start: int
    ) -> Iterator[tuple[CommitKey, Commit]]:
        for batch in store.read(partition, start, NEWS_BATCHES_MAX, _NEWS_BYTES_MAX):
            yield from _commits(batch)
            self._next[partition] = batch.end


_NEWS_BYTES_MAX = 1024 * 1024


def _commits(batch: Batch) -> Iterator[tuple[CommitKey, Commit]]:
    """The commits of a batch; what is none, the store has counted."""
    try:
        for record in raw_records(batch.content):
            try:
                yield decode(record.key, record.value)
            except CommitError:
                continue
    except RecordError:
        return


def held(store: StoreView, groups: Iterable[str]) -> dict[CommitKey, Commit]:
    """Return what a store holds of these groups.

    Raises:
        QueryError: It does not answer.
    """
    return {
        CommitKey(group, partition): commit
        for group in groups
        for partition, commit in store.offsets(group).items()
    }


def times(store: StoreView, records: Iterable[RecordAt]) -> dict[RecordAt, int | Absent]:
    """Return the times of records, or why there is none.

    Raises:
        QueryError: The store does not answer.
    """
    ranges = _Ranges(store)
    return {record: _time(store, record, ranges) for record in records}


def _time(store: StoreView, at: RecordAt, ranges: _Ranges) -> int | Absent:
    batches = store.read(at.partition, at.sequence, 1, _ONE_BATCH)
    if not batches:
        return Absent.GONE if at.sequence < ranges.of(at.partition).stop else Absent.AHEAD
    content = batches[0].content
    if newest_ms(content) is None:
        return Absent.TIMELESS
    try:
        for record in raw_records(content):
            if record.sequence == at.sequence:
                return max(0, record.timestamp_ms)
    except RecordError:
        # Damage is for `verify` to find; one record must not keep all positions back.
        return Absent.TIMELESS
    return Absent.TIMELESS


def places(store: StoreView, asked: Iterable[PlaceAt]) -> Mapping[PlaceAt, TargetPlace]:
    """Return where a store has records of these times.

    Raises:
        QueryError: It does not answer.
    """
    ranges = _Ranges(store)
    return {at: _place(store, at, ranges) for at in asked}


def _place(store: StoreView, at: PlaceAt, ranges: _Ranges) -> TargetPlace:
    found = store.find(at.partition, at.timestamp_ms)
    return TargetPlace(found, 0 if found is not None else ranges.of(at.partition).stop)


class _Ranges:
    """What a store keeps, asked once for each topic, and only if it matters."""

    def __init__(self, store: StoreView) -> None:
        self._store = store
        self._topics: dict[str, dict[Partition, range]] = {}

    def of(self, partition: Partition) -> range:
        topic = partition.topic
        if topic not in self._topics:
            self._topics[topic] = self._store.ranges(topic)
        return self._topics[topic].get(partition, range(0))
