"""What the node of a gateway is asked by clients, and what it tells them; see `machine`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from dafka.gateway.broker import Offsets

if TYPE_CHECKING:
    from collections.abc import Mapping

    from dafka.gateway.broker import ErrorCode, KafkaPartition, Placed, Topic
    from dafka.gateway.events import StoreRead
    from dafka.gateway.ledger import LedgerEntry
    from dafka.groups.membership import Member
    from dafka.model import Batch, Partition

NO_OFFSETS = Offsets(-1, -1)


@dataclass(frozen=True, slots=True)
class Append:
    """Event: store a checked batch of a client; answered by `Answer`."""

    token: int
    partition: KafkaPartition
    batch: bytes
    acks: int


@dataclass(frozen=True, slots=True)
class Locate:
    """Event: where are the records from an offset on? Answered by `Located`."""

    token: int
    partition: KafkaPartition
    offset: int
    bytes_max: int


@dataclass(frozen=True, slots=True)
class Survey:
    """Event: which entries does a partition have? Answered by `Located`, all of them unread."""

    token: int
    partition: KafkaPartition


@dataclass(frozen=True, slots=True)
class MakeTopic:
    """Event: make a topic; answered by `TopicMade` once the controller has decided."""

    token: int
    topic: Topic


@dataclass(frozen=True, slots=True)
class LedgersRead:
    """Event: what a store has of partitions that were to be read, by partition and epoch."""

    found: Mapping[tuple[KafkaPartition, int], StoreRead]


@dataclass(frozen=True, slots=True)
class StoreTold:
    """Event: what a store keeps of the partitions that have changed there."""

    store: str
    kept: Mapping[Partition, range]


@dataclass(frozen=True, slots=True)
class TopicsOrdered:
    """Event: topics in the order of their offsets in `__topics`, which clients may be told of."""

    epoch: int
    topics: tuple[Topic, ...]


@dataclass(frozen=True, slots=True)
class CatalogRead:
    """Event: what a controller has said."""

    topics: tuple[Topic, ...]


@dataclass(frozen=True, slots=True)
class Close:
    """Event: serve nobody any more, and leave."""


@dataclass(frozen=True, slots=True)
class ReadLedger:
    """Read a partition's ledger and records in every store, again and again until it answers."""

    partition: KafkaPartition
    epoch: int
    token: int


@dataclass(frozen=True, slots=True)
class Answer:
    """What has become of an `Append`."""

    token: int
    placed: Placed


@dataclass(frozen=True, slots=True)
class Located:
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


@dataclass(frozen=True, slots=True)
class TopicMade:
    """What has become of a `MakeTopic`."""

    token: int
    error: ErrorCode


@dataclass(frozen=True, slots=True)
class Shown:
    """Clients may be told so much of a partition; None: ask another gateway."""

    partition: KafkaPartition
    offsets: Offsets | None


@dataclass(frozen=True, slots=True)
class Catalogued:
    """The topics there are."""

    topics: Mapping[str, Topic]


@dataclass(frozen=True, slots=True)
class Shared:
    """Who owns what follows from this."""

    generation: int
    members: Mapping[str, Member]
    moved: Mapping[str, str]


ClientEvent = Append | Locate | Survey | MakeTopic
GatewayEvent = ClientEvent | LedgersRead | StoreTold | TopicsOrdered | CatalogRead | Close
ShareEffect = ReadLedger | Answer | Shown
