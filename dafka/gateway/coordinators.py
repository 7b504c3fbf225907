"""The groups that this gateway coordinates, on asyncio: a machine each, its timer, and who waits.

A machine lives for one ownership of its group, and for as long as somebody would miss it. When the
node says that the group is another's, or has been meanwhile, who waits is told so, and it is gone.
"""

from __future__ import annotations

import asyncio
from itertools import count
from typing import TYPE_CHECKING, NamedTuple, Protocol, TypeVar, cast
from uuid import uuid4

from dafka.errors import MisuseError
from dafka.gateway.broker import NOBODY, ErrorCode
from dafka.gateway.consumer_group import EMPTY, ConsumerGroupMachine
from dafka.gateway.coordinator import CoordinatorMachine, CoordinatorSettings
from dafka.gateway.group_events import ConsumerHeard, JoinGroup, MemberHeard
from dafka.gateway.held_commits import HeldCommits
from dafka.gateway.matched_topics import MatchedTopics
from dafka.groups.commit import checked_consumers
from dafka.process import metrics
from dafka.protocol.events import Woke
from dafka.protocol.machine import earliest
from dafka.transport.access import EVERYTHING, Rights

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from dafka.gateway.broker import Broker, KafkaCommit, KafkaPartition
    from dafka.gateway.group_events import CoordinatorEvent, DescribedMember

Answer_co = TypeVar("Answer_co", covariant=True)

_LOOK_MS = 1_000
"""How often it is asked whether a group for which somebody waits is still this gateway's."""

_NAME_CHARACTERS = 64
"""How much of its client's name is in a member's id."""


class GroupQuestion(Protocol[Answer_co]):
    """What a group is asked, see `dafka.gateway.group_events`."""

    @property
    def token(self) -> int:
        """Names the answer."""

    @property
    def size(self) -> int:
        """Bytes that are kept of it."""

    def refused(self, error: ErrorCode) -> Answer_co:
        """The answer that says why not."""


class DescribedGroup(NamedTuple):
    """What tools are shown of a group."""

    state: str
    kind: str = ""
    protocol: str = ""
    members: Sequence[DescribedMember] = ()
    assigns: bool = False
    """Whether the coordinator assigns (KIP-848), and not the leader."""


class _Group:
    """One group, in one ownership."""

    def __init__(self, epoch: int, settings: CoordinatorSettings) -> None:
        self.epoch = epoch
        self.machine: CoordinatorMachine | ConsumerGroupMachine = CoordinatorMachine(settings)
        self.commits = HeldCommits()
        self.waiting: dict[int, tuple[GroupQuestion[object], asyncio.Future[object]]] = {}
        """By token."""
        self.timer: asyncio.TimerHandle | None = None
        self.size = 0
        """Bytes that it held when somebody last looked."""

    @property
    def generation(self) -> int:
        """How often its members have changed."""
        if isinstance(self.machine, ConsumerGroupMachine):
            return self.machine.epoch
        return self.machine.generation

    def described(self) -> DescribedGroup:
        """As tools are shown it."""
        machine = self.machine
        if isinstance(machine, ConsumerGroupMachine):
            return DescribedGroup(machine.state, *machine.describe(), assigns=True)
        return DescribedGroup(machine.state.value, *machine.describe())

    def end(self) -> None:
        """Stop, and tell who waits to ask another gateway."""
        self.stop()
        for question, answered in self.waiting.values():
            _settle(answered, question.refused(ErrorCode.NOT_COORDINATOR))

    def stop(self) -> None:
        """Do nothing any more."""
        if self.timer is not None:
            self.timer.cancel()
            self.timer = None


class _Groups:
    """What there is of them, whoever asks."""

    def __init__(self, broker: Broker) -> None:
        self._broker = broker
        self.matched = MatchedTopics(broker.topics)
        self.by_name: dict[str, _Group] = {}
        self.tokens = count(1)
        self.size = 0
        """Bytes of all of them."""

    def partitions_of(self, topic: str) -> int:
        """How many a topic has; members need not all be permitted to know it."""
        there = self._broker.topic(topic)
        return 0 if there is None else there.partitions


_ALL = Rights(EVERYTHING, EVERYTHING)
"""Of who need not log in."""


