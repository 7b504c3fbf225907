"""The coordinator of one Kafka group: who its members are, and that all of them agree on it.

Members join, the coordinator makes a generation of those who have, its leader assigns partitions,
and everybody gets his part from the coordinator. Nothing of it is on disk: a coordinator that takes
over knows nobody, so clients join again, and go on from what is committed.

Source: KIP-62 (session and rebalance times), KIP-345 (static members), KIP-394 (a new member asks
twice).
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING

from dafka.gateway.broker import ErrorCode
from dafka.gateway.group_events import (
    NO_GENERATION,
    ConsumerHeard,
    DescribedMember,
    GroupAnswer,
    GroupIdentity,
    JoinAnswer,
    JoinGroup,
    LeaveAnswer,
    LeaveGroup,
    MemberHeard,
    SyncAnswer,
    SyncGroup,
)
from dafka.gateway.subscription import CONSUMERS, subscribed_topics
from dafka.limits import COORDINATED_BYTES_MAX, MEMBER_BYTES_MAX
from dafka.protocol.events import Woke
from dafka.protocol.machine import Lifecycle, earliest

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from dafka.gateway.group_events import CoordinatorEffect, CoordinatorEvent


class KafkaGroupState(Enum):
    """How far a generation has come; the names are those that Kafka's tools show."""

    EMPTY = "Empty"
    """Nobody is a member; commits are taken from anybody."""
    PREPARING = "PreparingRebalance"
    """Members are waited for, until all have asked to join."""
    COMPLETING = "CompletingRebalance"
    """There is a generation; its leader is waited for, who assigns."""
    STABLE = "Stable"
    """Everybody has got, or can get, his assignment."""


KAFKA_GROUP_STATES = {
    # Somebody joins.
    KafkaGroupState.EMPTY: {KafkaGroupState.PREPARING},
    # All have joined, or the others were waited for long enough; or nobody is left.
    KafkaGroupState.PREPARING: {KafkaGroupState.COMPLETING, KafkaGroupState.EMPTY},
    # The leader has assigned; or somebody comes, goes or changes its mind.
    KafkaGroupState.COMPLETING: {KafkaGroupState.STABLE, KafkaGroupState.PREPARING},
    KafkaGroupState.STABLE: {KafkaGroupState.PREPARING},
}


@dataclass(frozen=True, slots=True, kw_only=True)
class CoordinatorSettings:
    """What a coordinator can be told.

    Attributes:
        initial_delay_ms: How long an empty group waits for more than its first member, so that
            those that start together do not rebalance one by one.
        session_ms_min: Shortest session a client may ask for.
        session_ms_max: Longest.
        members_max: How many one group takes.
        protocols_max: How many protocols one member may name.
        member_bytes_max: What one member may tell the others.
        bytes_max: What all groups of a gateway hold together.
        consumer_session_ms: After so much silence a member is taken for dead, where the coordinator
            assigns (`consumer_group.py`).
        consumer_heartbeat_ms: How often such members are told to be heard.
    """

    initial_delay_ms: int = 500
    session_ms_min: int = 1_000
    session_ms_max: int = 1_800_000
    members_max: int = 1_000
    protocols_max: int = 100
    member_bytes_max: int = MEMBER_BYTES_MAX
    bytes_max: int = COORDINATED_BYTES_MAX
    consumer_session_ms: int = 45_000
    consumer_heartbeat_ms: int = 5_000


COORDINATOR_SETTINGS = CoordinatorSettings()

_PLAIN_BYTES = 1_000
"""What a member takes beside what it says, some of it in the group's tables."""


@dataclass(slots=True)
class _Member:
    who: GroupIdentity
    client: tuple[str, str]
    session_ms: int
    rebalance_ms: int
    protocols: Mapping[str, bytes]
    expires_ms: int
    said: int = 0
    """Bytes of what it has told."""
    joins: int | None = None
    """The token of a `JoinGroup` that is not answered yet."""
    syncs: int | None = None
    """The same of a `SyncGroup`."""
    assignment: bytes = b""

    @property
    def waits(self) -> bool:
        """Whether the coordinator owes it an answer, so that it need not be heard."""
        return self.joins is not None or self.syncs is not None


