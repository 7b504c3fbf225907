"""Following the commits of a store, or of a cluster: all at first, then those that come."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from dafka.errors import CommitError, RecordError
from dafka.groups.commit import TOPIC, CommitKey, decode
from dafka.groups.commit_table import COMPRESSED_MAX
from dafka.records.batch import raw_records

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from dafka.groups.commit import Commit
    from dafka.model import Batch, Partition

WHOLE_INTERVAL_MS = 30_000
"""How often a link looks at all commits again: a target may have lost what it had."""

NEWS_BATCHES_MAX = 1_000
_NEWS_BYTES_MAX = 1024 * 1024


class CommitSource(Protocol):
    """What can be followed. All methods may raise `QueryError`, and may be repeated."""

    def groups(self) -> list[str]:
        """Return the groups that have ever committed something."""

    def offsets(self, group: str) -> dict[Partition, Commit]:
        """Return what holds of a group's commits."""

    def ranges(self, topic: str) -> dict[Partition, range]:
        """Return the sequences that are kept of every partition."""

    def read(
        self, partition: Partition, sequence: int, count_max: int, bytes_max: int
    ) -> list[Batch]:
        """Return batches from the one that holds `sequence` on."""


class CommitReader:
    """Follows the commits of a source.

    Args:
        source: Whose.
        batches_max: Batches read at once from one partition; the rest is read the next time.
        whole_interval_ms: How often all is read again; None: never.
    """

    def __init__(
        self,
        source: CommitSource,
        batches_max: int = NEWS_BATCHES_MAX,
        whole_interval_ms: int | None = WHOLE_INTERVAL_MS,
    ) -> None:
        self._source = source
        self._batches_max = batches_max
        self._whole_interval_ms = whole_interval_ms
        self._next: dict[Partition, int] = {}
        self._renewed = True
        self._whole_due_ms: int | None = None

    def renew(self) -> None:
        """Return all the next time."""
        self._renewed = True

    def read(self, now_ms: int) -> tuple[list[tuple[CommitKey, Commit]], bool]:
        """Return what is new in any order, and whether that is all there is.

        Raises:
            QueryError: The source does not answer; nothing is lost.
        """
        kept = self._source.ranges(TOPIC)
        due = self._whole_due_ms is not None and now_ms >= self._whole_due_ms
        if self._renewed or due:
            commits = committed(self._source, self._source.groups())
            self._next = {partition: there.stop for partition, there in kept.items()}
            self._renewed = False
            if self._whole_interval_ms is not None:
                self._whole_due_ms = now_ms + self._whole_interval_ms
            return list(commits.items()), True
        news: list[tuple[CommitKey, Commit]] = []
        for partition, there in kept.items():
            # A sequence below 0 never is: a partition that is new here is read from its start.
            start = max(self._next.get(partition, 0), there.start)
            if start < there.stop:
                news += self._news(partition, start)
        return news, False

    def _news(self, partition: Partition, start: int) -> Iterator[tuple[CommitKey, Commit]]:
        for batch in self._source.read(partition, start, self._batches_max, _NEWS_BYTES_MAX):
            yield from _commits(batch)
            self._next[partition] = batch.end


def _commits(batch: Batch) -> Iterator[tuple[CommitKey, Commit]]:
    """The commits of a batch; what is none, the store has counted."""
    try:
        for record in raw_records(batch.content, COMPRESSED_MAX):
            try:
                yield decode(record.key, record.value)
            except CommitError:
                continue
    except RecordError:
        return


def committed(source: CommitSource, groups: Iterable[str]) -> dict[CommitKey, Commit]:
    """Return what holds of the commits of these groups."""
    return {
        CommitKey(group, partition): commit
        for group in groups
        for partition, commit in source.offsets(group).items()
    }
