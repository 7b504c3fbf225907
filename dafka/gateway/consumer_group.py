"""The coordinator of one group of KIP-848, where the coordinator assigns and nobody stops for it.

Members say in each heartbeat what they have. The coordinator knows what each should have, its
target. A member gives up what is not in its target first, then it is in the new epoch; what it
lacks it gets when its holder has given it up. Nothing of it is on disk, as in `coordinator.py`.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from dafka.gateway.assignors import ASSIGNORS, UNIFORM
from dafka.gateway.broker import ErrorCode, KafkaPartition
from dafka.gateway.group_events import (
    JOINS,
    LEAVES,
    NO_GENERATION,
    PAUSES,
    ConsumerAnswer,
    ConsumerHeard,
    DescribedMember,
    GroupAnswer,
    GroupIdentity,
    JoinGroup,
    MemberHeard,
)
from dafka.protocol.events import Woke
from dafka.protocol.machine import earliest

if TYPE_CHECKING:
    from collections.abc import Callable

    from dafka.gateway.coordinator import CoordinatorSettings
    from dafka.gateway.group_events import CoordinatorEffect, CoordinatorEvent

_PLAIN_BYTES = 1_000
"""What a member takes beside what it says."""

_PARTITION_BYTES = 200
"""What a partition takes that a member has, and should have."""

EMPTY, RECONCILING, STABLE = "Empty", "Reconciling", "Stable"
"""States, as Kafka's tools show them."""


@dataclass(slots=True)
class AssignedMember:
    """A member.

    Attributes:
        who: Its id, and its name if it is static.
        client: The client's name for itself, and where it is.
        said: Bytes of what it has told.
        rebalance_ms: How long it may take to give something up.
        expires_ms: When it is taken for dead.
        named: The topics that it wants by name.
        pattern: Of others that it wants; empty for none.
        topics: All that it wants.
        assignor: The one it prefers.
        epoch: Of the group, as far as it follows.
        before: The epoch that it had before, in case an answer was lost.
        away: Whether it is static, and has said that it comes back.
        has: What it was given and has not given up.
        target: What it should have.
        told: What it was told last.
        gives_up_ms: Until when it has to have given up the rest.
    """

    who: GroupIdentity
    client: tuple[str, str]
    expires_ms: int
    said: int = 0
    rebalance_ms: int = 0
    named: frozenset[str] = frozenset()
    pattern: str = ""
    topics: frozenset[str] = frozenset()
    assignor: str | None = None
    epoch: int = 0
    before: int = 0
    away: bool = False
    has: set[KafkaPartition] = field(default_factory=set)
    target: frozenset[KafkaPartition] = frozenset()
    told: frozenset[KafkaPartition] | None = None
    gives_up_ms: int | None = None