class CoordinatorMachine:
    """One group.

    Args:
        settings: See there.
    """

    def __init__(self, settings: CoordinatorSettings) -> None:
        self._settings = settings
        self._lifecycle = Lifecycle(KAFKA_GROUP_STATES)
        self.generation = 0
        """The number of the last one."""
        self.kind = ""
        self._protocol = ""
        self._leader = ""
        self._members: dict[str, _Member] = {}
        self._instances: dict[str, str] = {}
        """The ids of static members, by their names."""
        self._invited: dict[str, int] = {}
        """Ids of new members that have to ask again, and until when."""
        self._due_ms: int | None = None
        """Until when members are waited for: to join, or to ask for their assignment."""
        self._gathering = False
        """Whether others than those that are known are waited for."""
        self._wakeup_ms: int | None = None
        """Until when nothing is due. Who is heard is due later: that alone is not looked at, for of
        a thousand members it would be a thousand looks each time."""

    @property
    def state(self) -> KafkaGroupState:
        """How far it has come."""
        return self._lifecycle.state

    @property
    def idle(self) -> bool:
        """Whether nobody would miss it."""
        return self.is_empty and not self._invited

    @property
    def is_empty(self) -> bool:
        """Whether it has no members."""
        return self.state is KafkaGroupState.EMPTY

    @property
    def size(self) -> int:
        """Bytes that it holds."""
        held = sum(one.said + len(one.assignment) for one in self._members.values())
        return held + _PLAIN_BYTES * (len(self._members) + len(self._invited))

    def said_by(self, member: str) -> int:
        """Bytes of what a member has told; 0 if there is none of this id."""
        known = self._members.get(member)
        return 0 if known is None else known.said

    def handle(self, event: CoordinatorEvent, now_ms: int) -> list[CoordinatorEffect]:
        """Take one event in; see `Machine`."""
        woken = self._wakeup_ms is not None and self._wakeup_ms <= now_ms
        effects = self._expire(now_ms) if woken else []
        match event:
            case JoinGroup():
                effects += self._join(event, now_ms)
            case SyncGroup():
                effects += self._sync(event, now_ms)
            case MemberHeard():
                effects.append(GroupAnswer(event.token, self._hear(event, now_ms)))
            case LeaveGroup():
                effects += self._leave(event, now_ms)
            case ConsumerHeard():  # Kafka says so of a group that speaks the other protocol
                effects.append(event.refused(ErrorCode.GROUP_ID_NOT_FOUND))
            case Woke():
                pass
        if woken or not isinstance(event, MemberHeard):
            self._wakeup_ms = self._soonest_ms()
        return effects

    def wakeup_ms(self) -> int | None:
        """When somebody may have been silent, or waited for, long enough."""
        return self._wakeup_ms

    def _soonest_ms(self) -> int | None:
        silent = (one.expires_ms for one in self._members.values() if not one.waits)
        return earliest(self._due_ms, *silent, *self._invited.values())

    def check(self) -> None:
        """Assert that whoever waits is waited with for what the state says."""
        members = self._members.values()
        named = {one.who.instance: one.who.member for one in members if one.who.instance}
        assert self._instances == named
        match self.state:
            case KafkaGroupState.EMPTY:
                assert not self._members
            case KafkaGroupState.PREPARING:
                assert all(one.syncs is None for one in members)
            case KafkaGroupState.COMPLETING | KafkaGroupState.STABLE:
                assert all(one.joins is None for one in members)
                assert self._leader in self._members
                assert all(self._protocol in one.protocols for one in members)
                assert self.state is KafkaGroupState.COMPLETING or not any(
                    one.waits for one in members
                )
        waited = self.state in (KafkaGroupState.PREPARING, KafkaGroupState.COMPLETING)
        assert (self._due_ms is not None) == waited

    def describe(self) -> tuple[str, str, list[DescribedMember]]:
        """Return kind, protocol and members, for tools; no protocol while it is not agreed on."""
        agreed = self.state in (KafkaGroupState.COMPLETING, KafkaGroupState.STABLE)
        protocol = self._protocol if agreed else ""
        members = [
            DescribedMember(one.who, one.client, one.protocols.get(protocol, b""), one.assignment)
            for one in self._members.values()
        ]
        return self.kind, protocol, members

    def _join(self, event: JoinGroup, now_ms: int) -> list[CoordinatorEffect]:
        error = self._unfit(event)
        if error is not ErrorCode.NONE:
            return [JoinAnswer(event.token, error, event.who.member)]
        self.kind = event.kind
        name, instance = event.who
        known = self._instances.get(instance) if instance is not None else None
        if name and known not in (None, name):
            return [JoinAnswer(event.token, ErrorCode.FENCED_INSTANCE_ID, name)]
        if not name:
            if known is not None:
                return self._replace(self._members[known], event, now_ms)
            if instance is None and event.asked_twice:
                self._invited[event.new_id] = now_ms + event.session_ms
                return [JoinAnswer(event.token, ErrorCode.MEMBER_ID_REQUIRED, event.new_id)]
        if not name or self._invited.pop(name, None) is not None:
            return self._add(name or event.new_id, event, now_ms)
        error = self._stranger(event.who)
        if error is not ErrorCode.NONE:
            return [JoinAnswer(event.token, error, name)]
        return self._rejoin(self._members[name], event, now_ms)

    def _unfit(self, event: JoinGroup) -> ErrorCode:
        """Why it cannot be a member, whoever it is."""
        settings = self._settings
        if len(event.protocols) > settings.protocols_max or event.size > settings.member_bytes_max:
            return ErrorCode.INVALID_REQUEST
        if event.who.instance == "":
            return ErrorCode.INVALID_REQUEST
        if not settings.session_ms_min <= event.session_ms <= settings.session_ms_max:
            return ErrorCode.INVALID_SESSION_TIMEOUT
        others = [one for one in self._members.values() if one.who.member != event.who.member]
        if others and (event.kind != self.kind or not _common([*others, event])):
            return ErrorCode.INCONSISTENT_GROUP_PROTOCOL
        if not event.kind or not event.protocols:
            return ErrorCode.INCONSISTENT_GROUP_PROTOCOL
        here = len(self._members) + len(self._invited)
        if not event.who.member and here >= settings.members_max:
            return ErrorCode.GROUP_MAX_SIZE_REACHED
        return ErrorCode.NONE

    def _stranger(self, who: GroupIdentity) -> ErrorCode:
        """Why it is none of the members; `NONE` if it is one."""
        if who.instance is not None:
            known = self._instances.get(who.instance)
            if known is None:
                return ErrorCode.UNKNOWN_MEMBER_ID
            if known != who.member:
                return ErrorCode.FENCED_INSTANCE_ID
        return ErrorCode.NONE if who.member in self._members else ErrorCode.UNKNOWN_MEMBER_ID

    def _add(self, name: str, event: JoinGroup, now_ms: int) -> list[CoordinatorEffect]:
        who = GroupIdentity(name, event.who.instance)
        member = _Member(who, event.client, 0, 0, {}, 0)
        self._enter(member)
        _take(member, event, now_ms)
        return self._prepare(now_ms)

    def _enter(self, member: _Member) -> None:
        self._members[member.who.member] = member
        if member.who.instance is not None:
            self._instances[member.who.instance] = member.who.member

    def _rejoin(self, member: _Member, event: JoinGroup, now_ms: int) -> list[CoordinatorEffect]:
        same = dict(member.protocols) == dict(event.protocols)
        effects: list[CoordinatorEffect] = []
        if member.joins is not None:  # it has asked again, on another connection
            again = JoinAnswer(member.joins, ErrorCode.REBALANCE_IN_PROGRESS, member.who.member)
            effects.append(again)
        # A leader that asks wants to assign anew: partitions have come or gone.
        renews = self.state is KafkaGroupState.STABLE and member.who.member == self._leader
        _take(member, event, now_ms)
        if self.state is KafkaGroupState.PREPARING:
            return effects + self._complete_if_all(now_ms)
        if same and not renews:
            return [*effects, self._joined(member)]  # the answer was lost
        return effects + self._prepare(now_ms)

    def _replace(self, old: _Member, event: JoinGroup, now_ms: int) -> list[CoordinatorEffect]:
        """A static member has started again: it has what it had, and another id."""
        effects = _refused(old, ErrorCode.FENCED_INSTANCE_ID)
        leader = self._leader
        who = GroupIdentity(event.new_id, event.who.instance)
        member = _Member(who, event.client, 0, 0, {}, 0, assignment=old.assignment)
        del self._members[old.who.member]
        self._enter(member)
        if leader == old.who.member:
            self._leader = who.member
        # That it has no partitions yet, as some protocols say, is no reason to move any.
        same = _wanted(event.kind, old.protocols) == _wanted(event.kind, event.protocols)
        _take(member, event, now_ms)
        if self.state is KafkaGroupState.PREPARING:
            return effects + self._complete_if_all(now_ms)
        if self.state is KafkaGroupState.STABLE and same:
            # By the leader's old id nobody is the leader, so nobody assigns what is assigned.
            return [*effects, self._joined(member, leader)]
        return effects + self._prepare(now_ms)

    def _prepare(self, now_ms: int) -> list[CoordinatorEffect]:
        """Members have come, gone or changed: let all of them join."""
        effects: list[CoordinatorEffect] = []
        if self.state is not KafkaGroupState.PREPARING:
            self._gathering = self.state is KafkaGroupState.EMPTY
            for member in self._members.values():
                if member.syncs is not None:
                    effects.append(SyncAnswer(member.syncs, ErrorCode.REBALANCE_IN_PROGRESS))
                    member.syncs, member.expires_ms = None, now_ms + member.session_ms
            self._lifecycle.become(KafkaGroupState.PREPARING)
            delay_ms = self._settings.initial_delay_ms if self._gathering else self._longest_ms()
            self._due_ms = now_ms + delay_ms
        return effects + self._complete_if_all(now_ms)

    def _longest_ms(self) -> int:
        return max((one.rebalance_ms for one in self._members.values()), default=0)

    def _complete_if_all(self, now_ms: int) -> list[CoordinatorEffect]:
        if self._gathering or self._invited:
            return []
        if any(one.joins is None for one in self._members.values()):
            return []
        return self._complete(now_ms)

    def _complete(self, now_ms: int) -> list[CoordinatorEffect]:
        """Make a generation of those who have joined, and of static members that may come back."""
        self._gathering = False
        for name, one in list(self._members.items()):
            if one.joins is None and one.who.instance is None:
                del self._members[name]
        there = [name for name, one in self._members.items() if one.joins is not None]
        if self._members and not there:
            self._due_ms = now_ms + self._longest_ms()
            return []  # until the sessions of those static members are over
        self.generation += 1
        if not there:
            self._due_ms = None
            self._lifecycle.become(KafkaGroupState.EMPTY)
            return []
        if self._leader not in there:
            self._leader = there[0]
        self._protocol = self._chosen()
        self._lifecycle.become(KafkaGroupState.COMPLETING)
        self._due_ms = now_ms + self._longest_ms()
        effects: list[CoordinatorEffect] = []
        for one in self._members.values():
            one.assignment = b""
            if one.joins is not None:
                effects.append(self._joined(one))
                one.expires_ms = now_ms + one.session_ms
        return effects

    def _joined(self, member: _Member, leader: str | None = None) -> JoinAnswer:
        """The answer to a member of the generation there is."""
        assert member.joins is not None
        token, member.joins = member.joins, None
        leader = self._leader if leader is None else leader
        name = member.who.member
        members = [(one.who, one.protocols[self._protocol]) for one in self._members.values()]
        return JoinAnswer(
            token,
            ErrorCode.NONE,
            name,
            self.generation,
            self.kind,
            self._protocol,
            leader,
            members if name == leader else (),
        )

    def _chosen(self) -> str:
        """The protocol that most prefer, of those that all have."""
        common = _common(self._members.values())
        votes: dict[str, int] = {}
        for one in self._members.values():
            preferred = next(name for name in one.protocols if name in common)
            votes[preferred] = votes.get(preferred, 0) + 1
        return max(votes, key=lambda name: votes[name])

    def _sync(self, event: SyncGroup, now_ms: int) -> list[CoordinatorEffect]:
        error = self._unsynced(event)
        if error is not ErrorCode.NONE:
            return [SyncAnswer(event.token, error)]
        member = self._members[event.who.member]
        effects: list[CoordinatorEffect] = []
        if member.syncs is not None:
            effects.append(SyncAnswer(member.syncs, ErrorCode.REBALANCE_IN_PROGRESS))
        member.syncs = event.token
        if self.state is KafkaGroupState.STABLE:
            return [*effects, self._synced(member, now_ms)]
        if event.who.member != self._leader:
            return effects
        self._lifecycle.become(KafkaGroupState.STABLE)
        self._due_ms = None
        for name, one in self._members.items():
            one.assignment = event.assignments.get(name, b"")
            if one.syncs is not None:
                effects.append(self._synced(one, now_ms))
        return effects

    def _unsynced(self, event: SyncGroup) -> ErrorCode:
        error = self._unheard(event.who, event.generation)
        if error is not ErrorCode.NONE:
            return error
        if event.kind not in (None, self.kind) or event.protocol not in (None, self._protocol):
            return ErrorCode.INCONSISTENT_GROUP_PROTOCOL
        if self.state is KafkaGroupState.PREPARING:
            return ErrorCode.REBALANCE_IN_PROGRESS
        if event.assignments and event.who.member != self._leader:
            return ErrorCode.INVALID_REQUEST  # it would wait, and hold what nobody wants
        return ErrorCode.NONE

    def _synced(self, member: _Member, now_ms: int) -> SyncAnswer:
        assert member.syncs is not None
        token, member.syncs = member.syncs, None
        member.expires_ms = now_ms + member.session_ms
        return SyncAnswer(token, ErrorCode.NONE, self.kind, self._protocol, member.assignment)

    def _unheard(self, who: GroupIdentity, generation: int) -> ErrorCode:
        error = self._stranger(who)
        if error is ErrorCode.NONE and generation != self.generation:
            return ErrorCode.ILLEGAL_GENERATION
        return error

    def _hear(self, event: MemberHeard, now_ms: int) -> ErrorCode:
        nobody = event.who == GroupIdentity("") and event.generation == NO_GENERATION
        if event.commits and nobody:
            # A consumer that has been told its partitions commits without being a member.
            empty = self.state is KafkaGroupState.EMPTY
            return ErrorCode.NONE if empty else ErrorCode.UNKNOWN_MEMBER_ID
        error = self._unheard(event.who, event.generation)
        if error is not ErrorCode.NONE:
            return error
        member = self._members[event.who.member]
        member.expires_ms = now_ms + member.session_ms
        # Who gives partitions back before it joins again commits first, while others prepare.
        waited = KafkaGroupState.COMPLETING if event.commits else KafkaGroupState.PREPARING
        return ErrorCode.REBALANCE_IN_PROGRESS if self.state is waited else ErrorCode.NONE

    def _leave(self, event: LeaveGroup, now_ms: int) -> list[CoordinatorEffect]:
        errors: list[ErrorCode] = []
        effects: list[CoordinatorEffect] = []
        gone = False
        for who in event.leaving:
            if who.instance is not None and not who.member:  # a tool knows only its name
                who = GroupIdentity(self._instances.get(who.instance, ""), who.instance)
            if self._invited.pop(who.member, None) is not None:
                errors.append(ErrorCode.NONE)
                gone = True
                continue
            errors.append(self._stranger(who))
            if errors[-1] is ErrorCode.NONE:
                effects += self._remove(self._members[who.member])
                gone = True
        effects.append(LeaveAnswer(event.token, errors))
        return effects + (self._changed(now_ms) if gone else [])

    def _remove(self, member: _Member) -> list[CoordinatorEffect]:
        del self._members[member.who.member]
        if member.who.instance is not None:
            del self._instances[member.who.instance]
        return _refused(member, ErrorCode.UNKNOWN_MEMBER_ID)

    def _changed(self, now_ms: int) -> list[CoordinatorEffect]:
        """Somebody is not there any more."""
        return [] if self.state is KafkaGroupState.EMPTY else self._prepare(now_ms)

    def _expire(self, now_ms: int) -> list[CoordinatorEffect]:
        late = [name for name, until_ms in self._invited.items() if until_ms <= now_ms]
        for name in late:
            del self._invited[name]
        silent = [
            one for one in self._members.values() if not one.waits and one.expires_ms <= now_ms
        ]
        waited = self._due_ms is not None and self._due_ms <= now_ms
        if waited and self.state is KafkaGroupState.COMPLETING:
            leader = self._members[self._leader]  # it says that it lives, and does not assign
            silent += [] if leader in silent else [leader]
        effects = [effect for one in silent for effect in self._remove(one)]
        if waited and self.state is KafkaGroupState.PREPARING:
            return effects + self._complete(now_ms)
        return effects + (self._changed(now_ms) if silent or late else [])


