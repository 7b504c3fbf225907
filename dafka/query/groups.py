"""The store's side of what is asked and agreed on about groups of consumers."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dafka.errors import MisuseError, WireError
from dafka.groups.commit import checked_group
from dafka.groups.fold import commits_of, groups_of
from dafka.model import Partition
from dafka.query import messages
from dafka.query.paging import page
from dafka.wire.octets import octets_of, text

if TYPE_CHECKING:
    from dafka.groups.registers import Registers
    from dafka.query.messages import GroupAnswer, GroupQuestion, GroupRequest
    from dafka.storage.log import RecordLog

GROUP_QUESTIONS = (
    messages.Groups,
    messages.Offsets,
    messages.Members,
    messages.Beat,
    messages.Prepare,
    messages.Accept,
)

ROWS_MAX = 500
"""Groups or commits looked up for one answer; a commit may have 64 KiB."""


def answered(
    question: GroupQuestion | GroupRequest, log: RecordLog, registers: Registers, now_ms: int
) -> GroupAnswer:
    """Return the answer to `question`.

    Args:
        question: What is asked.
        log: Where commits are.
        registers: Where members are.
        now_ms: The time, by the clock that `registers` is always given.

    Raises:
        StorageError: The disk refused.
        WireError: What is to be agreed on is no membership, or there are too many groups.
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
        case messages.Members(group):
            return messages.Roster(registers.roster(_checked(text(group)), now_ms))
        case messages.Beat(request):
            return messages.Roster(registers.beat(request, now_ms))
        case messages.Prepare(request):
            _checked(request.group)
            return messages.Promise(registers.prepare(request, now_ms))
        case messages.Accept(request):
            _checked(request.group)
            return messages.Accepted(registers.accept(request, now_ms))


def _checked(group: str) -> str:
    try:
        return checked_group(group)
    except MisuseError as error:
        raise WireError("membership") from error
