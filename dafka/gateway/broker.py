"""What the gateway's front asks of the node behind it: topics, offsets, records.

The front speaks Kafka to clients and keeps nothing; the node stores, gives offsets and owns
partitions. Between them stand these types and `Broker` alone. Batches go through as Kafka clients
write them (`dafka.records.client_batch`), and nothing here raises for what a client sends.
"""

from __future__ import annotations

from enum import IntEnum
from typing import TYPE_CHECKING, NamedTuple, Protocol

if TYPE_CHECKING:
    from collections.abc import Awaitable, Mapping, Sequence
    from uuid import UUID

NOBODY = -1
"""In place of a node: there is none yet."""


class ErrorCode(IntEnum):
    """Kafka's error codes, as far as they are answered here; clients know what to do about each."""

    UNKNOWN_SERVER_ERROR = -1
    NONE = 0
    OFFSET_OUT_OF_RANGE = 1
    CORRUPT_MESSAGE = 2
    UNKNOWN_TOPIC_OR_PARTITION = 3
    LEADER_NOT_AVAILABLE = 5
    NOT_LEADER_OR_FOLLOWER = 6
    REQUEST_TIMED_OUT = 7
    MESSAGE_TOO_LARGE = 10
    OFFSET_METADATA_TOO_LARGE = 12
    COORDINATOR_LOAD_IN_PROGRESS = 14
    COORDINATOR_NOT_AVAILABLE = 15
    NOT_COORDINATOR = 16
    INVALID_TOPIC = 17
    NOT_ENOUGH_REPLICAS = 19
    INVALID_REQUIRED_ACKS = 21
    ILLEGAL_GENERATION = 22
    INCONSISTENT_GROUP_PROTOCOL = 23
    INVALID_GROUP_ID = 24
    UNKNOWN_MEMBER_ID = 25
    INVALID_SESSION_TIMEOUT = 26
    REBALANCE_IN_PROGRESS = 27
    TOPIC_AUTHORIZATION_FAILED = 29
    GROUP_AUTHORIZATION_FAILED = 30
    UNSUPPORTED_SASL_MECHANISM = 33
    ILLEGAL_SASL_STATE = 34
    UNSUPPORTED_VERSION = 35
    TOPIC_ALREADY_EXISTS = 36
    INVALID_PARTITIONS = 37
    INVALID_REPLICATION_FACTOR = 38
    INVALID_REPLICA_ASSIGNMENT = 39
    INVALID_CONFIG = 40
    INVALID_REQUEST = 42
    UNSUPPORTED_FOR_MESSAGE_FORMAT = 43
    OUT_OF_ORDER_SEQUENCE_NUMBER = 45
    DUPLICATE_SEQUENCE_NUMBER = 46
    INVALID_PRODUCER_EPOCH = 47
    TRANSACTIONAL_ID_AUTHORIZATION_FAILED = 53
    KAFKA_STORAGE_ERROR = 56
    SASL_AUTHENTICATION_FAILED = 58
    UNKNOWN_PRODUCER_ID = 59
    NON_EMPTY_GROUP = 68
    GROUP_ID_NOT_FOUND = 69
    FETCH_SESSION_ID_NOT_FOUND = 70
    FENCED_LEADER_EPOCH = 74
    UNKNOWN_LEADER_EPOCH = 75
    UNSUPPORTED_COMPRESSION_TYPE = 76
    MEMBER_ID_REQUIRED = 79
    GROUP_MAX_SIZE_REACHED = 81
    FENCED_INSTANCE_ID = 82
    GROUP_SUBSCRIBED_TO_TOPIC = 86
    INVALID_RECORD = 87
    THROTTLING_QUOTA_EXCEEDED = 89
    UNKNOWN_TOPIC_ID = 100
    FENCED_MEMBER_EPOCH = 110
    UNRELEASED_INSTANCE_ID = 111
    UNSUPPORTED_ASSIGNOR = 112
    STALE_MEMBER_EPOCH = 113
    INVALID_REGULAR_EXPRESSION = 128


class KafkaPartition(NamedTuple):
    """A numbered range of a topic's slots: what a Kafka client calls a partition."""

    topic: str
    number: int


