"""Walks over the ledger of a Kafka partition, of which the node tells a bounded part at a time."""

from __future__ import annotations

import logging
from functools import partial
from typing import TYPE_CHECKING

from dafka.errors import QueryError, RecordError
from dafka.gateway.broker import MAX_TIMESTAMP_MS, ErrorCode, Found
from dafka.gateway.effects import Located, Survey
from dafka.node.record_reader import RecordReader

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable

    from dafka.gateway.broker import KafkaPartition
    from dafka.gateway.effects import ClientEvent

    Ask = Callable[[Callable[[int], ClientEvent]], Awaitable[object]]
    Read = Callable[[Callable[[RecordReader], Found]], Awaitable[Found]]


log = logging.getLogger(__name__)

PART_ENTRIES = 4_000
"""Entries of a part: some milliseconds of the node's thread, in which nothing else is done."""

FIND_MS_MAX = 10_000
"""So long a look-up by time may take, in its queue and out of it; clients wait for 30 s."""


class LedgerSearch:
    """Looks up records of partitions that this gateway owns.

    Args:
        ask: To the node.
        read: To the stores.
        clock_ms: The time, as `RecordReader` has it.
        part_entries: See `PART_ENTRIES`.
    """

    def __init__(
        self, ask: Ask, read: Read, clock_ms: Callable[[], int], part_entries: int = PART_ENTRIES
    ) -> None:
        self._ask, self._read, self._clock_ms = ask, read, clock_ms
        self._part_entries = part_entries

    async def parts(self, partition: KafkaPartition) -> AsyncIterator[Located]:
        """Yield all that clients may be told of a partition; where that fails, why."""
        start = 0
        while True:
            located = await self._part(partition, start)
            yield located
            if not located.entries or located.entries[-1].end >= located.offsets.end:
                return
            start = located.entries[-1].end

    async def find(self, partition: KafkaPartition, timestamp_ms: int) -> Found:
        """Return the first record of a time or later, or of the largest (`MAX_TIMESTAMP_MS`)."""
        try:
            return await self._find(partition, timestamp_ms, self._clock_ms() + FIND_MS_MAX)
        except TimeoutError:
            return Found(ErrorCode.REQUEST_TIMED_OUT)
        except (QueryError, RecordError) as error:
            log.warning("cannot read records: %s", error, extra={"topic": partition.topic})
            return Found(ErrorCode.KAFKA_STORAGE_ERROR)

    async def _find(self, partition: KafkaPartition, timestamp_ms: int, until_ms: int) -> Found:
        found = Found(ErrorCode.NONE)
        async for located in self.parts(partition):
            if located.error is not ErrorCode.NONE:
                return Found(located.error)
            if timestamp_ms == MAX_TIMESTAMP_MS:
                search = partial(RecordReader.newest, best=found)
            else:
                search = partial(RecordReader.find, timestamp_ms=timestamp_ms)
            about = {"topic": partition.topic, "entries": located.entries, "until_ms": until_ms}
            found = await self._read(partial(search, **about))
            if found.offset >= 0 and timestamp_ms != MAX_TIMESTAMP_MS:
                break  # parts come in the order of offsets
        return found

    async def _part(self, partition: KafkaPartition, start: int) -> Located:
        located = await self._ask(lambda token: Survey(token, partition, start, self._part_entries))
        assert isinstance(located, Located)
        return located