class Coordinators:
    """All groups of this gateway.

    Args:
        broker: The node behind.
        now_ms: A monotonic clock.
        settings: Of each group, and of all together.
        rights: Of who uses them.
        groups: Those of others, who may use other ones.
    """

    def __init__(
        self,
        broker: Broker,
        now_ms: Callable[[], int],
        settings: CoordinatorSettings,
        rights: Rights = _ALL,
        groups: _Groups | None = None,
    ) -> None:
        self.broker = broker
        self._now_ms, self._settings = now_ms, settings
        self._rights, self._all = rights, groups or _Groups(broker)

    def permitted(self, broker: Broker, rights: Rights) -> Coordinators:
        """Return the same groups, as far as somebody may use them.

        Args:
            broker: The node, likewise.
            rights: What he may.
        """
        return Coordinators(broker, self._now_ms, self._settings, rights, self._all)

    def may_read(self, topic: str) -> bool:
        """Whether who uses them may know where groups are in a topic."""
        return self._rights.may_read(topic)

    def matched(self, pattern: str) -> frozenset[str]:
        """Return the topics that a pattern matches now, of those that its user may read.

        Raises:
            MisuseError: It is none.
        """
        return frozenset(filter(self.may_read, self._all.matched.of(pattern)))

    async def ask(self, name: str, make: Callable[[int], GroupQuestion[Answer_co]]) -> Answer_co:
        """Ask a group something, and wait for the answer, which may be minutes.

        Args:
            name: Of the group.
            make: Makes the question of its token.
        """
        question = make(next(self._all.tokens))
        group = self._owned(name)
        if isinstance(group, ErrorCode):
            return question.refused(group)
        event = cast("CoordinatorEvent", question)
        if isinstance(event, ConsumerHeard) and group.machine.is_empty:
            group.machine = ConsumerGroupMachine(self._settings, self._all.partitions_of)
        grows = question.size
        if isinstance(event, (JoinGroup, ConsumerHeard)):
            # Who is a member, and says no more than before, stays one whoever takes all the room.
            grows -= group.machine.said_by(event.who.member)
        if grows > 0 and self._all.size + grows > self._settings.bytes_max:
            return question.refused(ErrorCode.COORDINATOR_NOT_AVAILABLE)
        answered: asyncio.Future[object] = asyncio.get_running_loop().create_future()
        group.waiting[question.token] = question, answered
        try:
            self._tell(name, group, event)
            return cast("Answer_co", await answered)
        finally:
            del group.waiting[question.token]

    async def commit(
        self,
        name: str,
        heard: Callable[[int], MemberHeard],
        offsets: Mapping[KafkaPartition, KafkaCommit],
    ) -> ErrorCode:
        """Keep what a member has processed; the group has to agree that it is one."""
        answer = await self.ask(name, heard)
        if answer.error is not ErrorCode.NONE:
            return answer.error
        return await self.write(name, offsets)

    async def write(
        self, name: str, offsets: Mapping[KafkaPartition, KafkaCommit | None]
    ) -> ErrorCode:
        """Keep commits of a group, or forget them where there is None, whoever asks for it.

        They go to the node in the order of the calls.
        """
        group = self._owned(name)
        if isinstance(group, ErrorCode):
            return group
        if self._all.size > self._settings.bytes_max:
            return ErrorCode.COORDINATOR_NOT_AVAILABLE
        if not offsets:
            return ErrorCode.NONE
        held, turn = group.commits, next(self._all.tokens)
        error = await self.broker.commit(name, group.epoch, offsets)
        if error is ErrorCode.NONE:
            held.keep(turn, offsets)
            self._measure(name, group)
        return error

    async def committed(self, name: str) -> Mapping[KafkaPartition, KafkaCommit] | ErrorCode:
        """What a group has committed.

        While it has members, that is what was there when they came, and what they have committed:
        what links bring meanwhile does not move them.
        """
        group = self._owned(name)
        if isinstance(group, ErrorCode):
            return group
        if group.machine.is_empty:
            return await self.broker.committed(name)
        found = await group.commits.all(lambda: self.broker.committed(name))
        self._measure(name, group)
        return found

    async def forget(self, name: str) -> ErrorCode:
        """Forget a group that has no members."""
        described = await self.describe(name)
        if isinstance(described, ErrorCode):
            return described
        group = self._owned(name)  # members may have come meanwhile
        if isinstance(group, ErrorCode):
            return group
        if not group.machine.is_empty:
            return ErrorCode.NON_EMPTY_GROUP
        return await self.broker.forget_group(name)

    async def describe(self, name: str) -> DescribedGroup | ErrorCode:
        """Return what tools are shown; `GROUP_ID_NOT_FOUND` if there is no such group."""
        group = self._owned(name)
        if isinstance(group, ErrorCode):
            return group
        if name in self._all.by_name:
            return group.described()
        found = await self.broker.committed(name)
        if isinstance(found, ErrorCode):
            return found
        return DescribedGroup(EMPTY) if found else ErrorCode.GROUP_ID_NOT_FOUND

    async def listed(self) -> Mapping[str, DescribedGroup] | ErrorCode:
        """Return all groups of this gateway."""
        committed = await self.broker.groups()
        if isinstance(committed, ErrorCode):
            return committed
        found = dict.fromkeys(filter(self._rights.may_commit, committed), DescribedGroup(EMPTY))
        for name in tuple(self._all.by_name):
            group = self._owned(name)
            if not isinstance(group, ErrorCode):
                found[name] = group.described()
        return found

    def peopled(self) -> Mapping[str, DescribedGroup]:
        """Those that have, or wait for, members, as they are known here: nobody is asked."""
        return {name: group.described() for name, group in self._all.by_name.items()}

    def consumers(self, name: str) -> ConsumerGroupMachine | ErrorCode:
        """A group in which the coordinator assigns; `GROUP_ID_NOT_FOUND` if it is none."""
        group = self._owned(name)
        if isinstance(group, ErrorCode):
            return group
        if isinstance(group.machine, ConsumerGroupMachine) and not group.machine.is_empty:
            return group.machine
        return ErrorCode.GROUP_ID_NOT_FOUND

    def _owned(self, name: str) -> _Group | ErrorCode:
        """A group as this gateway has it, an empty one if need be; or why it has none."""
        try:
            checked_consumers(name)
        except MisuseError:
            return ErrorCode.INVALID_GROUP_ID
        if not self._rights.may_commit(name):
            return ErrorCode.GROUP_AUTHORIZATION_FAILED
        node, epoch = self.broker.coordinator(name)
        group = self._all.by_name.get(name)
        if group is not None and (node, epoch) != (self.broker.node, group.epoch):
            self._drop(name, group)
            group.end()
            group = None
        if node != self.broker.node:
            nobody = node == NOBODY
            return ErrorCode.COORDINATOR_NOT_AVAILABLE if nobody else ErrorCode.NOT_COORDINATOR
        return group or _Group(epoch, self._settings)

    def _drop(self, name: str, group: _Group) -> None:
        if self._all.by_name.pop(name, None) is not None:
            self._all.size -= group.size
        group.stop()

    def _tell(self, name: str, group: _Group, event: CoordinatorEvent) -> None:
        now_ms, before = self._now_ms(), group.generation
        for answer in group.machine.handle(event, now_ms):
            if answer.token in group.waiting:  # or the client has gone
                _settle(group.waiting[answer.token][1], answer)
        metrics.KAFKA_REBALANCES.inc(group.generation - before)
        if group.machine.is_empty:
            group.commits = HeldCommits()
        if group.machine.idle:
            self._drop(name, group)
            return
        self._all.by_name[name] = group
        if not isinstance(event, MemberHeard):
            self._measure(name, group)
        self._wake_later(name, group, now_ms)

    def _measure(self, name: str, group: _Group) -> None:
        if self._all.by_name.get(name) is group:
            self._all.size -= group.size
            group.size = group.machine.size + group.commits.size
            self._all.size += group.size

    def _wake_later(self, name: str, group: _Group, now_ms: int) -> None:
        look_ms = now_ms + _LOOK_MS if group.waiting else None
        due_ms = earliest(group.machine.wakeup_ms(), look_ms)
        if due_ms is None:
            return
        loop = asyncio.get_running_loop()
        at_s = loop.time() + max(0, due_ms - now_ms) / 1_000
        if group.timer is not None and group.timer.when() <= at_s:
            return  # it finds then that it is too early
        group.stop()
        group.timer = loop.call_at(at_s, self._wake, name, group)

    def _wake(self, name: str, group: _Group) -> None:
        group.timer = None
        if self._owned(name) is group:
            self._tell(name, group, Woke())


def new_member_id(client: str) -> str:
    """Return an id that no member has had; tools show whose it is."""
    return f"{client[:_NAME_CHARACTERS]}-{uuid4()}"


def _settle(answered: asyncio.Future[object], answer: object) -> None:
    if not answered.done():
        answered.set_result(answer)
