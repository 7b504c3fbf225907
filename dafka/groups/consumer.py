"""A consumer that is a member of a group: which partitions it reads, from where, and its commits.

Around the machines of the consumer (`dafka.protocol.consumer`) and of the member. A partition is
begun when its generation is settled, behind what the group has committed; it is given back when a
new generation gives it to another member: the application finishes what it holds, that is
committed, and only then do the others hear of it. Commits carry the generation as their epoch.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from functools import partial
from typing import TYPE_CHECKING

from dafka.groups.assignment import owner
from dafka.groups.commit import RESTATED_MS
from dafka.groups.events import (
    Answered,
    Ask,
    AskOffsets,
    Assigned,
    Barred,
    Closing,
    Collect,
    Collected,
    CommitDone,
    CommitFailed,
    Committed,
    CommitWanted,
    Expelled,
    GroupEvent,
    Handed,
    Leave,
    Left,
    MemberEffect,
    OffsetsAnswered,
    Overdue,
    PartitionAssigned,
    PublishCommits,
    Rebalanced,
    Released,
    Revoke,
    Revoked,
    Sought,
    WallTime,
)
from dafka.groups.membership import majority_of
from dafka.protocol.effects import Deliver, Effect, PartitionFound
from dafka.protocol.events import Event, Seek, Unassigned, Woke
from dafka.protocol.machine import Lifecycle, earliest

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from dafka.groups.commit import Commit
    from dafka.groups.member import MemberMachine
    from dafka.model import Partition
    from dafka.protocol.consumer import ConsumerMachine


PATIENCE_MS = 1_000
"""How long to wait for the slower stores once a majority has answered."""

RETRY_MS = 500
"""When to ask a store again that has not answered."""


COMMIT_AGAIN_MS = 1_000
"""Wait before commits are published again that could not be."""


class Loading:
    """One reading of what a group has committed, from all stores, page by page.

    A commit is acknowledged by as many stores as block a majority, so a majority knows the last:
    that many are waited for, as the generation was, and the others for a while, unless they have
    been silent before.

    Args:
        stores: How many there are.
        token: Repeated in answers: those to another reading are not this one's.
        now_ms: The time.
        silent: The stores that have answered nothing lately.
    """

    def __init__(
        self, stores: int, token: int, now_ms: int, silent: frozenset[int] = frozenset()
    ) -> None:
        self._silent = silent
        self._token = token
        self._began_ms = now_ms
        first: tuple[Partition | None, int] = (None, now_ms)
        self._waiting = dict.fromkeys(range(stores), first)
        """Behind what each store is asked next, and when."""
        self._majority = majority_of(stores)
        self._answered = 0
        self.commits: dict[Partition, Commit] = {}
        """What holds."""

    def ask(self, now_ms: int) -> list[AskOffsets]:
        """Ask, or ask again, who has not answered."""
        due = [store for store, (_, due_ms) in self._waiting.items() if due_ms <= now_ms]
        for store in due:
            self._waiting[store] = self._waiting[store][0], now_ms + RETRY_MS
        return [AskOffsets(store, self._token, self._waiting[store][0]) for store in due]

    def answered(self, event: OffsetsAnswered, now_ms: int) -> None:
        """Take an answer in."""
        if event.token != self._token or event.store not in self._waiting:
            return
        for key, commit in event.commits:
            known = self.commits.get(key.partition)
            if known is None or commit.rank() > known.rank():
                self.commits[key.partition] = commit
        if event.more and event.commits:
            self._waiting[event.store] = event.commits[-1][0].partition, now_ms
        elif not event.in_sync:
            self._waiting[event.store] = None, now_ms + RETRY_MS  # it says so for a while only
        else:
            del self._waiting[event.store]
            self._answered += 1

    def complete(self, now_ms: int) -> bool:
        """Whether all stores have answered, or a majority has and the others take too long."""
        return not self._waiting or (self._enough and now_ms >= self._patient_ms)

    def wakeup_ms(self) -> int:
        """When to ask again, or to go on without the slow ones."""
        due_ms = min(due_ms for _, due_ms in self._waiting.values())
        return min(due_ms, self._patient_ms) if self._enough else due_ms

    @property
    def _enough(self) -> bool:
        return self._answered >= self._majority

    @property
    def _patient_ms(self) -> int:
        """Until when those that lack are waited for."""
        waits = self._waiting.keys() - self._silent
        return self._began_ms + (PATIENCE_MS if waits else 0)


GroupEffect = (
    Effect
    | Ask
    | AskOffsets
    | PartitionAssigned
    | Handed
    | Revoke
    | Collect
    | CommitDone
    | PublishCommits
    | Rebalanced
    | Expelled
    | Left
    | Overdue
    | Barred
)

_EARLIEST = 0


class GroupState(Enum):
    """How far a consumer has come with its generation; the words are those of Kafka's groups."""

    EMPTY = "empty"
    """It is in none, and owns nothing."""
    PREPARING = "preparing rebalance"
    """It gives back what is another's in this one, and waits until everybody has."""
    COMPLETING = "completing rebalance"
    """All have. It learns what the group has committed."""
    STABLE = "stable"
    """It begins with what is its own, and with what is found later."""


