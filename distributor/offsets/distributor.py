"""The offset distributor and the offset committer of one link: rounds between two clusters.

    source ── commits that are new ─▶ flags? topic? ─▶ waiting, the newest of each key
                                                          │ rounds of some keys
      target: what does it hold? who is alive there? ─────┤
      source: when was the last record processed? ────────┤
      target: where is that time? ────────────────────────┤
      target: commit ─────────────────────────────────────┘

It keeps nothing on disk. What it has forgotten it learns again from both ends' tables, and a commit
that is written twice counts once: of two for a key the newer holds, by epoch, time and cluster.
Copy flags decide as for records, so commits cannot loop either. Source: Axual distribution model,
"Distributing offsets".
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field, replace
from itertools import islice
from typing import TYPE_CHECKING

from dafka.errors import QueryError
from dafka.groups.commit_reader import CommitReader, committed
from dafka.limits import POSITIONS_MAX
from distributor.offsets.reading import places, times
from distributor.offsets.translation import (
    Absent,
    SkipReason,
    advanced,
    needs_time,
    translated,
    version,
)
from topology.copyflags import should_forward, with_copied

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from dafka.groups.commit import Commit, CommitKey
    from distributor.offsets.reading import OffsetsCluster, Place
    from topology.model import OffsetSettings

ROUND_MAX = 1_000
"""Keys that one round looks at: an answer of a second, not of minutes."""

TELL_INTERVAL_MS = 2_000
"""How often the target's stores are asked whether they were started again."""

_WAITING = {SkipReason.LIVE, SkipReason.AHEAD, SkipReason.BEHIND}


@dataclass(slots=True)
class OffsetsRound:
    """What one round has done.

    Attributes:
        brought: Commits that are durable at the target.
        skipped: Commits that are not brought there, or not now; each once for a reason.
        error: Why it has ended early; empty if it has not.
    """

    brought: int = 0
    skipped: Counter[SkipReason] = field(default_factory=Counter)
    error: str = ""


@dataclass(slots=True)
class _Followed:
    """A position, as the source has it.

    Attributes:
        commit: The newest that was seen.
        lacking_ms: Since when (wall time) the target lacks it or an older one; None: it had it when
            it was last asked.
        reason: Why it was not brought there, the last time it was tried.
    """

    commit: Commit
    lacking_ms: int | None = None
    reason: SkipReason | None = None


