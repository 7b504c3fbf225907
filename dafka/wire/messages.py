"""The messages of RFC 46 and our batch extensions, as values.

`topic` is the RFC's *subject*: the name of the stream. `address` is what the RFC calls address in
that message: the partition's producer, except where the field says otherwise.
"""

from __future__ import annotations

from enum import Enum
from typing import ClassVar

from dafka.model import ALL_SLOTS, Slots, Value


class MessageId(Enum):
    """The octet that names a message; the value is that octet."""

    RECORD = b"M"
    DIRECT_RECORD = b"D"
    RECORDS = b"B"
    DIRECT_RECORDS = b"R"
    FETCH = b"F"
    ACK = b"K"
    HEAD = b"H"
    DIRECT_HEAD = b"E"
    GET_HEADS = b"G"
    CONSUMER_HELLO = b"W"
    STORE_HELLO = b"L"
    LOG_START = b"T"
    SLOT_RECORDS = b"S"
    STORED_RECORDS = b"P"


class RecordMessage(Value, frozen=True):
    """One record, from its producer to everybody. Listened to by topic.

    `batched` says that it was published in a RECORDS as well (extension: a trailing byte, ignored
    by others): who takes those has no use for it.
    """

    id: ClassVar[MessageId] = MessageId.RECORD
    count: ClassVar[int] = 1
    topic: str
    address: str
    sequence: int
    content: bytes
    batched: bool = False


class DirectRecord(Value, frozen=True):
    """One record, to the node that asked for it. Listened to by requester."""

    id: ClassVar[MessageId] = MessageId.DIRECT_RECORD
    count: ClassVar[int] = 1
    requester: str
    topic: str
    address: str
    sequence: int
    content: bytes


class Records(Value, frozen=True):
    """Extension: `count` consecutive records, the first at `sequence`. Listened to by topic.

    `bare` does not travel: it marks what arrived as single values, and has got its time here.
    """

    id: ClassVar[MessageId] = MessageId.RECORDS
    topic: str
    address: str
    sequence: int
    count: int
    content: bytes
    bare: bool = False


class SlotRecords(Records, frozen=True):
    """Extension: the same, for stores that keep some slots only. Listened to by slot.

    The key is the slot of the address in binary, so that a store subscribes to its ranges by few
    prefixes. Published beside RECORDS, and only where somebody has subscribed to that slot.
    """

    id: ClassVar[MessageId] = MessageId.SLOT_RECORDS


class DirectRecords(Value, frozen=True):
    """Extension: `count` consecutive records for one requester."""

    id: ClassVar[MessageId] = MessageId.DIRECT_RECORDS
    requester: str
    topic: str
    address: str
    sequence: int
    count: int
    content: bytes


class StoredRecords(Value, frozen=True):
    """Extension: `count` consecutive records that `store` has on disk, to who listens at it.

    Listened to by store and topic (`channel`): of all stores one sends.
    """

    id: ClassVar[MessageId] = MessageId.STORED_RECORDS
    store: str
    topic: str
    address: str
    sequence: int
    count: int
    content: bytes


def channel(store: str, topic: str) -> str:
    """What to listen for at one store: records of a topic, or with the empty one of all."""
    return f"{store}/{topic}"


ANY_STORE = "*"
"""In place of the store that a FETCH names: each may answer, and nobody else."""


class Fetch(Value, frozen=True):
    """A node misses `count` records from `sequence` on. Listened to by partition address.

    A node that has found one store to have them names it (extension: trailing bytes, ignored by
    others); then nobody else of those who know the extension answers. So it is with `ANY_STORE`:
    what is published and not stored is kept out. Two fields do not travel. `foreign` marks
    requesters without batches, who ask seldom and for much; `by_store` what comes from who has the
    right to be a store.
    """

    id: ClassVar[MessageId] = MessageId.FETCH
    topic: str
    address: str
    requester: str
    sequence: int
    count: int
    store: str | None = None
    foreign: bool = False
    by_store: bool = False


class Ack(Value, frozen=True):
    """A store has every record of the partition up to `sequence` on disk.

    Stores of the C implementation do not say who they are: `store` is None. Ours add the number of
    the run that their last record comes from (extension: trailing bytes, ignored by others), if
    they know it: a producer sees whether it is its own.
    """

    id: ClassVar[MessageId] = MessageId.ACK
    topic: str
    address: str
    store: str | None
    sequence: int
    run: int | None = None


class Head(Value, frozen=True):
    """The last published sequence of a partition. Listened to by topic.

    `stored` says that enough stores have acknowledged all of it (extension: a trailing byte,
    ignored by others). A store need not say so again then, and who has not heard it can ask.
    """

    id: ClassVar[MessageId] = MessageId.HEAD
    topic: str
    address: str
    sequence: int
    stored: bool = False


class DirectHead(Value, frozen=True):
    """The last sequence the sender has of a partition, for one requester.

    A store adds its own address (extension: trailing bytes, ignored by others); then everything up
    to `sequence` is durable there, and the last record comes from `run`, if it knows that. A
    producer leaves both out.
    """

    id: ClassVar[MessageId] = MessageId.DIRECT_HEAD
    requester: str
    topic: str
    address: str
    sequence: int
    store: str | None = None
    run: int | None = None


class GetHeads(Value, frozen=True):
    """Ask for the heads of every partition of `topic`; the empty topic asks for all topics.

    A store that takes some slots in only asks for the heads of these (extension: trailing bytes,
    ignored by others).
    """

    id: ClassVar[MessageId] = MessageId.GET_HEADS
    topic: str
    requester: str
    slots: Slots = ALL_SLOTS


class ConsumerHello(Value, frozen=True):
    """A consumer tells a store what it is subscribed to.

    `foreign` does not travel: it marks consumers without batches.
    """

    id: ClassVar[MessageId] = MessageId.CONSUMER_HELLO
    store: str
    consumer: str
    topics: tuple[str, ...]
    foreign: bool = False


class StoreHello(Value, frozen=True):
    """A store greets a consumer, or another store, that has connected to it.

    One that keeps some slots only says which (extension: trailing bytes, ignored by others).
    """

    id: ClassVar[MessageId] = MessageId.STORE_HELLO
    consumer: str
    store: str
    slots: Slots = ALL_SLOTS


class LogStart(Value, frozen=True):
    """Extension: what was asked for is not kept any more, the first sequence that is.

    For one requester. `sender` is the store that says so, or a distributor's mirror for its source.
    """

    id: ClassVar[MessageId] = MessageId.LOG_START
    requester: str
    topic: str
    address: str
    sequence: int
    sender: str


Message = (
    RecordMessage
    | DirectRecord
    | Records
    | SlotRecords
    | DirectRecords
    | StoredRecords
    | Fetch
    | Ack
    | Head
    | DirectHead
    | GetHeads
    | ConsumerHello
    | StoreHello
    | LogStart
)
Batch = RecordMessage | DirectRecord | Records | DirectRecords | StoredRecords
OfPartition = RecordMessage | DirectRecord | Records | DirectRecords | Head | DirectHead | Fetch
"""What tells a store of one partition, or asks for it."""
