"""What a group's machines are told, and what they ask for."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dafka.model import Value
from dafka.protocol.events import Woke

if TYPE_CHECKING:
    from collections.abc import Mapping

    from dafka.groups.commit import Commit, CommitKey
    from dafka.groups.membership import Member, Reply, Request
    from dafka.model import Batch, Partition


class Ask(Value, frozen=True):
    """Put a request to a store; its answer, if one comes, is `Answered` with the same token."""

    store: int
    token: int
    request: Request


class Answered(Value, frozen=True):
    """A store's answer to `Ask`."""

    store: int
    token: int
    reply: Reply


class Released(Value, frozen=True):
    """Everything that is not this member's in a generation is given back."""

    generation: int


class Leave(Value, frozen=True):
    """Everything is given back: say goodbye."""


class Assigned(Value, frozen=True):
    """A new generation: give back what is not this member's in it, then say `Released`."""

    member: str
    generation: int
    members: dict[str, Member]
    moved: dict[str, str] = {}


class Rebalanced(Value, frozen=True):
    """Everybody has given back what is not theirs: begin with what is this member's."""

    generation: int


class Expelled(Value, frozen=True):
    """The lease is over: stop everything at once, it may be others' by now."""


class Left(Value, frozen=True):
    """Nobody waits for this member any more."""


class Barred(Value, frozen=True):
    """This member cannot belong to the group; why, for people, behind the group's name."""

    complaint: str


class AskOffsets(Value, frozen=True):
    """Ask a store what the group has committed; its answer is `OffsetsAnswered`."""

    store: int
    token: int
    after: Partition | None


class OffsetsAnswered(Value, frozen=True):
    """Some of what a store knows; `more` follows behind the last.

    Unless it is `in_sync` links are about to bring more.
    """

    store: int
    token: int
    commits: tuple[tuple[CommitKey, Commit], ...]
    more: bool
    in_sync: bool = True


class PartitionAssigned(Value, frozen=True):
    """The application may be handed `partition` from `position` on: deliveries of this run."""

    partition: Partition
    run: int
    position: int


class Handed(Value, frozen=True):
    """A delivery of a run. Only if that is the partition's last one may it be handed on."""

    batch: Batch
    start: int
    run: int


class Revoke(Value, frozen=True):
    """Hand nothing more of these to the application; `Revoked` when it holds nothing of them."""

    token: int
    partitions: frozenset[Partition]


class Revoked(Value, frozen=True):
    """How far the application has processed what was revoked."""

    token: int
    positions: Mapping[Partition, int]


class Collect(Value, frozen=True):
    """Say how far the application has processed everything: `Collected`."""


class Collected(Value, frozen=True):
    """By partition the first sequence that the application may not have processed."""

    positions: Mapping[Partition, int]


class CommitWanted(Value, frozen=True):
    """The application asks for these positions to be committed: `CommitDone`."""

    number: int
    positions: Mapping[Partition, int]


class CommitDone(Value, frozen=True):
    """Stores have what was to be committed, but for partitions that are others' by now."""

    number: int
    lost: frozenset[Partition]


class PublishCommits(Value, frozen=True):
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


class Committed(Value, frozen=True):
    """Stores have what was to be published."""

    token: int


class CommitFailed(Value, frozen=True):
    """What was to be published was not, or is not stored: it has to be published again."""

    commits: PublishCommits


class Sought(Value, frozen=True):
    """The application wants to go on elsewhere in a partition."""

    partition: Partition
    position: int


class Closing(Value, frozen=True):
    """The application takes no more: commit these positions, give everything back, leave."""

    positions: Mapping[Partition, int]


class WallTime(Value, frozen=True):
    """What time it is, told now and then: commits have the times of wall clocks."""

    wall_ms: int


class Overdue(Value, frozen=True):
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
