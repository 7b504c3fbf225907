"""What a group's machines are told, and what they ask for."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from dafka.protocol.events import Woke

if TYPE_CHECKING:
    from collections.abc import Mapping

    from dafka.groups.commit import Commit, CommitKey
    from dafka.groups.membership import Member, Reply, Request
    from dafka.model import Batch, Partition


@dataclass(frozen=True, slots=True)
class Ask:
    """Put a request to a store; its answer, if one comes, is `Answered` with the same token."""

    store: int
    token: int
    request: Request


@dataclass(frozen=True, slots=True)
class Answered:
    """A store's answer to `Ask`."""

    store: int
    token: int
    reply: Reply


@dataclass(frozen=True, slots=True)
class Released:
    """Everything that is not this member's in a generation is given back."""

    generation: int


@dataclass(frozen=True, slots=True)
class Leave:
    """Everything is given back: say goodbye."""


@dataclass(frozen=True, slots=True)
class Assigned:
    """A new generation: give back what is not this member's in it, then say `Released`."""

    member: str
    generation: int
    members: dict[str, Member]
    moved: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Rebalanced:
    """Everybody has given back what is not theirs: begin with what is this member's."""

    generation: int


@dataclass(frozen=True, slots=True)
class Expelled:
    """The lease is over: stop everything at once, it may be others' by now."""


@dataclass(frozen=True, slots=True)
class Left:
    """Nobody waits for this member any more."""


@dataclass(frozen=True, slots=True)
class Barred:
    """This member cannot belong to the group; why, for people, behind the group's name."""

    complaint: str


@dataclass(frozen=True, slots=True)
class AskOffsets:
    """Ask a store what the group has committed; its answer is `OffsetsAnswered`."""

    store: int
    token: int
    after: Partition | None


@dataclass(frozen=True, slots=True)
class OffsetsAnswered:
    """Some of what a store knows; `more` follows behind the last.

    Unless it is `in_sync` links are about to bring more.
    """

    store: int
    token: int
    commits: tuple[tuple[CommitKey, Commit], ...]
    more: bool
    in_sync: bool = True


@dataclass(frozen=True, slots=True)
class PartitionAssigned:
    """The application may be handed `partition` from `position` on: deliveries of this run."""

    partition: Partition
    run: int
    position: int


@dataclass(frozen=True, slots=True)
class Handed:
    """A delivery of a run. Only if that is the partition's last one may it be handed on."""

    batch: Batch
    start: int
    run: int


@dataclass(frozen=True, slots=True)
class Revoke:
    """Hand nothing more of these to the application; `Revoked` when it holds nothing of them."""

    token: int
    partitions: frozenset[Partition]


@dataclass(frozen=True, slots=True)
class Revoked:
    """How far the application has processed what was revoked."""

    token: int
    positions: Mapping[Partition, int]


@dataclass(frozen=True, slots=True)
class Collect:
    """Say how far the application has processed everything: `Collected`."""


@dataclass(frozen=True, slots=True)
class Collected:
    """By partition the first sequence that the application may not have processed."""

    positions: Mapping[Partition, int]


@dataclass(frozen=True, slots=True)
class CommitWanted:
    """The application asks for these positions to be committed: `CommitDone`."""

    number: int
    positions: Mapping[Partition, int]


@dataclass(frozen=True, slots=True)
class CommitDone:
    """Stores have what was to be committed, but for partitions that are others' by now."""

    number: int
    lost: frozenset[Partition]


@dataclass(frozen=True, slots=True)
class PublishCommits:
    """Publish positions under an epoch; `Committed` when enough stores have them.

    Attributes:
        token: Repeated in the answer.
        epoch: Theirs.
        positions: By partition.
        processed: How far the group has come elsewhere, where that is further.
    """

    token: int
    epoch: int
    positions: Mapping[Partition, int]
    processed: Mapping[Partition, int]


@dataclass(frozen=True, slots=True)
class Committed:
    """Stores have what was to be published."""

    token: int


@dataclass(frozen=True, slots=True)
class CommitFailed:
    """What was to be published was not, or is not stored: it has to be published again."""

    commits: PublishCommits


@dataclass(frozen=True, slots=True)
class Sought:
    """The application wants to go on elsewhere in a partition."""

    partition: Partition
    position: int


@dataclass(frozen=True, slots=True)
class Closing:
    """The application takes no more: commit these positions, give everything back, leave."""

    positions: Mapping[Partition, int]


@dataclass(frozen=True, slots=True)
class WallTime:
    """What time it is, told now and then: commits have the times of wall clocks."""

    wall_ms: int


@dataclass(frozen=True, slots=True)
class Overdue:
    """The application has not come back for so long that others get its partitions."""


MemberEvent = Woke | Answered | Released | Leave
MemberEffect = Ask | Assigned | Rebalanced | Expelled | Left | Barred

GroupEvent = (
    Answered
    | OffsetsAnswered
    | Revoked
    | Collected
    | CommitWanted
    | Committed
    | CommitFailed
    | Sought
    | Closing
    | WallTime
)
