"""How far groups are behind what a store has, worked out a little at a time.

Of many groups with many partitions that takes long, and the store has to store: so every figure is
as old as it takes to come round, and how long that is follows from how many positions there are.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from dafka.errors import CommitError
from dafka.groups.commit import decode
from dafka.groups.commit_table import commits_of, groups_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from dafka.model import Partition
    from dafka.storage.log import RecordLog

PAGE_COMMITS = 100

GROUPS_METERED_MAX = 1_000
"""Groups that have a figure; each is a series."""


class GroupLags:
    """Goes round the groups of a store.

    Args:
        log: Where their commits are, and what they are behind of.
    """

    def __init__(self, log: RecordLog) -> None:
        self._log = log
        self._round = self._worked_out()

    def step(self, commits_max: int) -> Iterator[tuple[str, int | None]]:
        """Look at so many commits; yield groups that are done, with records behind.

        None is one that has no position any more.

        Raises:
            StorageError: The disk refused to read.
        """
        for looked_at, done in self._round:
            if done is not None:
                yield done
            commits_max -= max(looked_at, 1)
            if commits_max <= 0:
                return
        self._round = self._worked_out()

    def _worked_out(self) -> Iterator[tuple[int, tuple[str, int | None] | None]]:
        """One round, page by page: how many commits it has, and the group, if it was its last."""
        for group in groups_of(self._log, GROUPS_METERED_MAX):
            lag: int | None = None
            after: Partition | None = None
            while True:
                before = after
                page = commits_of(self._log, group, PAGE_COMMITS, after)
                for record in page:
                    try:
                        key, commit = decode(*record)
                    except CommitError:
                        continue  # of a later version; nobody can say what it is behind of
                    after = key.partition
                    if commit.position is not None:
                        lag = (lag or 0) + self._behind(key.partition, commit.position)
                if len(page) < PAGE_COMMITS or after == before:
                    break
                yield len(page), None
            yield len(page), (group, lag)

    def _behind(self, partition: Partition, position: int) -> int:
        extent = self._log.extents().get(partition)
        return 0 if extent is None else max(0, extent.head + 1 - max(position, extent.start))