def _common(members: Iterable[_Member | JoinGroup]) -> set[str]:
    """The protocols that all have."""
    return set.intersection(*(set(one.protocols) for one in members))


def _wanted(kind: str, protocols: Mapping[str, bytes]) -> dict[str, frozenset[str] | bytes]:
    """By protocol the topics that a member wants; all that it tells if they cannot be read."""
    wanted: dict[str, frozenset[str] | bytes] = dict(protocols)
    for name, told in protocols.items():
        topics = subscribed_topics(told) if kind == CONSUMERS else None
        if topics is not None:
            wanted[name] = topics
    return wanted


def _take(member: _Member, event: JoinGroup, now_ms: int) -> None:
    member.client = event.client
    member.session_ms = event.session_ms
    member.rebalance_ms = max(event.rebalance_ms, event.session_ms)
    member.protocols = event.protocols
    member.said = event.size
    member.joins = event.token
    member.expires_ms = now_ms + event.session_ms


def _refused(member: _Member, error: ErrorCode) -> list[CoordinatorEffect]:
    """Answer what it waits for."""
    effects: list[CoordinatorEffect] = []
    if member.joins is not None:
        effects.append(JoinAnswer(member.joins, error, member.who.member))
    if member.syncs is not None:
        effects.append(SyncAnswer(member.syncs, error))
    return effects
