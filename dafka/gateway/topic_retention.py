"""`retention.ms` of topics: what is older has no offset any more; stores keep it (ADR 35)."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from dafka.gateway.broker import ErrorCode, KafkaPartition
from dafka.gateway.configs import retention_ms

if TYPE_CHECKING:
    from collections.abc import Callable

    from dafka.gateway.broker import Broker

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

    async def run(self) -> None:
        """Look again and again."""
        while True:
            await self.look()
            await asyncio.sleep(RETAIN_S)

    async def look(self) -> None:
        """Let go of what is too old by now."""
        for topic in self._broker.topics():
            age_ms = retention_ms(topic.configs)
            if age_ms is not None:
                for number in range(topic.partitions):
                    await self._retain(KafkaPartition(topic.name, number), age_ms)

    async def _retain(self, partition: KafkaPartition, age_ms: int) -> None:
        """What cannot be said now is asked at the next look."""
        # Before the search: what comes meanwhile is not old.
        shown = self._broker.offsets(partition)
        if isinstance(shown, ErrorCode) or shown.start == shown.end:
            return
        try:
            async with asyncio.timeout(RETAIN_S):
                found = await self._broker.find(partition, max(0, self._wall_ms() - age_ms))
        except TimeoutError:
            return
        if found.error is ErrorCode.NONE:
            start = shown.end if found.offset < 0 else found.offset
            await self._broker.delete_records(partition, start, RETAIN_S)
