"""The offset distributor and the offset committer of one link, as one machine.

    source's stores ─CommitsRead─▶ flags? topic? ─▶ waiting, the newest of each key
                                                        │ rounds of some keys
      target: AskHeld ─▶ HeldRead ── newer there? live? ┤
      source: AskTimes ─▶ TimesRead ── when was that? ──┤
      target: AskPlaces ─▶ PlacesRead ── where is that? ┤
      target: Write ─▶ Written ─────────────────────────┘

It keeps nothing on disk. What it has forgotten it learns again from both ends' tables, and a commit
that is written twice counts once: of two for a key the newer holds, by epoch, time and cluster.
Copy flags decide as for records, so commits cannot loop either. One request is under way at a
time. Source: Axual distribution model, "Distributing offsets".
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from dafka.limits import POSITIONS_MAX
from distributor.offsets.events import (
    AskHeld,
    AskPlaces,
    AskTimes,
    Brought,
    CommitsRead,
    HeldRead,
    OffsetsEffect,
    OffsetsEvent,
    PassedOver,
    PlaceAt,
    PlacesRead,
    RecordAt,
    TimesRead,
    Unanswered,
    Write,
    Written,
)
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
    from collections.abc import Callable

    from dafka.groups.commit import Commit, CommitKey
    from topology.model import OffsetSettings

ROUND_MAX = 1_000
"""Keys that one round looks at: an answer of a second, not of minutes."""


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
    lacking_ms: int | None
    reason: SkipReason | None = None


@dataclass(slots=True)
class _Round:
    """Keys that are looked at together.

    Attributes:
        taken: Their commits, as the source has them.
        commits: Those still to be brought, as they are to arrive.
        held: What the target holds of them, if that is not beyond: see `advanced`.
    """

    taken: dict[CommitKey, Commit]
    commits: dict[CommitKey, Commit]
    held: dict[CommitKey, Commit]


class OffsetsMachine:
    """The positions of one link.

    Args:
        level: Of the tree, that the link crosses.
        source: Number of the source cluster.
        target: Number of the target cluster.
        offsets: How to translate.
        wants: Whether a topic is copied.
    """

    def __init__(
        self,
        *,
        level: int,
        source: int,
        target: int,
        offsets: OffsetSettings,
        wants: Callable[[str], bool],
    ) -> None:
        self._level = level
        self._source = source
        self._target = target
        self._offsets = offsets
        self._wants = wants
        self._followed: dict[CommitKey, _Followed] = {}
        self._waiting: dict[CommitKey, None] = {}
        """Keys of which the target lacks something; those not looked at for longest come first."""
        self._round: _Round | None = None

    def handle(self, event: OffsetsEvent) -> list[OffsetsEffect]:
        """Take one event in."""
        match event:
            case CommitsRead():
                return self._read(event)
            case HeldRead():
                return self._held(event)
            case TimesRead():
                return self._timed(event)
            case PlacesRead():
                return self._placed(event)
            case Written():
                return self._written()
            case Unanswered():
                self._round = None
                return []

    def begin(self) -> list[OffsetsEffect]:
        """Look at some of what waits; nothing comes of it while a round is under way."""
        if self._round is not None or not self._waiting:
            return []
        keys = [key for key, _ in zip(self._waiting, range(ROUND_MAX), strict=False)]
        for key in keys:
            # To the end: what cannot be brought now must not keep the others from it.
            del self._waiting[key]
            self._waiting[key] = None
        taken = {key: self._followed[key].commit for key in keys}
        leaving = {key: self._leaving(commit) for key, commit in taken.items()}
        self._round = _Round(taken, leaving, {})
        return [AskHeld(frozenset(key.group for key in keys))]

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

    @property
    def waiting(self) -> int:
        """How many positions the target lacks."""
        return len(self._waiting)

    def check(self) -> None:
        """Assert the invariants."""
        lacking = {key for key, one in self._followed.items() if one.lacking_ms is not None}
        assert lacking <= self._waiting.keys()
        assert self._round is None or self._round.commits.keys() <= self._followed.keys()

    def _read(self, event: CommitsRead) -> list[OffsetsEffect]:
        passed: Counter[SkipReason] = Counter()
        for key, commit in event.commits:
            known = self._followed.get(key)
            if known is not None and commit.rank() <= known.commit.rank():
                if event.whole and known.reason in (None, SkipReason.STALE):
                    self._waiting[key] = None
                continue
            reason = self._refusal(key, commit)
            if reason is not None:
                passed[reason] += 1
            if reason is not SkipReason.FULL:
                self._follow(key, commit, reason)
        return _passed(passed)

    def _refusal(self, key: CommitKey, commit: Commit) -> SkipReason | None:
        if key not in self._followed and len(self._followed) >= POSITIONS_MAX:
            return SkipReason.FULL
        if not should_forward(commit.copy_flags, self._level):
            return SkipReason.FLAGS
        return None if self._wants(key.partition.topic) else SkipReason.TOPIC

    def _follow(self, key: CommitKey, commit: Commit, reason: SkipReason | None) -> None:
        known = self._followed.get(key)
        if reason is not None:
            self._followed[key] = _Followed(commit, None, reason)
            self._waiting.pop(key, None)
        elif known is None:
            self._followed[key] = _Followed(commit, commit.commit_ms)
            self._waiting[key] = None
        else:
            known.commit, known.reason = commit, None
            if known.lacking_ms is None:
                known.lacking_ms = commit.commit_ms
            self._waiting[key] = None

    def _leaving(self, commit: Commit) -> Commit:
        """A commit under the flags and origin with which it arrives at the target."""
        return replace(
            commit,
            origin=commit.origin or self._source,
            copy_flags=with_copied(commit.copy_flags, self._level),
        )

    def _held(self, event: HeldRead) -> list[OffsetsEffect]:
        """Leave out what the target has, what is older than that, and who is alive there."""
        if self._round is None:
            return []
        passed: Counter[SkipReason] = Counter()
        for key, commit in list(self._round.commits.items()):
            held = event.commits.get(key)
            order = _order(held, commit, self._target)
            if order > 0:
                self._settle(key, SkipReason.STALE, passed)
            elif held is not None and order == 0 and self._has(key, held, commit):
                self._settle(key, None, passed)
            elif key.group in event.live:
                self._put_off(key, SkipReason.LIVE, passed)
            elif held is not None and _covers(commit, held):
                self._round.held[key] = held
        records = {
            RecordAt(key.partition, commit.position - 1)
            for key, commit in self._round.commits.items()
            if needs_time(commit, self._offsets.margin_of(key.group)) and commit.position
        }
        if records:
            return [*_passed(passed), AskTimes(frozenset(records))]
        return [*_passed(passed), *self._locate()]

    def _has(self, key: CommitKey, held: Commit, commit: Commit) -> bool:
        """Whether the target has what comes of this commit; if not known, it is worked out."""
        return _covers(held, commit) or self._followed[key].lacking_ms is None

    def _timed(self, event: TimesRead) -> list[OffsetsEffect]:
        if self._round is None:
            return []
        passed: Counter[SkipReason] = Counter()
        for key, commit in list(self._round.commits.items()):
            if not commit.position or not needs_time(commit, self._offsets.margin_of(key.group)):
                continue
            time = event.times.get(RecordAt(key.partition, commit.position - 1), Absent.AHEAD)
            if time is Absent.AHEAD:
                self._put_off(key, SkipReason.AHEAD, passed)
            elif isinstance(time, int):
                self._round.commits[key] = replace(commit, record_ms=time)
        return [*_passed(passed), *self._locate()]

    def _locate(self) -> list[OffsetsEffect]:
        assert self._round is not None
        asked = [self._place_of(key, commit) for key, commit in self._round.commits.items()]
        places = frozenset(place for place in asked if place is not None)
        return [AskPlaces(places)] if places else self._placed(PlacesRead({}))

    def _place_of(self, key: CommitKey, commit: Commit) -> PlaceAt | None:
        margin_ms = self._offsets.margin_of(key.group)
        if margin_ms is None or not commit.position or commit.record_ms is None:
            return None
        return PlaceAt(key.partition, max(0, commit.record_ms - margin_ms))

    def _placed(self, event: PlacesRead) -> list[OffsetsEffect]:
        if self._round is None:
            return []
        passed: Counter[SkipReason] = Counter()
        for key, commit in list(self._round.commits.items()):
            place = self._place_of(key, commit)
            found, end = (None, 0) if place is None else event.places.get(place, (None, 0))
            there = translated(commit, self._offsets.margin_of(key.group), found, end)
            if isinstance(there, SkipReason):
                self._put_off(key, there, passed)
                continue
            held = self._round.held.get(key)
            there = self._round.commits[key] = advanced(there, held)
            if held is not None and _order(held, there, self._target) == 0 and _covers(held, there):
                self._settle(key, None, passed)
        commits = list(self._round.commits.items())
        if not commits:
            self._round = None
            return _passed(passed)
        return [*_passed(passed), Write(commits)]

    def _written(self) -> list[OffsetsEffect]:
        if self._round is None:
            return []
        count = len(self._round.commits)
        for key in list(self._round.commits):
            self._settle(key, None, Counter())
        self._round = None
        return [Brought(count)]

    def _settle(
        self, key: CommitKey, reason: SkipReason | None, passed: Counter[SkipReason]
    ) -> None:
        """The target has it or a newer one, unless the source has had one since."""
        assert self._round is not None
        del self._round.commits[key]
        one = self._followed[key]
        if one.commit != self._round.taken[key]:
            one.lacking_ms = one.commit.commit_ms
            return
        if reason is not None and one.reason is not reason:
            passed[reason] += 1
        one.lacking_ms, one.reason = None, reason
        self._waiting.pop(key, None)

    def _put_off(self, key: CommitKey, reason: SkipReason, passed: Counter[SkipReason]) -> None:
        """Not now; counted once for a commit, however often it is tried."""
        assert self._round is not None
        del self._round.commits[key]
        one = self._followed[key]
        if one.lacking_ms is None:
            one.lacking_ms = one.commit.commit_ms
        if one.reason is not reason and one.commit == self._round.taken[key]:
            passed[reason] += 1
            one.reason = reason


def _order(held: Commit | None, commit: Commit, target: int) -> int:
    """Above 0 if what is held is newer than what comes, 0 if it is of the same commit."""
    if held is None:
        return -1
    ours, theirs = version(commit, target), version(held, target)
    return (theirs > ours) - (theirs < ours)


def _covers(one: Commit, other: Commit) -> bool:
    """Whether one position is at or behind the other, so that nothing of it is lost."""
    if one.position is None or other.position is None:
        return one.position == other.position
    return one.position >= other.position


def _passed(passed: Counter[SkipReason]) -> list[OffsetsEffect]:
    return [PassedOver(reason, count) for reason, count in passed.items()]
