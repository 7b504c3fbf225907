"""What the coordinator of a Kafka group is told, and what it answers (KIP-62, 345, 394).

Whatever is asked has a token, which names its answer; `size`, the bytes that are kept of it; and
`refused`, the answer when a coordinator does not get to see it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from dafka.gateway.broker import ErrorCode
from dafka.model import Value
from dafka.protocol.events import Woke

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from dafka.gateway.broker import KafkaPartition

NO_GENERATION = -1
"""Of who is no member, and in answers that refuse."""

JOINS, LEAVES, PAUSES = 0, -1, -2
"""Instead of a member's epoch: it begins; it ends; it is static, ends, and will come back."""


class GroupIdentity(NamedTuple):
    """Who asks.

    Attributes:
        member: The id that the coordinator has given it; empty before.
        instance: The name that a static member keeps when it starts again; None of a dynamic one.
    """

    member: str
    instance: str | None = None


class JoinGroup(Value, frozen=True, kw_only=True):
    """A client wants to be, or to stay, a member; answered by `JoinAnswer`.

    Attributes:
        token: Names the answer.
        who: Who asks.
        new_id: The id that it gets if it is new.
        asked_twice: Whether a new dynamic member is told its id first, and has to ask again by it.
        client: The client's name for itself, and where it is.
        session_ms: It is taken for dead after so much silence.
        rebalance_ms: How long it may take to ask again when the group's members change.
        kind: Of its protocols: consumers say "consumer", Connect says "connect".
        protocols: By name, what it tells the leader; in order of its preference.
    """

    token: int
    who: GroupIdentity
    new_id: str
    asked_twice: bool
    client: tuple[str, str]
    session_ms: int
    rebalance_ms: int
    kind: str
    protocols: Mapping[str, bytes]

    @property
    def size(self) -> int:
        """Bytes."""
        name, instance = self.who
        texts = (name or self.new_id, instance, *self.client, self.kind, *self.protocols)
        told = sum(map(len, self.protocols.values()))
        return sum(len(text) for text in texts if text) + told

    def refused(self, error: ErrorCode) -> JoinAnswer:
        """The answer that says why not."""
        return JoinAnswer(self.token, error, self.who.member)


class SyncGroup(Value, frozen=True):
    """A member wants its assignment; the leader brings everybody's. Answered by `SyncAnswer`."""

    token: int
    who: GroupIdentity
    generation: int
    kind: str | None
    protocol: str | None
    assignments: Mapping[str, bytes]

    @property
    def size(self) -> int:
        """Bytes."""
        return sum(map(len, self.assignments.values()))

    def refused(self, error: ErrorCode) -> SyncAnswer:
        """The answer that says why not."""
        return SyncAnswer(self.token, error)


class MemberHeard(Value, frozen=True):
    """A member says that it is there, or wants to commit; answered by `GroupAnswer`."""

    token: int
    who: GroupIdentity
    generation: int
    commits: bool
    size = 0

    def refused(self, error: ErrorCode) -> GroupAnswer:
        """The answer that says why not."""
        return GroupAnswer(self.token, error)


class LeaveGroup(Value, frozen=True):
    """Members leave; answered by `LeaveAnswer`."""

    token: int
    leaving: Sequence[GroupIdentity]
    size = 0

    def refused(self, error: ErrorCode) -> LeaveAnswer:
        """The answer that says why not."""
        return LeaveAnswer(self.token, [error] * len(self.leaving), error)


class ConsumerHeard(Value, frozen=True, kw_only=True):
    """A member of a group of KIP-848 says that it is there; answered by `ConsumerAnswer`.

    Attributes:
        token: Names the answer.
        who: Who asks; its id is never empty.
        epoch: That it follows; or `JOINS`, `LEAVES`, `PAUSES`.
        client: The client's name for itself, and where it is.
        rebalance_ms: How long it may take to give partitions up; -1: as before.
        topics: Those it wants by name; None: as before.
        assignor: The one it prefers; None: as before.
        owned: What it has; None: as before.
        pattern: Of topics that it wants, too; empty for none, None: as before.
        matched: Those that its pattern matches now.
    """

    token: int
    who: GroupIdentity
    epoch: int
    client: tuple[str, str]
    rebalance_ms: int
    topics: frozenset[str] | None
    assignor: str | None
    owned: frozenset[KafkaPartition] | None
    pattern: str | None = None
    matched: frozenset[str] = frozenset()

    @property
    def size(self) -> int:
        """Bytes."""
        texts = (*self.who, *self.client, *(self.topics or ()), self.pattern)
        return sum(len(text) for text in texts if text)

    def refused(self, error: ErrorCode) -> ConsumerAnswer:
        """The answer that says why not."""
        return ConsumerAnswer(self.token, error, self.who.member)


class ConsumerAnswer(Value, frozen=True):
    """The epoch that a member is in, and what it should have; None: as it was told before."""

    token: int
    error: ErrorCode
    member: str = ""
    epoch: int = 0
    heartbeat_ms: int = 0
    assignment: frozenset[KafkaPartition] | None = None


class JoinAnswer(Value, frozen=True):
    """A generation; `members` are the leader's to assign, and empty for others."""

    token: int
    error: ErrorCode
    member: str = ""
    generation: int = NO_GENERATION
    kind: str = ""
    protocol: str = ""
    leader: str = ""
    members: Sequence[tuple[GroupIdentity, bytes]] = ()


class SyncAnswer(Value, frozen=True):
    """An assignment, as the leader has made it."""

    token: int
    error: ErrorCode
    kind: str = ""
    protocol: str = ""
    assignment: bytes = b""


class GroupAnswer(Value, frozen=True):
    """All is well, or why not."""

    token: int
    error: ErrorCode


class LeaveAnswer(Value, frozen=True):
    """What became of each, in order; an error of its own if a coordinator has not seen it."""

    token: int
    errors: Sequence[ErrorCode]
    error: ErrorCode = ErrorCode.NONE


class DescribedMember(NamedTuple):
    """What tools are shown of a member."""

    who: GroupIdentity
    client: tuple[str, str]
    metadata: bytes
    assignment: bytes


CoordinatorEvent = JoinGroup | SyncGroup | MemberHeard | LeaveGroup | ConsumerHeard | Woke
CoordinatorEffect = JoinAnswer | SyncAnswer | GroupAnswer | LeaveAnswer | ConsumerAnswer