class Gateway(NamedTuple):
    """A gateway of the cluster, which Kafka's Metadata calls a broker.

    Attributes:
        node: Its number, the same for as long as it lives.
        host: Where clients reach it.
        port: Where clients reach it.
    """

    node: int
    host: str
    port: int


class Entrance(NamedTuple):
    """Where jobs come into the cluster itself, past its gateways.

    Attributes:
        stores: Query ports of its stores.
        towers: Where its nodes find each other.
        keys: Whether only those come in who have a key.
        insecure: Whether anybody may, from any host.
        wire: How its nodes write to each other.
    """

    stores: tuple[str, ...]
    towers: tuple[str, ...]
    keys: bool = False
    insecure: bool = False
    wire: str = ""


class Topic(NamedTuple):
    """A topic as Kafka clients see it.

    Attributes:
        name: As it is on the mesh.
        partitions: How many, fixed when it was created.
        id: Not zero, and the same for as long as the topic is.
        configs: Those that were set, by Kafka's names.
    """

    name: str
    partitions: int
    id: UUID
    configs: Mapping[str, str]


class Leader(NamedTuple):
    """Who serves a partition.

    Attributes:
        node: Of the gateway that owns it; `NOBODY` while there is none.
        epoch: Of its ownership; rises with each owner.
    """

    node: int
    epoch: int


class Offsets(NamedTuple):
    """What there is of a partition.

    Attributes:
        start: The first offset that is kept.
        end: The high watermark: what may be read lies below.
    """

    start: int
    end: int


class Placed(NamedTuple):
    """What became of a batch.

    Attributes:
        error: `NONE` if it is stored, also if it had been stored before.
        offset: Of its first record; -1 if that is not known.
        start: The partition's log start; -1 if that is not known.
    """

    error: ErrorCode
    offset: int = -1
    start: int = -1


class Fetched(NamedTuple):
    """What was read of a partition.

    Attributes:
        error: `OFFSET_OUT_OF_RANGE` below the log start and beyond the end, among others.
        offsets: As they were when it was read.
        batches: Whole ones, in order; base offset and leader epoch are right.
    """

    error: ErrorCode
    offsets: Offsets = Offsets(-1, -1)
    batches: Sequence[bytes] = ()


class Found(NamedTuple):
    """The first record at or behind a time; offset and time are -1 if there is none."""

    error: ErrorCode
    offset: int = -1
    timestamp_ms: int = -1


class KafkaCommit(NamedTuple):
    """What a group has committed of a partition.

    Attributes:
        offset: Of the first record that it has not processed.
        leader_epoch: Of the last that it has, as the client says; -1 if it does not.
        metadata: What the client wants to remember with it.
    """

    offset: int
    leader_epoch: int = -1
    metadata: str = ""


HIGH_WATERMARK = -1
"""Instead of an offset."""

LATEST_MS, EARLIEST_MS, MAX_TIMESTAMP_MS = -1, -2, -3
"""Instead of a time: the high watermark, the log start, the record with the largest timestamp."""