GROUP_STATES = {
    # There is a generation.
    GroupState.EMPTY: {GroupState.PREPARING},
    # Everybody has given back; it is expelled, or has left.
    GroupState.PREPARING: {GroupState.COMPLETING, GroupState.EMPTY},
    # The commits are known; there is another generation; it is expelled, or has left.
    GroupState.COMPLETING: {GroupState.STABLE, GroupState.PREPARING, GroupState.EMPTY},
    # There is another generation; it is expelled, or has left.
    GroupState.STABLE: {GroupState.PREPARING, GroupState.EMPTY},
}


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupSettings:
    """What a consumer in a group can be told.

    Attributes:
        stores: How many stores there are.
        latest: Whether what has no commit begins behind what there is, not at the beginning.
        auto_commit_ms: How often to commit what is processed; None: only when asked.
        hold_ms_max: How long the application may hold records that are to be given back.
    """

    stores: int
    latest: bool
    auto_commit_ms: int | None
    hold_ms_max: int


class GroupMachine:
    """One consumer in a group.

    Args:
        consumer: With `Start.ASSIGNED`: it asks for every partition's position.
        member: Its membership.
        settings: See there.
    """

    def __init__(
        self, consumer: ConsumerMachine, member: MemberMachine, settings: GroupSettings
    ) -> None:
        self._consumer = consumer
        self._member = member
        self._settings = settings
        self._latest: dict[Partition, int] = {}
        """Every partition that was found, and where it ended then."""
        member.partitions = self._latest
        self._runs: dict[Partition, int] = {}
        """What it owns and has begun with."""
        self._giving: frozenset[Partition] = frozenset()
        """What it still owns, but gives back."""
        self._published: dict[Partition, int] = {}
        """The last position that was published, of what it owns."""
        self._wall_ms = 0
        """What time it was when that was told last."""
        self._stated_ms: dict[Partition, int] = {}
        """When what holds was committed, of what it owns and of which something does."""
        self._processed: dict[Partition, int] = {}
        """How far the group has come elsewhere, where it began before that by a margin."""
        self._lifecycle = Lifecycle(GROUP_STATES)
        self._assigned: Assigned | None = None
        """Its generation; None while it is empty."""
        self._epoch = 0
        self._loading: Loading | None = None
        """Only while it completes a rebalance."""
        self._commits: Mapping[Partition, Commit] = {}
        """What the group has committed before this generation, once it is stable."""
        self._revoking: tuple[int, int] | None = None
        """Token of a `Revoke` under way, and when it is overdue."""
        self._then: dict[int, list[Callable[[int], list[GroupEffect]]]] = {}
        """What to do when commits are stored, in the order in which they were published."""
        self._failed: dict[int, tuple[Partition, ...]] = {}
        """Of the same, those that have to be published again."""
        self._again_ms: int | None = None
        """When."""
        self._auto_ms = 0
        self._collecting = False
        self._token = 0
        self._closing = False
        """Beside its state, which follows the member's until that has left: nothing more is begun
        or given back, only what was processed is still committed."""

    def handle(self, event: Event | GroupEvent, now_ms: int) -> list[GroupEffect]:
        """Take one event in; see `Machine`."""
        match event:
            case Woke():
                return self._wake(now_ms)
            case Answered():
                return self._follow(self._member.handle(event, now_ms), now_ms)
            case OffsetsAnswered():
                return self._load(event, now_ms)
            case Revoked():
                return self._revoked(event, now_ms)
            case Collected() | CommitWanted() | WallTime():
                return self._commit(event, now_ms)
            case Committed() | CommitFailed():
                return self._commit_ended(event, now_ms)
            case Sought():
                return self._seek(event, now_ms)
            case Closing():
                return self._close(event, now_ms)
            case _:
                return self._consume(event, now_ms)

    def wakeup_ms(self) -> int | None:
        """When one of its parts is due, a commit, or what the application is to give back."""
        return earliest(
            self._consumer.wakeup_ms(),
            self._member.wakeup_ms(),
            self._auto_ms if self._commits_by_itself else None,
            None if self._loading is None else self._loading.wakeup_ms(),
            None if self._revoking is None else self._revoking[1],
            self._again_ms,
        )

    def check(self) -> None:
        """Assert that of each partition one thing is true, and that what it has fits its state."""
        self._consumer.check()
        self._member.check()
        assert not self._runs.keys() & self._giving
        assert self._published.keys() == self._runs.keys() | self._giving
        assert self._revoking is None or self._giving
        state = self.state
        assert (self._assigned is None) == (state is GroupState.EMPTY)
        assert (self._loading is not None) == (state is GroupState.COMPLETING)
        assert not self._commits or state is GroupState.STABLE
        assert not self._published or state is not GroupState.EMPTY

    @property
    def state(self) -> GroupState:
        """How far it has come with its generation."""
        return self._lifecycle.state

    @property
    def generation(self) -> int:
        """The last one it has taken notice of; 0 while it is no member."""
        return self._member.generation

    @property
    def lease_ms(self) -> int | None:
        """See `MemberMachine`."""
        return self._member.lease_ms

    @property
    def lag(self) -> int:
        """Records there are behind what was delivered, in what this member owns."""
        heads = self._consumer.heads
        return sum(
            max(0, heads[one] + 1 - self._consumer.next(one)) for one in self._runs if one in heads
        )

    @property
    def _commits_by_itself(self) -> bool:
        """Whether there may be something to commit, and nothing of that is under way."""
        if self._settings.auto_commit_ms is None or self._closing:
            return False
        return bool(self._runs) and not self._collecting

    def _wake(self, now_ms: int) -> list[GroupEffect]:
        effects = self._consume(Woke(), now_ms)
        effects += self._follow(self._member.handle(Woke(), now_ms), now_ms)
        if self._loading is not None:
            effects += self._read_on(self._loading, now_ms)
        if self._revoking is not None and now_ms >= self._revoking[1]:
            self._closing = True
            effects += [Overdue(), *self._drop(now_ms)]
            effects += self._follow(self._member.handle(Leave(), now_ms), now_ms)
        if self._again_ms is not None and now_ms >= self._again_ms:
            effects += self._publish_again()
        interval_ms = self._settings.auto_commit_ms
        if interval_ms is not None and self._commits_by_itself and now_ms >= self._auto_ms:
            self._auto_ms = now_ms + interval_ms
            self._collecting = True
            effects.append(Collect())
        return effects

    def _consume(self, event: Event, now_ms: int) -> list[GroupEffect]:
        effects: list[GroupEffect] = []
        for effect in self._consumer.handle(event, now_ms):
            match effect:
                case PartitionFound(partition, latest):
                    self._latest[partition] = latest
                    effects += self._begin(partition, now_ms)
                case Deliver(batch, start):
                    effects.append(Handed(batch, start, self._runs[batch.partition]))
                case _:
                    effects.append(effect)
        return effects

    def _follow(self, happened: list[MemberEffect], now_ms: int) -> list[GroupEffect]:
        """Do what comes of a change of the membership."""
        effects: list[GroupEffect] = []
        for effect in happened:
            match effect:
                case Assigned():
                    self._lifecycle.become(GroupState.PREPARING)
                    self._assigned, self._loading, self._commits = effect, None, {}
                    effects += self._give_back(now_ms)
                case Rebalanced():
                    self._lifecycle.become(GroupState.COMPLETING)
                    self._token += 1
                    silent = self._member.silent_since(now_ms - PATIENCE_MS)
                    self._loading = Loading(self._settings.stores, self._token, now_ms, silent)
                    effects += [effect, *self._loading.ask(now_ms)]
                case Expelled():
                    effects += [effect, *self._drop(now_ms)]
                case _:
                    effects.append(effect)
        return effects

    def _give_back(self, now_ms: int) -> list[GroupEffect]:
        """Stop with what is another member's by now; then say that it is done."""
        assigned = self._assigned
        if assigned is None or self._giving or self._closing:
            return []  # once this is given back it is looked at again
        others = [one for one in self._runs if not _is_own(one, assigned)]
        if not others:
            self._epoch = assigned.generation
            return self._follow(self._member.handle(Released(assigned.generation), now_ms), now_ms)
        effects: list[GroupEffect] = []
        self._giving = frozenset(others)
        for partition in others:
            del self._runs[partition]
            effects += self._consume(Unassigned(partition), now_ms)
        self._token += 1
        self._revoking = self._token, now_ms + self._settings.hold_ms_max
        return [*effects, Revoke(self._token, self._giving)]

    def _revoked(self, event: Revoked, now_ms: int) -> list[GroupEffect]:
        if self._revoking is None or event.token != self._revoking[0]:
            return []
        self._revoking = None
        # Without auto-commit the application answers for its commits, and has had its chance.
        commits = event.positions if self._settings.auto_commit_ms is not None else {}
        return self._publish(commits, partial(self._given_back, self._giving), now_ms)

    def _given_back(self, given: frozenset[Partition], now_ms: int) -> list[GroupEffect]:
        if given is not self._giving:
            return []  # everything was lost meanwhile
        for partition in self._giving:
            del self._published[partition]
        self._giving = frozenset()
        return self._give_back(now_ms)

    def _drop(self, now_ms: int) -> list[GroupEffect]:
        """Own nothing any more."""
        effects: list[GroupEffect] = []
        for partition in self._runs:
            effects += self._consume(Unassigned(partition), now_ms)
        self._lifecycle.become(GroupState.EMPTY)
        self._runs, self._published, self._giving, self._commits = {}, {}, frozenset(), {}
        self._assigned = self._loading = self._revoking = None
        return effects

    def _load(self, event: OffsetsAnswered, now_ms: int) -> list[GroupEffect]:
        if self._loading is None:
            return []
        self._loading.answered(event, now_ms)
        return self._read_on(self._loading, now_ms)

    def _read_on(self, loading: Loading, now_ms: int) -> list[GroupEffect]:
        if not loading.complete(now_ms):
            return [*loading.ask(now_ms)]
        self._lifecycle.become(GroupState.STABLE)
        self._commits, self._loading = loading.commits, None
        effects: list[GroupEffect] = []
        for partition in list(self._latest):
            effects += self._begin(partition, now_ms)
        return effects

    def _begin(self, partition: Partition, now_ms: int) -> list[GroupEffect]:
        """Begin with a partition, if it is this member's and not begun yet."""
        assigned = self._assigned
        if assigned is None or self.state is not GroupState.STABLE or self._closing:
            return []
        if partition in self._runs or not _is_own(partition, assigned):
            return []
        commit = self._commits.get(partition)
        self._processed.pop(partition, None)
        self._stated_ms.pop(partition, None)
        if commit is not None and commit.position is not None:
            self._stated_ms[partition] = commit.commit_ms
            self._processed[partition] = commit.reached
            position = self._published[partition] = commit.position
        elif self._settings.latest:
            position = self._latest[partition]
            self._published[partition] = -1
            effects = self._run(partition, position, now_ms)
            self._auto_ms = now_ms  # it is committed at once, and holds from now on
            return effects
        else:
            position = self._published[partition] = _EARLIEST
        return self._run(partition, position, now_ms)

    def _run(self, partition: Partition, position: int, now_ms: int) -> list[GroupEffect]:
        self._token += 1
        if not self._runs:
            self._auto_ms = now_ms + (self._settings.auto_commit_ms or 0)
        self._runs[partition] = self._token
        began = PartitionAssigned(partition, self._token, position)
        return [began, *self._consume(Seek(partition, position), now_ms)]

    def _seek(self, event: Sought, now_ms: int) -> list[GroupEffect]:
        if event.partition not in self._runs:
            return []
        self._processed.pop(event.partition, None)  # whoever seeks means what he says
        return self._run(event.partition, event.position, now_ms)

    def _collected(self, event: Collected) -> list[GroupEffect]:
        def collected(_now_ms: int) -> list[GroupEffect]:
            self._collecting = False
            return []

        if self._closing:
            return []  # the last positions are on their way, and these are older
        return self._publish(event.positions, collected, 0)

    def _commit(self, event: Collected | CommitWanted | WallTime, now_ms: int) -> list[GroupEffect]:
        match event:
            case Collected():
                return self._collected(event)
            case WallTime():
                return self._restate(event.wall_ms)
            case CommitWanted(number, positions):
                lost = frozenset(positions.keys() - self._published.keys())
                return self._publish(positions, lambda _: [CommitDone(number, lost)], now_ms)

    def _publish(
        self,
        positions: Mapping[Partition, int],
        then: Callable[[int], list[GroupEffect]],
        now_ms: int,
    ) -> list[GroupEffect]:
        """Publish what is new of `positions`; `then` when all of them are stored."""
        news = {
            partition: position
            for partition, position in positions.items()
            if self._published.get(partition, position) != position
        }
        if not news:
            if not self._then:
                return then(now_ms)
            self._then[max(self._then)].append(then)  # they may be on their way
            return []
        self._published.update(news)
        self._stated_ms.update(dict.fromkeys(news, self._wall_ms))
        self._token += 1
        self._then[self._token] = [then]
        return [self._commits_of(self._token, news)]

    def _restate(self, wall_ms: int) -> list[GroupEffect]:
        """Commit again what was committed long ago."""
        self._wall_ms = wall_ms
        old = {
            partition: self._published[partition]
            for partition in self._runs
            if self._stated_ms.get(partition, wall_ms) <= wall_ms - RESTATED_MS
        }
        if not old or self._closing:
            return []
        self._stated_ms.update(dict.fromkeys(old, wall_ms))
        self._token += 1
        self._then[self._token] = []
        return [self._commits_of(self._token, old)]

    def _commits_of(self, token: int, positions: Mapping[Partition, int]) -> PublishCommits:
        further = {
            partition: processed
            for partition, position in positions.items()
            if (processed := self._processed.get(partition, 0)) > position
        }
        return PublishCommits(token, self._epoch, positions, further)

    def _commit_ended(self, event: Committed | CommitFailed, now_ms: int) -> list[GroupEffect]:
        if isinstance(event, Committed):
            return [one for then in self._then.pop(event.token) for one in then(now_ms)]
        self._failed[event.commits.token] = tuple(event.commits.positions)
        self._again_ms = now_ms + COMMIT_AGAIN_MS
        return []

    def _publish_again(self) -> list[GroupEffect]:
        """Publish what could not be; where it has come further meanwhile, that.

        Of what is others' by now nothing: who waits for it is told by its own time.
        """
        failed, self._failed, self._again_ms = self._failed, {}, None
        effects: list[GroupEffect] = []
        for token, partitions in failed.items():
            news = {one: self._published[one] for one in partitions if one in self._published}
            if news:
                effects.append(self._commits_of(token, news))
            else:
                self._then.pop(token, None)
                self._collecting = False
        return effects

    def _close(self, event: Closing, now_ms: int) -> list[GroupEffect]:
        self._closing = True

        def leave(now_ms: int) -> list[GroupEffect]:
            return self._drop(now_ms) + self._follow(self._member.handle(Leave(), now_ms), now_ms)

        return self._publish(event.positions, leave, now_ms)


def _is_own(partition: Partition, assigned: Assigned) -> bool:
    return owner(partition, assigned.members, assigned.moved) == assigned.member
