"""`retention.ms` of topics: what is older has no offset any more; stores keep it (ADR 35)."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from dafka.gateway.broker import ErrorCode, KafkaPartition
from dafka.gateway.configs import retention_ms

if TYPE_CHECKING:
    from collections.abc import Callable

    from dafka.gateway.broker import Broker, Found

RETAIN_S = 60.0
"""Between two looks, and as long as one partition may take."""


class TopicRetention:
    """Lets partitions that are this gateway's begin later, one after the other.

    Args:
        broker: The node.
        wall_ms: The time, as records have it.
    """

    def __init__(self, broker: Broker, wall_ms: Callable[[], int]) -> None:
        self._broker, self._wall_ms = broker, wall_ms
        self._firsts: dict[KafkaPartition, Found] = {}
        """The first record of those of which it was not too old at the last look."""

    async def run(self) -> None:
        """Look again and again."""
        while True:
            await self.look()
            await asyncio.sleep(RETAIN_S)

    async def look(self) -> None:
        """Let go of what is too old by now."""
        before, self._firsts = self._firsts, {}
        for topic in self._broker.topics():
            if retention_ms(topic.configs) is None:
                continue
            for number in range(topic.partitions):
                partition = KafkaPartition(topic.name, number)
                await self._retain(partition, before.get(partition))

    async def _retain(self, partition: KafkaPartition, first: Found | None) -> None:
        """What cannot be said now is asked at the next look."""
        # Now: the partitions before have taken their time.
        topic = self._broker.topic(partition.topic)
        age_ms = None if topic is None else retention_ms(topic.configs)
        if age_ms is None:
            return
        # Before the search: what comes meanwhile is not old.
        shown = self._broker.offsets(partition)
        if isinstance(shown, ErrorCode) or shown.start == shown.end:
            return
        since_ms = max(0, self._wall_ms() - age_ms)
        if first is None or first.offset != shown.start or first.timestamp_ms < since_ms:
            try:
                async with asyncio.timeout(RETAIN_S):
                    first = await self._broker.find(partition, since_ms)
            except TimeoutError:
                return
            if first.error is not ErrorCode.NONE or self._broker.topic(partition.topic) != topic:
                return  # it may have been altered, or made again
            start = shown.end if first.offset < 0 else first.offset
            await self._broker.delete_records(partition, start, RETAIN_S)
        if first.offset >= 0:
            self._firsts[partition] = first
