"""A node behind the Kafka gateway's front, in memory: one gateway that owns all partitions."""

from __future__ import annotations

import asyncio
from bisect import bisect_right
from contextlib import suppress
from itertools import accumulate, count
from typing import TYPE_CHECKING
from uuid import UUID

from dafka.gateway.broker import (
    EARLIEST_MS,
    HIGH_WATERMARK,
    LATEST_MS,
    MAX_TIMESTAMP_MS,
    Entrance,
    ErrorCode,
    Fetched,
    Found,
    Gateway,
    KafkaCommit,
    KafkaPartition,
    Leader,
    Offsets,
    Placed,
    Topic,
)
from dafka.gateway.producers import Producers
from dafka.records.batch import enclosed, raw_records
from dafka.records.client_batch import end_of, placed
from dafka.records.header import header_of

if TYPE_CHECKING:
    from collections.abc import Awaitable, Mapping, Sequence

_NODE = 1
_EPOCH = 3
_TOPICS_MAX = 1_000
_RETENTION_BYTES = "retention.bytes"


class _Log:
    """One partition's batches."""

    def __init__(self) -> None:
        self.producers = Producers()
        self.batches: list[bytes] = []
        self.start = self.end = self.shown = 0

    def append(self, batch: bytes) -> tuple[Placed, int]:
        """Give a batch its place; returns it, and what is shown once the batch is stored."""
        fields = header_of(batch)
        known = self.producers.known(fields)
        if known is not None:
            return known, self.shown
        offset = self.end
        self.producers.add(fields, offset)
        self.batches.append(placed(batch, offset, _EPOCH))
        self.end += fields.records
        return Placed(ErrorCode.NONE, offset, self.start), self.end

    def from_(self, offset: int) -> list[bytes]:
        """The batches that are shown, from the one that has an offset on."""
        first = bisect_right(self.batches, offset, key=end_of)
        return self.batches[first : bisect_right(self.batches, self.shown, key=end_of)]

    def retain(self, bytes_max: int) -> None:
        """Drop the oldest batches, but for the last, until the rest is no larger."""
        while len(self.batches) > 1 and sum(map(len, self.batches)) > bytes_max:
            self.start = end_of(self.batches.pop(0))

    def find(self, timestamp_ms: int) -> Found:
        records = [
            record
            for batch in self.from_(self.start)
            for record in raw_records(enclosed(batch, header_of(batch).base_offset))
        ]
        if timestamp_ms == MAX_TIMESTAMP_MS and records:
            timestamp_ms = max(record.timestamp_ms for record in records)
        for record in records:
            if record.sequence >= self.start and record.timestamp_ms >= timestamp_ms >= 0:
                return Found(ErrorCode.NONE, record.sequence, record.timestamp_ms)
        return Found(ErrorCode.NONE)


