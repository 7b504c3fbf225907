"""What the node of a gateway is asked by clients, and what it tells them; see `machine`."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from dafka.gateway.broker import Offsets
from dafka.gateway.topic_changes import AlterTopic, DeleteTopic, MakeTopic
from dafka.groups.assignment import owner
from dafka.model import Value
from dafka.protocol.events import PeerLeft

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from dafka.gateway.broker import ErrorCode, KafkaPartition, Placed, Topic
    from dafka.gateway.catalog import EmptiedPartition, TopicState
    from dafka.gateway.events import StoreRead
    from dafka.gateway.ledger import LedgerEntry
    from dafka.groups.commit import Commit, CommitKey
    from dafka.groups.membership import Member
    from dafka.model import Batch, Partition

NO_OFFSETS = Offsets(-1, -1)

OWNERS_MAX = 40_000
"""Owners that are remembered: twice as many as there may be Kafka partitions."""


class AppendBatch(Value, frozen=True):
    """Event: store a checked batch of a client; answered by `Answer`."""

    token: int
    partition: KafkaPartition
    batch: bytes
    acks: int


class Locate(Value, frozen=True):
    """Event: where are the records from an offset on? Answered by `Located`."""

    token: int
    partition: KafkaPartition
    offset: int
    bytes_max: int


class Survey(Value, frozen=True):
    """Event: which entries does a partition have? Answered by `Located`, all of them unread.

    Attributes:
        token: Of the question.
        partition: Which.
        start: The first entry is the one that has this offset, or the first there is behind it.
        entries_max: How many.
    """

    token: int
    partition: KafkaPartition
    start: int
    entries_max: int


class DeleteRecords(Value, frozen=True):
    """Event: let offsets begin later; answered by `Located` once they do, without entries.

    Attributes:
        token: Of the question.
        partition: Which.
        start: The first that may name a record; `HIGH_WATERMARK` for that.
    """

    token: int
    partition: KafkaPartition
    start: int


class LedgersRead(Value, frozen=True):
    """Event: what a store has of partitions that were to be read, by partition and epoch."""

    found: Mapping[tuple[KafkaPartition, int], StoreRead]


class StoreTold(Value, frozen=True):
    """Event: what a store keeps of the partitions that have changed there.

    Attributes:
        store: Which.
        kept: By partition, what it has.
        unlisted: Those that it has forgotten, as nothing of them was kept for long.
    """

    store: str
    kept: Mapping[Partition, range]
    unlisted: Sequence[Partition] = ()


class TopicsOrdered(Value, frozen=True):
    """Event: topics in the order of their offsets in `__topics`, which clients may be told of."""

    epoch: int
    topics: tuple[Topic, ...]


class ChangesOrdered(Value, frozen=True):
    """Event: changes of topics in the order of their offsets in `__changes`, and their numbers."""

    epoch: int
    changes: tuple[tuple[int, TopicState | EmptiedPartition], ...]


class CatalogRead(Value, frozen=True):
    """Event: what a controller has said."""

    states: tuple[TopicState, ...]


class CommitOffsets(Value, frozen=True):
    """Event: commit rows of a group; answered by `OffsetsCommitted`.

    Attributes:
        token: Of the question.
        group: One that this gateway coordinates.
        epoch: Of its ownership.
        rows: By place, the position, or None where it is to be forgotten, and its metadata.
        wall_ms: The time.
        known: The highest epoch of the group's commits that a majority of the stores knew since the
            ownership began; None if they were not asked.
    """

    token: int
    group: str
    epoch: int
    rows: Mapping[Partition, tuple[int | None, str]]
    wall_ms: int
    known: int | None = None


class ListGroups(Value, frozen=True):
    """Event: which groups have committed offsets? Answered by `GroupsListed`."""

    token: int


class MeasureLags(Value, frozen=True):
    """Event: how far are groups behind in what is this gateway's? Answered by `LagsMeasured`."""

    token: int


class CommitsTold(Value, frozen=True):
    """Event: what groups have committed.

    Attributes:
        store: Who says so.
        commits: What is new.
        whole: Whether that is all that the store has.
        new: Whether its disk is.
    """

    store: str
    commits: Sequence[tuple[CommitKey, Commit]]
    whole: bool = False
    new: bool = False


class Close(Value, frozen=True):
    """Event: serve nobody any more, and leave."""


class ReadLedger(Value, frozen=True):
    """Read a partition's ledger and records in every store, again and again until it answers."""

    partition: KafkaPartition
    epoch: int
    token: int


