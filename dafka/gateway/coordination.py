"""The groups that a gateway coordinates, and what it commits for them (ADR 32).

What is committed goes to the log of commits that every gateway has; who waits for it is answered
once enough stores have it, and only if the group was still this gateway's then.
"""

from __future__ import annotations

import zlib
from collections import deque
from typing import TYPE_CHECKING, NamedTuple

from dafka.errors import MisuseError
from dafka.gateway.broker import ErrorCode
from dafka.gateway.commits import CommitVersion
from dafka.gateway.effects import Coordinating, OffsetsCommitted
from dafka.gateway.share import NO_TIME_MS
from dafka.groups.commit import TOPIC, Commit, CommitKey, encode
from dafka.limits import BATCH_BYTES_MAX, GROUPS_MAX
from dafka.model import Batch, Partition
from dafka.records.batch import BatchBuilder, enclosed
from dafka.records.envelope import ENVELOPE_BYTES

if TYPE_CHECKING:
    from collections.abc import Iterable

    from dafka.gateway.effects import CommitOffsets

COORDINATED = 64
"""Shares of groups, so that a gateway has some dozens at most, and few move at a time."""

WAITING_MAX = 10_000
"""Commits that are not stored yet; while there are more, no more are taken in."""


def coordinated_in(group: str) -> int:
    """Return the share that a group belongs to, at every gateway."""
    return zlib.crc32(group.encode("utf-8", "surrogatepass")) % COORDINATED


class _Unanswered(NamedTuple):
    """A commit that is answered once the log is stored up to an end."""

    end: int
    token: int
    group: str
    epoch: int


class Coordination:
    """The groups of one gateway.

    Args:
        address: The gateway's, under which it publishes commits.
    """

    def __init__(self, address: str) -> None:
        self.log = Partition(TOPIC, address)
        self._held: dict[int, int] = {}
        """By share, the epoch of its ownership."""
        self._versions: dict[str, CommitVersion] = {}
        """Of each group's last commit."""
        self._records: list[tuple[bytes, bytes]] = []
        """Not published yet."""
        self._published = 0
        self._waiting: deque[_Unanswered] = deque()

    def hold(self, shares: Iterable[int], epoch: int) -> list[Coordinating]:
        """These shares are this gateway's, and no others.

        Args:
            shares: All of them.
            epoch: The generation, of those that were not before.
        """
        held = {share: self._held.get(share, epoch) for share in shares}
        if held == self._held:
            return []
        self._held = held
        for group in [one for one in self._versions if coordinated_in(one) not in held]:
            del self._versions[group]
        return [Coordinating(dict(held))]

    def keep(self, shares: Iterable[int]) -> list[Coordinating]:
        """No others than these are this gateway's any more."""
        return self.hold(self._held.keys() & set(shares), 0)

    def commit(
        self, wanted: CommitOffsets, heard: int
    ) -> list[tuple[CommitKey, Commit]] | OffsetsCommitted:
        """Publish what a client commits.

        Args:
            wanted: What it wants.
            heard: The highest epoch of the group's commits that this gateway has heard of.

        Returns:
            What is published, or why nothing is.
        """
        group = wanted.group
        if self._held.get(coordinated_in(group)) != wanted.epoch:
            return OffsetsCommitted(wanted.token, ErrorCode.NOT_COORDINATOR)
        if not wanted.rows:
            return OffsetsCommitted(wanted.token, ErrorCode.NONE)
        if len(self._waiting) >= WAITING_MAX:
            return OffsetsCommitted(wanted.token, ErrorCode.COORDINATOR_NOT_AVAILABLE)
        epoch, commit_ms = self._versions.get(group, (None, 0))
        if epoch is None:
            if wanted.known is None:
                return OffsetsCommitted(wanted.token, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
            epoch = wanted.known + wanted.epoch
        if heard > epoch:
            epoch = heard + wanted.epoch
        version = CommitVersion(epoch, max(commit_ms + 1, wanted.wall_ms))
        commits = [
            (CommitKey(group, place), Commit(position, *version, metadata=metadata))
            for place, (position, metadata) in wanted.rows.items()
        ]
        try:
            end = self.publish(commits)
        except MisuseError:
            return OffsetsCommitted(wanted.token, ErrorCode.INVALID_REQUEST)
        self._remember(group, version)
        self._waiting.append(_Unanswered(end, wanted.token, group, wanted.epoch))
        return commits

    def publish(self, commits: Iterable[tuple[CommitKey, Commit]]) -> int:
        """Publish commits at the end of the turn; return where the log then ends.

        Raises:
            MisuseError: One breaks a limit; none is published.
        """
        self._records += [encode(key, commit) for key, commit in commits]
        return self._published + len(self._records)

    def flush(self) -> list[Batch]:
        """What is to be published."""
        records, self._records = self._records, []
        batches: list[Batch] = []
        while records:
            builder = BatchBuilder(BATCH_BYTES_MAX - ENVELOPE_BYTES)
            for key, value in records:
                if not builder.append(NO_TIME_MS, key, value, ()):
                    break
            content = enclosed(builder.build(), self._published)
            batches.append(Batch(self.log, self._published, builder.count, content))
            self._published += builder.count
            records = records[builder.count :]
        return batches

    def stored(self, end: int, *, leased: bool) -> list[OffsetsCommitted]:
        """Enough stores have the log up to an end.

        Args:
            end: Behind the last record.
            leased: Whether what was this gateway's still is.
        """
        answers = []
        while self._waiting and self._waiting[0].end <= end:
            one = self._waiting.popleft()
            mine = leased and self._held.get(coordinated_in(one.group)) == one.epoch
            error = ErrorCode.NONE if mine else ErrorCode.NOT_COORDINATOR
            answers.append(OffsetsCommitted(one.token, error))
        return answers

    def _remember(self, group: str, version: CommitVersion) -> None:
        self._versions[group] = version
        if len(self._versions) > GROUPS_MAX:
            # It is read from the stores again, and is above itself then.
            del self._versions[next(iter(self._versions))]