class OffsetsDistributor:
    """The positions of one link.

    Args:
        level: Of the tree, that the link crosses.
        source: Where they come from.
        target: Where they are brought.
        offsets: How to translate.
        wants: Whether a topic is copied.
        round_max: Keys that one round looks at.
        positions_max: How many are followed; more are counted as `full`.
    """

    def __init__(
        self,
        *,
        level: int,
        source: OffsetsCluster,
        target: OffsetsCluster,
        offsets: OffsetSettings,
        wants: Callable[[str], bool],
        round_max: int = ROUND_MAX,
        positions_max: int = POSITIONS_MAX,
    ) -> None:
        self._level = level
        self._source = source
        self._target = target
        self._offsets = offsets
        self._wants = wants
        self._round_max = round_max
        self._positions_max = positions_max
        self._reader = CommitReader(source)
        self._followed: dict[CommitKey, _Followed] = {}
        self._waiting: dict[CommitKey, None] = {}
        """Keys of which the target lacks something; those not looked at for longest come first."""
        self._suspects: dict[CommitKey, None] = {}
        """Some of them, likewise: of what was asked with them something was not answered."""
        self._suspects_max = round_max
        """How many are tried at once: by halves down to one that keeps back itself alone."""
        self._name = f"{source.number} at level {level}"
        self._tell_due_ms = 0
        self._renewed = True
        """All is looked at again, and stores of the target do not know yet that it is in sync."""
        self._awaited = False
        """Members of groups wait there for links, this or others, so who is alive has not begun."""
        self._done = OffsetsRound()

    def round(self, now_ms: int) -> OffsetsRound:
        """Read what is new at the source, and bring some of what waits."""
        self._done = OffsetsRound()
        try:
            self._ask(now_ms)
            self._read(now_ms)
            trusted = (key for key in self._waiting if key not in self._suspects)
            self._try(list(islice(trusted, self._round_max)))
            self._try_suspects()
            self._tell()
        except QueryError as error:
            self._done.error = str(error)
            # Another store may have other commits in another order: it is read from the beginning.
            self._reader = CommitReader(self._source)
            self._renewed = True
            self._source.turn_away()
            self._target.turn_away()
        return self._done

    def ages(self, wall_ms: int) -> dict[str, int]:
        """For how long the target has lacked the oldest position of each group, in milliseconds.

        Groups of which it lacks none, or that are alive there, have 0.
        """
        ages = dict.fromkeys({key.group for key in self._followed}, 0)
        for key in self._waiting:
            one = self._followed[key]
            if one.lacking_ms is not None and one.reason is not SkipReason.LIVE:
                ages[key.group] = max(ages[key.group], wall_ms - one.lacking_ms)
        return ages

    def check(self) -> None:
        """Assert the invariants."""
        lacking = {key for key, one in self._followed.items() if one.lacking_ms is not None}
        assert lacking <= self._waiting.keys() <= self._followed.keys()
        assert self._suspects.keys() <= self._waiting.keys()

    def _read(self, now_ms: int) -> None:
        commits, whole = self._reader.read(now_ms)
        for key, commit in commits:
            known = self._followed.get(key)
            if known is None or commit.rank() > known.commit.rank():
                self._follow(key, commit)
            elif whole and known.reason in (None, SkipReason.STALE):
                # The target may have lost what it had.
                self._waiting[key] = None

    def _follow(self, key: CommitKey, commit: Commit) -> None:
        if key not in self._followed and len(self._followed) >= self._positions_max:
            self._done.skipped[SkipReason.FULL] += 1
            return
        one = self._followed.setdefault(key, _Followed(commit))
        one.commit, one.reason = commit, None
        if not should_forward(commit.copy_flags, self._level):
            self._note(key, SkipReason.FLAGS)
        elif not self._wants(key.partition.topic):
            self._note(key, SkipReason.TOPIC)
        else:
            one.lacking_ms = commit.commit_ms if one.lacking_ms is None else one.lacking_ms
            self._waiting[key] = None

    def _try_suspects(self) -> None:
        keys = list(islice(self._suspects, self._suspects_max))
        self._suspects_max = max(1, len(keys) // 2)
        self._try(keys)
        self._suspects_max = min(2 * len(keys), self._round_max) if keys else self._round_max

    def _try(self, keys: Sequence[CommitKey]) -> None:
        """Bring what can be; all are suspects until everything about them has been answered."""
        for key in keys:
            # To the end: what cannot be brought now must not keep the others from it.
            for where in (self._waiting, self._suspects):
                where.pop(key, None)
                where[key] = None
        if keys:
            self._bring(self._arriving(keys))
        for key in keys:
            self._suspects.pop(key, None)

    def _bring(self, coming: Mapping[CommitKey, Commit]) -> None:
        groups = frozenset(key.group for key in coming)
        held = committed(self._target, groups)
        live = frozenset(
            group for group in groups if not self._awaited and self._target.is_live(group)
        )
        coming = self._lacking(coming, held, live)
        coming = self._timed(coming)
        coming = self._translated(coming, held)
        if coming:
            self._target.write(list(coming.items()))
            self._done.brought += len(coming)
            for key in coming:
                self._note(key)

    def _ask(self, now_ms: int) -> None:
        """See whether a store of the target was started again: it may have lost what it had."""
        if not self._renewed and now_ms < self._tell_due_ms:
            return
        self._tell_due_ms = now_ms + TELL_INTERVAL_MS
        standing = self._target.tell_link(self._name, in_sync=False)
        self._awaited = standing.awaited
        if not standing.known and not self._renewed:
            self._renewed = True
            self._reader.renew()
            for key in self._waiting:
                self._followed[key].reason = None

    def _tell(self) -> None:
        """Tell the target's stores once everything has been brought that can be."""
        if self._renewed and all(self._followed[key].reason in _WAITING for key in self._waiting):
            self._awaited = self._target.tell_link(self._name, in_sync=True).awaited
            self._renewed = False

    def _arriving(self, keys: Iterable[CommitKey]) -> dict[CommitKey, Commit]:
        """What waits, under the flags and origin with which it arrives at the target."""
        commits = ((key, self._followed[key].commit) for key in keys)
        return {
            key: replace(
                commit,
                origin=commit.origin or self._source.number,
                copy_flags=with_copied(commit.copy_flags, self._level),
            )
            for key, commit in commits
        }

    def _lacking(
        self,
        coming: Mapping[CommitKey, Commit],
        held: Mapping[CommitKey, Commit],
        live: frozenset[str],
    ) -> dict[CommitKey, Commit]:
        """Leave out what the target has, what is older than that, and who is alive there."""
        lacking = {}
        for key, commit in coming.items():
            there = held.get(key)
            order = self._order(there, commit)
            if order > 0:
                self._note(key, SkipReason.STALE)
            elif there is not None and order == 0 and self._has(key, there, commit):
                self._note(key)
            elif key.group in live:
                self._note(key, SkipReason.LIVE)
            else:
                lacking[key] = commit
        return lacking

    def _has(self, key: CommitKey, held: Commit, commit: Commit) -> bool:
        """Whether the target has what comes of this commit; if not known, it is worked out."""
        return _covers(held, commit) or self._followed[key].lacking_ms is None

    def _timed(self, coming: Mapping[CommitKey, Commit]) -> dict[CommitKey, Commit]:
        """Add the time of the last record processed, where it counts and is not known."""
        processed: dict[CommitKey, Place] = {
            key: (key.partition, commit.position - 1)
            for key, commit in coming.items()
            if commit.position and needs_time(commit, self._offsets.margin_of(key.group))
        }
        found = times(self._source, dict.fromkeys(processed.values()))
        timed = dict(coming)
        for key, record in processed.items():
            time = found[record]
            if time is Absent.AHEAD:
                self._note(key, SkipReason.AHEAD)
                del timed[key]
            elif isinstance(time, int):
                timed[key] = replace(timed[key], record_ms=time)
        return timed

    def _translated(
        self, coming: Mapping[CommitKey, Commit], held: Mapping[CommitKey, Commit]
    ) -> dict[CommitKey, Commit]:
        """What to commit at the target."""
        margins = {key: self._offsets.margin_of(key.group) for key in coming}
        wanted: dict[CommitKey, Place] = {}
        for key, commit in coming.items():
            margin_ms = margins[key]
            if margin_ms is not None and commit.position and commit.record_ms is not None:
                wanted[key] = key.partition, max(0, commit.record_ms - margin_ms)
        found = places(self._target, dict.fromkeys(wanted.values()))
        arriving = {}
        for key, commit in coming.items():
            first, end = found[wanted[key]] if key in wanted else (None, 0)
            margin_records = self._offsets.margin_records
            there = translated(commit, margins[key], margin_records, first, end)
            if isinstance(there, SkipReason):
                self._note(key, there)
                continue
            known = held.get(key)
            there = advanced(there, known)
            if known and self._order(known, there) == 0 and _covers(known, there):
                self._note(key)
            else:
                arriving[key] = there
        return arriving

    def _order(self, held: Commit | None, commit: Commit) -> int:
        """Above 0 if what is held is newer than what comes, 0 if it is of the same commit."""
        if held is None:
            return -1
        number = self._target.number
        ours, theirs = version(commit, number), version(held, number)
        return (theirs > ours) - (theirs < ours)

    def _note(self, key: CommitKey, reason: SkipReason | None = None) -> None:
        """The target has it, or why not: counted once, however often it is tried."""
        one = self._followed[key]
        if reason is not None and one.reason is not reason:
            self._done.skipped[reason] += 1
        one.reason = reason
        if reason not in _WAITING:
            one.lacking_ms = None
            self._waiting.pop(key, None)
            self._suspects.pop(key, None)
        elif one.lacking_ms is None:
            one.lacking_ms = one.commit.commit_ms


def _covers(one: Commit, other: Commit) -> bool:
    """Whether one position is at or behind the other, so that nothing of it is lost."""
    if one.position is None or other.position is None:
        return one.position == other.position
    return one.position >= other.position