class MemoryBroker:
    """The port `dafka.gateway.broker.Broker`.

    Args:
        store_s: How long it takes to store a batch.
    """

    cluster_id = "in-memory"
    node = _NODE
    entrance = Entrance(("tcp://127.0.0.1:5558",), ("tcp://127.0.0.1:5556",))

    def __init__(self, store_s: float = 0) -> None:
        self.endpoint = ("127.0.0.1", 0)
        self.elsewhere: set[KafkaPartition] = set()
        """Partitions that another gateway owns."""
        self.coordinated = Leader(_NODE, _EPOCH)
        """Who coordinates all groups."""
        self.unheard: dict[str, Topic] = {}
        """Topics that another gateway has made."""
        self._store_s = store_s
        self._topics: dict[str, Topic] = {}
        self._logs: dict[KafkaPartition, _Log] = {}
        self._commits: dict[str, dict[KafkaPartition, KafkaCommit]] = {}
        self._ids = count(1)
        self._producer_ids = count(1_000)
        self._changed = asyncio.Event()

    def gateways(self) -> Sequence[Gateway]:
        """This one."""
        return [Gateway(_NODE, *self.endpoint)]

    def controller(self) -> int:
        """This one."""
        return _NODE

    def topic(self, name: str) -> Topic | None:
        """See `Broker`."""
        return self._topics.get(name)

    async def look(self) -> None:
        """See `Broker`."""
        while self.unheard:
            self._add(self.unheard.popitem()[1])

    def topics(self) -> Sequence[Topic]:
        """See `Broker`."""
        return list(self._topics.values())

    def leader(self, partition: KafkaPartition) -> Leader:
        """See `Broker`."""
        return Leader(_NODE + 1 if partition in self.elsewhere else _NODE, _EPOCH)

    async def create(
        self, name: str, partitions: int, configs: Mapping[str, str], timeout_s: float = 0
    ) -> ErrorCode:
        """See `Broker`."""
        if name in self._topics:
            return ErrorCode.TOPIC_ALREADY_EXISTS
        if len(self._topics) >= _TOPICS_MAX:
            return ErrorCode.THROTTLING_QUOTA_EXCEEDED
        self._add(Topic(name, partitions, UUID(int=next(self._ids)), dict(configs)))
        return ErrorCode.NONE

    def _add(self, topic: Topic) -> None:
        self._topics[topic.name] = topic
        for number in range(topic.partitions):
            self._logs[KafkaPartition(topic.name, number)] = _Log()

    async def delete(self, name: str, timeout_s: float) -> ErrorCode:
        """See `Broker`."""
        topic = self._topics.pop(name, None)
        if topic is None:
            return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        for number in range(topic.partitions):
            del self._logs[KafkaPartition(name, number)]
        self._tell()
        return ErrorCode.NONE

    async def alter(
        self, name: str, configs: Mapping[str, str | None], *, whole: bool
    ) -> ErrorCode:
        """See `Broker`."""
        topic = self._topics.get(name)
        if topic is None:
            return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        altered = {**({} if whole else topic.configs), **configs}
        set_ = {name: value for name, value in altered.items() if value is not None}
        self._topics[name] = topic._replace(configs=set_)
        return ErrorCode.NONE

    def append(
        self, partition: KafkaPartition, batch: bytes, acks: int, timeout_s: float
    ) -> Awaitable[Placed]:
        """See `Broker`."""
        loop = asyncio.get_running_loop()
        answer: asyncio.Future[Placed] = loop.create_future()
        log = self._log(partition)
        if isinstance(log, ErrorCode):
            answer.set_result(Placed(log))
            return answer
        found, end = log.append(batch)
        configs = self._topics[partition.topic].configs

        def stored() -> None:
            log.shown = max(log.shown, end)
            if _RETENTION_BYTES in configs and int(configs[_RETENTION_BYTES]) >= 0:
                log.retain(int(configs[_RETENTION_BYTES]))
            self._tell()
            if not answer.done():
                answer.set_result(found)

        if self._store_s == 0:
            stored()
        else:
            loop.call_later(self._store_s, stored)
        if acks != -1 and not answer.done():
            answer.set_result(found)
        if not answer.done():
            loop.call_later(timeout_s, _time_out, answer)
        return answer

    async def fetch(self, partition: KafkaPartition, offset: int, bytes_max: int) -> Fetched:
        """See `Broker`."""
        log = self._log(partition)
        if isinstance(log, ErrorCode):
            return Fetched(log)
        offsets = Offsets(log.start, log.shown)
        if not log.start <= offset <= log.shown:
            return Fetched(ErrorCode.OFFSET_OUT_OF_RANGE, offsets)
        batches = log.from_(offset)
        sizes = list(accumulate(map(len, batches)))
        return Fetched(ErrorCode.NONE, offsets, batches[: max(1, bisect_right(sizes, bytes_max))])

    def offsets(self, partition: KafkaPartition) -> Offsets | ErrorCode:
        """See `Broker`."""
        log = self._log(partition)
        return log if isinstance(log, ErrorCode) else Offsets(log.start, log.shown)

    async def arrival(self, ends: Mapping[KafkaPartition, int], timeout_s: float) -> None:
        """See `Broker`."""
        with suppress(TimeoutError):
            async with asyncio.timeout(timeout_s):
                while not any(self._has_more(*one) for one in ends.items()):
                    await self._changed.wait()

    async def find(self, partition: KafkaPartition, timestamp_ms: int) -> Found:
        """See `Broker`."""
        log = self._log(partition)
        if isinstance(log, ErrorCode):
            return Found(log)
        if timestamp_ms == LATEST_MS:
            return Found(ErrorCode.NONE, log.shown)
        if timestamp_ms == EARLIEST_MS:
            return Found(ErrorCode.NONE, log.start)
        return log.find(timestamp_ms)

    async def delete_records(
        self, partition: KafkaPartition, start: int, timeout_s: float
    ) -> Offsets | ErrorCode:
        """See `Broker`."""
        log = self._log(partition)
        if isinstance(log, ErrorCode):
            return log
        start = log.shown if start == HIGH_WATERMARK else start
        if not 0 <= start <= log.shown:
            return ErrorCode.OFFSET_OUT_OF_RANGE
        log.start = max(start, log.start)
        return Offsets(log.start, log.shown)

    async def producer_id(self) -> tuple[int, int] | ErrorCode:
        """See `Broker`."""
        return next(self._producer_ids), 0

    def coordinator(self, group: str) -> Leader:
        """See `Broker`."""
        return self.coordinated

    async def commit(
        self, group: str, epoch: int, offsets: Mapping[KafkaPartition, KafkaCommit | None]
    ) -> ErrorCode:
        """See `Broker`."""
        await asyncio.sleep(self._store_s)
        if self.coordinated != (_NODE, epoch):
            return ErrorCode.NOT_COORDINATOR
        commits = self._commits.setdefault(group, {})
        for partition, committed in offsets.items():
            if committed is None:
                commits.pop(partition, None)
            else:
                commits[partition] = committed
        return ErrorCode.NONE

    def brought(self, group: str, commits: Mapping[KafkaPartition, KafkaCommit]) -> None:
        """Another cluster has committed: as if a link had brought it."""
        self._commits.setdefault(group, {}).update(commits)

    async def committed(self, group: str) -> Mapping[KafkaPartition, KafkaCommit] | ErrorCode:
        """See `Broker`."""
        if self.coordinated.node != _NODE:
            return ErrorCode.NOT_COORDINATOR
        return dict(self._commits.get(group, {}))

    async def groups(self) -> Sequence[str] | ErrorCode:
        """See `Broker`."""
        mine = self.coordinated.node == _NODE
        return [group for group, commits in self._commits.items() if commits and mine]

    async def forget_group(self, group: str) -> ErrorCode:
        """See `Broker`."""
        if self.coordinated.node != _NODE:
            return ErrorCode.NOT_COORDINATOR
        self._commits.pop(group, None)
        return ErrorCode.NONE

    def _log(self, partition: KafkaPartition) -> _Log | ErrorCode:
        if partition in self.elsewhere:
            return ErrorCode.NOT_LEADER_OR_FOLLOWER
        return self._logs.get(partition, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)

    def _has_more(self, partition: KafkaPartition, end: int) -> bool:
        log = self._log(partition)
        return isinstance(log, ErrorCode) or log.shown > end

    def _tell(self) -> None:
        """Wake whoever waits for something to change."""
        self._changed.set()
        self._changed = asyncio.Event()


def _time_out(answer: asyncio.Future[Placed]) -> None:
    if not answer.done():
        answer.set_result(Placed(ErrorCode.REQUEST_TIMED_OUT))
