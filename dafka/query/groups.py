"""The store's side of the questions about groups of consumers."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dafka.groups.fold import commits_of, groups_of
from dafka.model import Partition
from dafka.query import messages
from dafka.query.paging import page
from dafka.wire.octets import octets_of, text

if TYPE_CHECKING:
    from dafka.query.messages import GroupAnswer, GroupQuestion
    from dafka.storage.log import RecordLog

ROWS_MAX = 500
"""Groups or commits looked up for one answer; a commit may have 64 KiB."""


def answered(question: GroupQuestion, log: RecordLog) -> GroupAnswer:
    """Return the answer to `question`.

    Raises:
        StorageError: The disk refused to read.
    """
    match question:
        case messages.Groups(after):
            last = None if after is None else text(after)
            groups = [octets_of(group) for group in groups_of(log, ROWS_MAX, last)]
            return messages.GroupPage(tuple(groups), len(groups) == ROWS_MAX)
        case messages.Offsets(group, place):
            behind = None if place is None else Partition(text(place[0]), text(place[1]))
            found = commits_of(log, text(group), ROWS_MAX, behind)
            commits, more = page(found, lambda record: len(record[0]) + len(record[1]))
            return messages.OffsetPage(tuple(commits), more or len(found) == ROWS_MAX)