class Broker(Protocol):
    """The node behind the front.

    It answers for partitions that this gateway owns, and with `NOT_LEADER_OR_FOLLOWER` for others.
    Whatever is awaited may be cancelled: what a cancelled `append` was given is stored or not.
    """

    @property
    def cluster_id(self) -> str:
        """The name of the cluster, at most 249 characters."""

    @property
    def node(self) -> int:
        """The number of this gateway."""

    @property
    def entrance(self) -> Entrance:
        """Where one comes into the cluster; no secret, as keys keep strangers out."""

    def gateways(self) -> Sequence[Gateway]:
        """All that are there, this one among them."""

    def controller(self) -> int:
        """The number of one that creates and deletes topics: any of them can."""

    def topic(self, name: str) -> Topic | None:
        """Return a topic; None if there is none."""

    async def look(self) -> None:
        """Hear at once of topics that were made a moment ago, as far as stores know of them."""

    def topics(self) -> Sequence[Topic]:
        """All of them; best the same value until that changes."""

    def leader(self, partition: KafkaPartition) -> Leader:
        """Who owns a partition of a topic that is there."""

    async def create(
        self, name: str, partitions: int, configs: Mapping[str, str], timeout_s: float
    ) -> ErrorCode:
        """Make a topic; the name, the number and the configs have been checked.

        Args:
            name: Of the topic.
            partitions: How many.
            configs: Those that are set.
            timeout_s: After how long the answer is `REQUEST_TIMED_OUT`; it is made still.
        """

    async def delete(self, name: str, timeout_s: float) -> ErrorCode:
        """Delete a topic in this cluster: nothing that it has is shown any more.

        Args:
            name: Which.
            timeout_s: After how long the answer is `REQUEST_TIMED_OUT`; it happens still.
        """

    async def alter(
        self, name: str, configs: Mapping[str, str | None], *, whole: bool
    ) -> ErrorCode:
        """Let a topic have other configs in this cluster; they have been checked.

        Args:
            name: Which.
            configs: What is set, or with None is what it is where nothing is.
            whole: Whether nothing else is set any more.
        """

    def append(
        self, partition: KafkaPartition, batch: bytes, acks: int, timeout_s: float
    ) -> Awaitable[Placed]:
        """Store one batch that `dafka.records.client_batch` has checked.

        It gets its place by the order of the calls, whatever becomes of what is returned. A batch
        that a producer sends again is not stored again (`dafka.gateway.producers`).

        Args:
            partition: Any.
            batch: As the client sent it.
            acks: 1 or 0: it is enough that this gateway has it; -1: it is stored as safely as the
                cluster promises.
            timeout_s: After how long the answer is `REQUEST_TIMED_OUT`; the batch may be stored.
        """

    async def fetch(self, partition: KafkaPartition, offset: int, bytes_max: int) -> Fetched:
        """Return the batches from the one that has `offset` on; never waits for more to come.

        At least one batch is returned if there is any, however large; the rest only as fits.
        """

    def offsets(self, partition: KafkaPartition) -> Offsets | ErrorCode:
        """What there is of a partition."""

    async def arrival(self, ends: Mapping[KafkaPartition, int], timeout_s: float) -> None:
        """Wait until one of the partitions has more than below its end, or is somebody else's.

        Args:
            ends: By partition, the high watermark that is known.
            timeout_s: How long to wait at most.
        """

    async def find(self, partition: KafkaPartition, timestamp_ms: int) -> Found:
        """Return the first record whose time is `timestamp_ms` or later.

        Also `LATEST_MS`, `EARLIEST_MS` and `MAX_TIMESTAMP_MS`.
        """

    async def delete_records(
        self, partition: KafkaPartition, start: int, timeout_s: float
    ) -> Offsets | ErrorCode:
        """Let a partition's offsets begin later; they never begin earlier again.

        Args:
            partition: Any.
            start: The first offset that may name a record, or `HIGH_WATERMARK`.
            timeout_s: After how long the answer is `REQUEST_TIMED_OUT`; it may happen still.

        Returns:
            What there is then, once that is kept as safely as the offsets are.
        """

    async def producer_id(self) -> tuple[int, int] | ErrorCode:
        """A number for a producer that no producer has had, and the epoch it begins with."""

    def coordinator(self, group: str) -> Leader:
        """Who coordinates a group, as `leader` says who owns a partition."""

    async def commit(
        self, group: str, epoch: int, offsets: Mapping[KafkaPartition, KafkaCommit | None]
    ) -> ErrorCode:
        """Keep what a group has committed; None is to be forgotten.

        Args:
            group: One that this gateway coordinates.
            epoch: Of its ownership, as `coordinator` said it.
            offsets: By partition.

        Returns:
            `NONE` once as many stores have it as block a majority, and this gateway still owned the
            group, in that epoch, after they had said so; else `NOT_COORDINATOR`,
            `REQUEST_TIMED_OUT`, or another.
        """

    async def committed(self, group: str) -> Mapping[KafkaPartition, KafkaCommit] | ErrorCode:
        """What a group has committed, as a majority of the stores knows it.

        `COORDINATOR_LOAD_IN_PROGRESS` while that is not known.
        """

    async def groups(self) -> Sequence[str] | ErrorCode:
        """The groups with commits that this gateway coordinates."""

    async def forget_group(self, group: str) -> ErrorCode:
        """Forget all that a group has committed."""