class ConsumerGroupMachine:
    """One group.

    Args:
        settings: See there.
        partitions_of: How many partitions a topic has now; 0 if there is none.
    """

    kind = "consumer"

    def __init__(self, settings: CoordinatorSettings, partitions_of: Callable[[str], int]) -> None:
        self._settings, self._partitions_of = settings, partitions_of
        self.epoch = 0
        """Rises when members or topics come, go or change."""
        self.assignor = UNIFORM
        self.members: dict[str, AssignedMember] = {}
        self._instances: dict[str, str] = {}
        """The ids of static members, by their names."""
        self._holders: dict[KafkaPartition, str] = {}
        """Who has a partition and has not given it up."""
        self._counts: dict[str, int] = {}
        """How many partitions topics had when targets were made."""

    @property
    def is_empty(self) -> bool:
        """Whether it has no members."""
        return not self.members

    @property
    def idle(self) -> bool:
        """Whether nobody would miss it."""
        return self.is_empty

    @property
    def size(self) -> int:
        """Bytes that it holds."""
        held = sum(one.said + _PARTITION_BYTES * len(one.target) for one in self.members.values())
        return held + _PLAIN_BYTES * len(self.members)

    def said_by(self, member: str) -> int:
        """Bytes of what a member has told; 0 if there is none of this id."""
        known = self.members.get(member)
        return 0 if known is None else known.said

    @property
    def state(self) -> str:
        """How far members follow."""
        if not self.members:
            return EMPTY
        follow = all(one.has == one.target for one in self.members.values())
        return STABLE if follow else RECONCILING

    def handle(self, event: CoordinatorEvent, now_ms: int) -> list[CoordinatorEffect]:
        """Take one event in; see `Machine`."""
        self._expire(now_ms)
        match event:
            case Woke():
                return []
            case ConsumerHeard():
                return [self._heard(event, now_ms)]
            case MemberHeard():
                return [GroupAnswer(event.token, self._commits(event))]
            case JoinGroup():
                return [event.refused(ErrorCode.INCONSISTENT_GROUP_PROTOCOL)]
            case _:
                return [event.refused(ErrorCode.UNKNOWN_MEMBER_ID)]

    def wakeup_ms(self) -> int | None:
        """When somebody has been silent for long enough, or has not given up what it has to."""
        members = self.members.values()
        return earliest(*(earliest(one.expires_ms, one.gives_up_ms) for one in members))

    def describe(self) -> tuple[str, str, list[DescribedMember]]:
        """Return kind, assignor and members; what they want has a form of its own here."""
        members = [DescribedMember(one.who, one.client, b"", b"") for one in self.members.values()]
        return self.kind, self.assignor, members

    def check(self) -> None:
        """Assert that nobody has what another has, and that targets do not overlap."""
        held = [(partition, name) for name, one in self.members.items() for partition in one.has]
        assert dict(held) == self._holders
        assert len(held) == len(self._holders)
        targets = [partition for one in self.members.values() for partition in one.target]
        assert len(targets) == len(set(targets))
        named = {one.who.instance: name for name, one in self.members.items() if one.who.instance}
        assert named == self._instances

    def _heard(self, event: ConsumerHeard, now_ms: int) -> ConsumerAnswer:
        if event.size > self._settings.member_bytes_max:
            return event.refused(ErrorCode.INVALID_REQUEST)
        if event.epoch == JOINS:
            unfit = self._unfit(event)
            if unfit is not ErrorCode.NONE:
                return event.refused(unfit)
            self._enter(event, now_ms)
        error = self._stranger(event.who)
        if error is not ErrorCode.NONE:
            return event.refused(error)
        member = self.members[event.who.member]
        if event.epoch == LEAVES or (event.epoch == PAUSES and member.who.instance is None):
            self._remove(member)
            self._regroup()
            return ConsumerAnswer(event.token, ErrorCode.NONE, event.who.member, event.epoch)
        if event.epoch == PAUSES:
            member.away = True
            return ConsumerAnswer(event.token, ErrorCode.NONE, event.who.member, event.epoch)
        if event.epoch != JOINS and not _follows(member, event):
            return event.refused(ErrorCode.FENCED_MEMBER_EPOCH)
        if event.assignor is not None and event.assignor not in ASSIGNORS:
            return event.refused(ErrorCode.UNSUPPORTED_ASSIGNOR)
        member.expires_ms = now_ms + self._settings.consumer_session_ms
        self._take(member, event)
        self._reconcile(member, event.owned, now_ms)
        return self._answer(member, event)

    def _unfit(self, event: ConsumerHeard) -> ErrorCode:
        """Why it cannot be a member; it has to say all that it wants."""
        name, instance = event.who
        if event.topics is None or event.owned != frozenset() or event.rebalance_ms < 0 or not name:
            return ErrorCode.INVALID_REQUEST
        if instance == "":
            return ErrorCode.INVALID_REQUEST
        if event.assignor is not None and event.assignor not in ASSIGNORS:
            return ErrorCode.UNSUPPORTED_ASSIGNOR
        namesake = self._namesake(instance)
        if namesake is not None and not namesake.away and namesake.who.member != name:
            return ErrorCode.UNRELEASED_INSTANCE_ID
        there = namesake is not None or name in self.members
        if not there and len(self.members) >= self._settings.members_max:
            return ErrorCode.GROUP_MAX_SIZE_REACHED
        return ErrorCode.NONE

    def _namesake(self, instance: str | None) -> AssignedMember | None:
        """The static member of a name."""
        return None if instance is None else self.members.get(self._instances.get(instance, ""))

    def _enter(self, event: ConsumerHeard, now_ms: int) -> None:
        """Somebody joins, or begins anew."""
        name, instance = event.who
        namesake, old = self._namesake(instance), self.members.get(name)
        if old is not None:
            self._remove(old)
        if namesake is not None and namesake is not old:
            self._remove(namesake)
        member = AssignedMember(event.who, event.client, now_ms)
        member.named = event.topics or frozenset()
        member.topics = member.named | event.matched
        self.members[name] = member
        if instance is not None:
            self._instances[instance] = name
        back = namesake if namesake is not None and namesake.away else None
        if back is not None:  # to what was kept for it
            member.topics, member.assignor = back.topics, back.assignor
            member.target, member.has = back.target, back.has & back.target
            self._holders |= dict.fromkeys(member.has, name)
        if back is None or old not in (None, back):
            self._regroup()

    def _stranger(self, who: GroupIdentity) -> ErrorCode:
        """Why it is none of the members; `NONE` if it is one."""
        if who.instance is not None:
            known = self._instances.get(who.instance)
            if known is not None and known != who.member:
                return ErrorCode.FENCED_INSTANCE_ID
        member = self.members.get(who.member)
        if member is None or who.instance not in (None, member.who.instance):
            return ErrorCode.UNKNOWN_MEMBER_ID
        return ErrorCode.NONE

    def _take(self, member: AssignedMember, event: ConsumerHeard) -> None:
        """Take in what it wants; if that is new, everybody's target is made anew."""
        if event.rebalance_ms >= 0:
            member.rebalance_ms = event.rebalance_ms
        member.said = max(member.said, event.size)
        if event.topics is not None:
            member.named = event.topics
        if event.pattern is not None:
            member.pattern = event.pattern
        topics = member.named | event.matched
        assignor = member.assignor if event.assignor is None else event.assignor
        changed = (topics, assignor) != (member.topics, member.assignor)
        member.topics, member.assignor = topics, assignor
        grown = any(self._counts.get(name) != self._partitions_of(name) for name in topics)
        if changed or grown:
            self._regroup()

    def _regroup(self) -> None:
        """Begin another epoch, and say who should have what."""
        self.epoch += 1
        wanted = {name: one.topics for name, one in self.members.items()}
        topics = sorted(frozenset[str]().union(*wanted.values()))
        self._counts = {name: self._partitions_of(name) for name in topics}
        votes = [one.assignor for one in self.members.values() if one.assignor is not None]
        self.assignor = max(sorted(set(votes)), key=votes.count, default=UNIFORM)
        before = {name: one.target for name, one in self.members.items()}
        targets = ASSIGNORS[self.assignor](wanted, self._counts, before)
        for name, one in self.members.items():
            one.target = targets[name]

    def _reconcile(
        self, member: AssignedMember, owned: frozenset[KafkaPartition] | None, now_ms: int
    ) -> None:
        """Let it give up what is not its own any more, and then take what is free."""
        if owned is not None:
            for partition in member.has - member.target - owned:
                self._release(member, partition)
        if member.has - member.target:
            if member.gives_up_ms is None:
                member.gives_up_ms = now_ms + member.rebalance_ms
            return
        member.gives_up_ms = None
        if member.epoch != self.epoch:
            member.before, member.epoch = member.epoch, self.epoch
        for partition in member.target - member.has:
            if partition not in self._holders:
                self._holders[partition] = member.who.member
                member.has.add(partition)

    def _answer(self, member: AssignedMember, event: ConsumerHeard) -> ConsumerAnswer:
        told = member.target & member.has
        # Who says what it has may have missed an answer.
        news = told != member.told or event.owned is not None
        member.told = told
        return ConsumerAnswer(
            event.token,
            ErrorCode.NONE,
            member.who.member,
            member.epoch,
            self._settings.consumer_heartbeat_ms,
            told if news else None,
        )

    def _commits(self, event: MemberHeard) -> ErrorCode:
        if event.who == GroupIdentity("") and event.generation == NO_GENERATION:
            return ErrorCode.NONE if self.is_empty else ErrorCode.UNKNOWN_MEMBER_ID
        error = self._stranger(event.who)
        if error is ErrorCode.NONE and event.generation != self.members[event.who.member].epoch:
            return ErrorCode.STALE_MEMBER_EPOCH
        return error

    def _release(self, member: AssignedMember, partition: KafkaPartition) -> None:
        member.has.discard(partition)
        del self._holders[partition]

    def _remove(self, member: AssignedMember) -> None:
        for partition in member.has:
            del self._holders[partition]
        del self.members[member.who.member]
        if member.who.instance is not None:
            del self._instances[member.who.instance]

    def _expire(self, now_ms: int) -> None:
        late = [
            one
            for one in self.members.values()
            if one.expires_ms <= now_ms
            or (one.gives_up_ms is not None and one.gives_up_ms <= now_ms)
        ]
        for one in late:
            self._remove(one)
        if late:
            self._regroup()


def _follows(member: AssignedMember, event: ConsumerHeard) -> bool:
    """Whether it is in the epoch that it should be in, or has missed the answer with the last."""
    missed = event.epoch == member.before and event.owned is not None and event.owned <= member.has
    return not member.away and (event.epoch == member.epoch or missed)
