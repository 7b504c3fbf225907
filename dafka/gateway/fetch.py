"""Fetch and ListOffsets: stored batches go out as they are; who waits is woken by what arrives."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from dafka.gateway.admin import by_id, look_for
from dafka.gateway.broker import (
    EARLIEST_MS,
    ErrorCode,
    Found,
    KafkaPartition,
    Offsets,
)
from dafka.limits import CLIENT_FETCH_BYTES_MAX, CLIENT_WAIT_MS_MAX
from dafka.records.client_batch import end_of

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from types import SimpleNamespace
    from uuid import UUID

    from dafka.gateway.broker import Broker, Topic

_LOCAL_EARLIEST_MS = -4
"""The first that is not in remote storage: there is none, so this is the first."""

_REMOTE_LATEST_MS = -5
"""The last that is in remote storage: none is."""

_NO_OFFSETS = Offsets(-1, -1)

HELD_BYTES_MAX = 64 * 1024 * 1024
"""What all fetches that wait for more hold of what they have read. There may be a thousand, and
each may want a byte more than there is."""


class HeldBytes:
    """What fetches that wait have read: who finds no room for it is answered with less.

    Args:
        most: How much that may be.
    """

    def __init__(self, most: int = HELD_BYTES_MAX) -> None:
        self._left = most

    def take(self, size: int) -> bool:
        """Hold so much, if there is room."""
        taken = size <= self._left
        self._left -= size if taken else 0
        return taken

    def give(self, size: int) -> None:
        """Hold it no more."""
        self._left += size


class _Read:
    """What is read of one partition for one request."""

    def __init__(self, broker: Broker, topic: str, asked: SimpleNamespace) -> None:
        self.partition = KafkaPartition(topic, asked.partition)
        self.position: int = asked.fetch_offset
        self.left: int = max(1, asked.partition_max_bytes)
        self.offsets = _NO_OFFSETS
        self.batches: list[bytes] = []
        self.error = refusal(broker, self.partition, getattr(asked, "current_leader_epoch", -1))

    @property
    def fields(self) -> dict[str, Any]:
        """As the answer has it."""
        start, end = self.offsets
        return {
            "partition_index": self.partition.number,
            "error_code": self.error,
            "high_watermark": end,
            "last_stable_offset": end,
            "log_start_offset": start,
            "records": self.batches,
        }

    async def go_on(self, broker: Broker, bytes_max: int) -> int:
        """Read what has come, at most so many bytes or one batch; returns how many it is."""
        now = broker.offsets(self.partition)
        if isinstance(now, ErrorCode):
            self.error = now
            return 0
        self.offsets = now
        if not now.start <= self.position <= now.end and not self.batches:
            self.error = ErrorCode.OFFSET_OUT_OF_RANGE
        elif self.position < now.end and self.left > 0:
            return await self._fetch(broker, min(self.left, bytes_max))
        return 0

    async def _fetch(self, broker: Broker, bytes_max: int) -> int:
        found = await broker.fetch(self.partition, self.position, bytes_max)
        if found.error is not ErrorCode.NONE:
            self.error = found.error
            return 0
        self.offsets = found.offsets
        self.batches.extend(found.batches)
        if found.batches:
            self.position = end_of(found.batches[-1])
        size = sum(map(len, found.batches))
        self.left -= size
        return size


async def fetch(
    broker: Broker, body: SimpleNamespace, now_ms: Callable[[], int], held: HeldBytes
) -> dict[str, Any]:
    """Return what a client asks for as soon as there is enough of it, or its time is over."""
    if getattr(body, "session_id", 0):
        return {"error_code": ErrorCode.FETCH_SESSION_ID_NOT_FOUND, "responses": []}
    until_ms = now_ms() + max(0, min(body.max_wait_ms, CLIENT_WAIT_MS_MAX))
    # From version 13 on topics are asked for by their ids.
    names = [getattr(one, "topic", None) for one in body.topics]
    await look_for(broker, [name for name in names if name is not None])
    ids = by_id(broker) if None in names else {}
    topics = [_topic(broker, topic, ids) for topic in body.topics]
    reads = [read for _, of_topic in topics for read in of_topic]
    await _fill(broker, reads, body, until_ms, now_ms, held)
    return {
        "responses": [
            which | {"partitions": [read.fields for read in reads]} for which, reads in topics
        ]
    }


def _topic(
    broker: Broker, asked: SimpleNamespace, ids: Mapping[UUID, Topic]
) -> tuple[dict[str, Any], list[_Read]]:
    """What is read of a topic, and which that is."""
    name = getattr(asked, "topic", None)
    if name is not None:
        return {"topic": name}, [_Read(broker, name, one) for one in asked.partitions]
    topic = ids.get(asked.topic_id)
    reads = [_Read(broker, topic.name if topic else "", one) for one in asked.partitions]
    if topic is None:
        for read in reads:
            read.error = ErrorCode.UNKNOWN_TOPIC_ID
    return {"topic_id": asked.topic_id}, reads


async def _fill(
    broker: Broker,
    reads: Sequence[_Read],
    body: SimpleNamespace,
    until_ms: int,
    now_ms: Callable[[], int],
    held: HeldBytes,
) -> None:
    """Read until there are `min_bytes`, something is wrong, or the time is over."""
    left = room = max(1, min(body.max_bytes, CLIENT_FETCH_BYTES_MAX))
    while True:
        before = left
        for read in reads:
            if read.error is ErrorCode.NONE and left > 0:
                left -= await read.go_on(broker, left)
        left_ms = until_ms - now_ms()
        wrong = any(read.error is not ErrorCode.NONE for read in reads)
        if wrong or left_ms <= 0 or room - left >= min(body.min_bytes, room):
            return
        if left == before:  # all that is there was read
            ends = {read.partition: read.offsets.end for read in reads}
            if not held.take(room - left):
                return
            try:
                await broker.arrival(ends, left_ms / 1_000)
            finally:
                held.give(room - left)


async def list_offsets(broker: Broker, body: SimpleNamespace) -> dict[str, Any]:
    """Return the offsets of times."""
    await look_for(broker, [topic.name for topic in body.topics])
    return {
        "topics": [
            {
                "name": topic.name,
                "partitions": [await _find(broker, topic.name, one) for one in topic.partitions],
            }
            for topic in body.topics
        ]
    }


async def _find(broker: Broker, topic: str, asked: SimpleNamespace) -> dict[str, Any]:
    partition, time_ms = KafkaPartition(topic, asked.partition_index), asked.timestamp
    error = refusal(broker, partition, getattr(asked, "current_leader_epoch", -1))
    if error is not ErrorCode.NONE:
        found = Found(error)
    elif time_ms == _REMOTE_LATEST_MS:
        found = Found(ErrorCode.NONE)
    elif time_ms < _REMOTE_LATEST_MS:
        found = Found(ErrorCode.INVALID_REQUEST)
    else:
        found = await broker.find(
            partition, EARLIEST_MS if time_ms == _LOCAL_EARLIEST_MS else time_ms
        )
    known = found.error is ErrorCode.NONE and found.offset >= 0
    return {
        "partition_index": partition.number,
        "error_code": found.error,
        "timestamp": found.timestamp_ms,
        "offset": found.offset,
        "leader_epoch": broker.leader(partition).epoch if known else -1,
    }


def refusal(broker: Broker, partition: KafkaPartition, epoch: int) -> ErrorCode:
    """Why a client cannot read a partition from the leader whose epoch it names, -1 for any."""
    topic = broker.topic(partition.topic)
    if topic is None or not 0 <= partition.number < topic.partitions:
        return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    if epoch < 0 or epoch == broker.leader(partition).epoch:
        return ErrorCode.NONE
    later = epoch > broker.leader(partition).epoch
    return ErrorCode.UNKNOWN_LEADER_EPOCH if later else ErrorCode.FENCED_LEADER_EPOCH
