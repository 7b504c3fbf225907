"""What one user may do: the node behind, as far as it is the user's to use."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from dafka.gateway.broker import ErrorCode, Fetched, Found, Placed

if TYPE_CHECKING:
    from collections.abc import Awaitable, Mapping, Sequence

    from dafka.gateway.broker import (
        Broker,
        Entrance,
        Gateway,
        KafkaCommit,
        KafkaPartition,
        Leader,
        Offsets,
        Topic,
    )
    from dafka.transport.access import Rights

_DENIED = ErrorCode.TOPIC_AUTHORIZATION_FAILED


class PermittedBroker:
    """A `Broker` for one user: topics that it may neither read nor write are not there.

    Args:
        broker: The node.
        rights: The user's.
    """

    def __init__(self, broker: Broker, rights: Rights) -> None:
        self._broker, self._rights = broker, rights

    @property
    def cluster_id(self) -> str:
        """See `Broker`."""
        return self._broker.cluster_id

    @property
    def node(self) -> int:
        """See `Broker`."""
        return self._broker.node

    @property
    def entrance(self) -> Entrance:
        """See `Broker`."""
        return self._broker.entrance

    def gateways(self) -> Sequence[Gateway]:
        """See `Broker`."""
        return self._broker.gateways()

    def controller(self) -> int:
        """See `Broker`."""
        return self._broker.controller()

    def topic(self, name: str) -> Topic | None:
        """See `Broker`."""
        return self._broker.topic(name) if self._knows(name) else None

    async def look(self) -> None:
        """See `Broker`."""
        await self._broker.look()

    def topics(self) -> Sequence[Topic]:
        """See `Broker`."""
        return [topic for topic in self._broker.topics() if self._knows(topic.name)]

    def leader(self, partition: KafkaPartition) -> Leader:
        """See `Broker`."""
        return self._broker.leader(partition)

    async def create(
        self, name: str, partitions: int, configs: Mapping[str, str], timeout_s: float
    ) -> ErrorCode:
        """See `Broker`."""
        if not self._rights.may_write(name):
            return _DENIED
        return await self._broker.create(name, partitions, configs, timeout_s)

    async def delete(self, name: str, timeout_s: float) -> ErrorCode:
        """See `Broker`."""
        if not self._rights.may_write(name):
            return _DENIED
        return await self._broker.delete(name, timeout_s)

    async def alter(
        self, name: str, configs: Mapping[str, str | None], *, whole: bool
    ) -> ErrorCode:
        """See `Broker`."""
        if not self._rights.may_write(name):
            return _DENIED
        return await self._broker.alter(name, configs, whole=whole)

    def append(
        self, partition: KafkaPartition, batch: bytes, acks: int, timeout_s: float
    ) -> Awaitable[Placed]:
        """See `Broker`."""
        if self._rights.may_write(partition.topic):
            return self._broker.append(partition, batch, acks, timeout_s)
        denied = asyncio.get_running_loop().create_future()
        denied.set_result(Placed(_DENIED))
        return denied

    async def fetch(self, partition: KafkaPartition, offset: int, bytes_max: int) -> Fetched:
        """See `Broker`."""
        if not self._rights.may_read(partition.topic):
            return Fetched(_DENIED)
        return await self._broker.fetch(partition, offset, bytes_max)

    def offsets(self, partition: KafkaPartition) -> Offsets | ErrorCode:
        """See `Broker`."""
        if not self._rights.may_read(partition.topic):
            return _DENIED
        return self._broker.offsets(partition)

    async def arrival(self, ends: Mapping[KafkaPartition, int], timeout_s: float) -> None:
        """See `Broker`."""
        may = {one: end for one, end in ends.items() if self._rights.may_read(one.topic)}
        await self._broker.arrival(may, timeout_s)

    async def find(self, partition: KafkaPartition, timestamp_ms: int) -> Found:
        """See `Broker`."""
        if not self._rights.may_read(partition.topic):
            return Found(_DENIED)
        return await self._broker.find(partition, timestamp_ms)

    async def delete_records(
        self, partition: KafkaPartition, start: int, timeout_s: float
    ) -> Offsets | ErrorCode:
        """See `Broker`."""
        if not self._rights.may_write(partition.topic):
            return _DENIED
        return await self._broker.delete_records(partition, start, timeout_s)

    async def producer_id(self) -> tuple[int, int] | ErrorCode:
        """See `Broker`."""
        return await self._broker.producer_id()

    def coordinator(self, group: str) -> Leader:
        """See `Broker`."""
        return self._broker.coordinator(group)

    async def commit(
        self, group: str, epoch: int, offsets: Mapping[KafkaPartition, KafkaCommit | None]
    ) -> ErrorCode:
        """See `Broker`; whose groups they are is looked at by `Coordinators`."""
        return await self._broker.commit(group, epoch, offsets)

    async def committed(self, group: str) -> Mapping[KafkaPartition, KafkaCommit] | ErrorCode:
        """See `Broker`."""
        return await self._broker.committed(group)

    async def groups(self) -> Sequence[str] | ErrorCode:
        """See `Broker`."""
        return await self._broker.groups()

    async def forget_group(self, group: str) -> ErrorCode:
        """See `Broker`."""
        return await self._broker.forget_group(group)

    def _knows(self, topic: str) -> bool:
        return self._rights.may_read(topic) or self._rights.may_write(topic)