class GenerationOutranked(Value, frozen=True):
    """There is a ledger of an epoch that the gateways' generation has yet to come to.

    Attributes:
        partition: Whose.
        generation: Of who has taken it over.
        epoch: That of the ledger.
    """

    partition: KafkaPartition
    generation: int
    epoch: int

    def complaint(self) -> str:
        """What that says, for people."""
        return (
            "a ledger has an epoch above the gateways' generation: most stores have lost their "
            "disks, or somebody has made it up; gateways go on from it, above that epoch"
        )


class HearAgain(Value, frozen=True):
    """If this is a store, what it has does not count any more: hear all of it again."""

    store: str


class LookSoon(Value, frozen=True):
    """Ask stores what has changed, before it is time to; who has a token is told (`Looked`)."""

    token: int = 0


class Looked(Value, frozen=True):
    """A store has been asked what has changed, and that is told."""

    token: int


class Answer(Value, frozen=True):
    """What has become of an `AppendBatch`."""

    token: int
    placed: Placed


class Located(Value, frozen=True):
    """Where records are.

    Attributes:
        token: Of the question.
        error: Why not.
        offsets: Of the partition.
        found: Batches that are at hand, from the first on, and the entries they lie in.
        entries: Some entries from the offset on, also those of what is found.
    """

    token: int
    error: ErrorCode
    offsets: Offsets = NO_OFFSETS
    found: tuple[tuple[LedgerEntry, Batch], ...] = ()
    entries: tuple[LedgerEntry, ...] = ()


class TopicMade(Value, frozen=True):
    """What has become of a `MakeTopic`, `DeleteTopic` or `AlterTopic`."""

    token: int
    error: ErrorCode


class OffsetsCommitted(Value, frozen=True):
    """What has become of a `CommitOffsets`."""

    token: int
    error: ErrorCode


class GroupsListed(Value, frozen=True):
    """The groups there are; None while that is not known."""

    token: int
    groups: Sequence[str] | None


class LagsMeasured(Value, frozen=True):
    """Records that groups have not processed, of the partitions that are this gateway's."""

    token: int
    lags: Mapping[str, int]


class Coordinating(Value, frozen=True):
    """Of which shares of groups this gateway is the coordinator, and since which epoch."""

    held: Mapping[int, int]


class OffsetsShown(Value, frozen=True):
    """Clients may be told so much of a partition; None: ask another gateway."""

    partition: KafkaPartition
    offsets: Offsets | None


class PartitionLate(Value, frozen=True):
    """A partition that is this gateway's is not served for long: what its owner waits for."""

    partition: KafkaPartition
    waits_for: str


class Catalogued(Value, frozen=True):
    """The topics there are, and those there were."""

    topics: Mapping[str, Topic]
    known: Mapping[str, Topic]


@dataclass(frozen=True, slots=True)
class Shared:
    """Who owns what follows from this.

    Attributes:
        generation: Its number.
        members: Of that.
        moved: See `dafka.groups.assignment`.
        unheard: Those of them that stores have missed for so long that they may be dead.
    """

    generation: int
    members: Mapping[str, Member]
    moved: Mapping[str, str]
    unheard: frozenset[str] = frozenset()
    _owners: dict[Partition, str | None] = field(default_factory=dict, compare=False, repr=False)

    def owner(self, share: Partition) -> str | None:
        """Return the member that owns a share; None if there is nobody.

        Worked out once each: there are thousands, and clients ask for all of them at a time.
        """
        if share in self._owners:
            return self._owners[share]
        found = owner(share, self.members, self.moved)
        if len(self._owners) < OWNERS_MAX:
            self._owners[share] = found
        return found


ClientEvent = (
    AppendBatch
    | Locate
    | Survey
    | DeleteRecords
    | MakeTopic
    | DeleteTopic
    | AlterTopic
    | CommitOffsets
    | ListGroups
    | MeasureLags
)
GatewayEvent = (
    ClientEvent
    | LedgersRead
    | StoreTold
    | TopicsOrdered
    | ChangesOrdered
    | CatalogRead
    | CommitsTold
    | PeerLeft
    | Close
)
ShareEffect = ReadLedger | Answer | Located | OffsetsShown | PartitionLate | LookSoon
Told = (
    Answer
    | Located
    | TopicMade
    | OffsetsCommitted
    | GroupsListed
    | LagsMeasured
    | OffsetsShown
    | Looked
)
"""What clients wait for."""
