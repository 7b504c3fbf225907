"""A consumer whose waiting is the event loop's."""

from __future__ import annotations

import asyncio
import math
from typing import TYPE_CHECKING, Any, Generic, TypedDict, TypeVar

from dafka.aio.bell import Bell
from dafka.model import K, V
from dafka.node.consumer import LEAVE_S, Consumer
from dafka.node.group import RENEWAL_S

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Mapping, Sequence
    from types import TracebackType
    from typing import Self, Unpack

    from dafka.arrow.frames import ArrowTable, PandasFrame, PolarsFrame
    from dafka.cluster import Cluster
    from dafka.model import Partition, Record
    from dafka.node.frames import FrameKind
    from dafka.node.received import ReceivedBatch
    from dafka.records.serialization import Deserializer

T = TypeVar("T")


class ConsumerOptions(TypedDict, Generic[K, V], total=False):
    """Options of a `dafka.Consumer`, which says what they are."""

    start: str
    positions: Mapping[Partition, int] | None
    isolation: str
    group: str | None
    auto_commit_ms: int | None
    session_timeout_ms: int
    max_hold_ms: int
    buffer_bytes_max: int
    timeout: float | None
    key_deserializer: Deserializer[K] | None
    value_deserializer: Deserializer[V] | None
    connect_timeout: float | None
    delivery: str | None


class AsyncConsumer(Generic[K, V]):
    """A `Consumer` for coroutines of one event loop; one at a time asks it for records.

    It is there once it is made, as a `Consumer` is: sockets are bound without waiting for anybody.
    What is cancelled while it waits takes no record with it.

    Args:
        cluster: Which, or its tower, `tcp://host:port`.
        topics: A topic, or several, up to 10,000.
        **options: As for `Consumer`.

    Raises:
        MisuseError: An argument cannot be used.
    """

    def __init__(
        self,
        cluster: Cluster | str,
        topics: str | Sequence[str],
        **options: Unpack[ConsumerOptions[K, V]],
    ) -> None:
        self._consumer: Consumer[K, V] = Consumer(cluster, topics, **options)
        timeout = self._consumer.timeout
        self._patience_s = math.inf if timeout is None else timeout
        self._bell = Bell()
        self._consumer.listen(self._bell.ring)

    @property
    def address(self) -> str:
        """Names this consumer."""
        return self._consumer.address

    @property
    def towers_away(self) -> frozenset[str]:
        """The towers that are not heard at present; with none that is, no other node is found."""
        return self._consumer.towers_away

    async def __aiter__(self) -> AsyncIterator[Record[K, V]]:
        while (record := await self.poll(self._patience_s)) is not None:
            yield record
            while (record := self._at_hand()) is not None:
                yield record

    async def poll(self, timeout: float) -> Record[K, V] | None:
        """Return the next record, or None if there is none within `timeout` seconds.

        Raises:
            MisuseError: The consumer is closed, and everything it had received is read.
            NodeFailedError: The consumer's thread has ended.
            RebalancedError: In a group: this consumer held records for too long, and is out of it.
            DeserializationError: A deserializer has failed; what follows the record comes next.
            UnreachableError: The cluster is not found within `connect_timeout`.
        """
        record = self._at_hand()
        if record is not None:
            return record
        return await self._polled(lambda: self._consumer.poll(0), timeout)

    async def batches(self) -> AsyncIterator[ReceivedBatch[K, V]]:
        """Iterate over whole batches instead of records: for those who need few of the fields.

        Begins with what is left of the batch whose records were being iterated, if one was.
        """
        while (batch := await self.poll_batch(self._patience_s)) is not None:
            yield batch

    async def poll_batch(
        self, timeout: float, records_max: int | None = None
    ) -> ReceivedBatch[K, V] | None:
        """Return the next batch, as `batches` does, or None if there is none in `timeout` seconds.

        Args:
            timeout: Seconds.
            records_max: Of a larger batch only so many records; the others come next.

        Raises:
            MisuseError, NodeFailedError, RebalancedError, UnreachableError: As `poll`.
        """
        return await self._polled(lambda: self._consumer.poll_batch(0, records_max), timeout)

    async def to_arrow(
        self, *, max_records: int | None = None, timeout: float | None = None
    ) -> ArrowTable:
        """Return the next records as a table of pyarrow; see `Consumer.to_arrow`.

        Raises:
            MissingPackageError, MisuseError, NodeFailedError, RebalancedError, UnreachableError:
                As that.
        """
        return await self._frame("arrow", max_records, timeout)

    async def to_pandas(
        self, *, max_records: int | None = None, timeout: float | None = None
    ) -> PandasFrame:
        """Return the same as a data frame of pandas; see `to_arrow`."""
        return await self._frame("pandas", max_records, timeout)

    async def to_polars(
        self, *, max_records: int | None = None, timeout: float | None = None
    ) -> PolarsFrame:
        """Return the same as a data frame of polars; see `to_arrow`."""
        return await self._frame("polars", max_records, timeout)

    async def _frame(self, kind: FrameKind, max_records: int | None, timeout: float | None) -> Any:  # noqa: ANN401
        gathering = self._consumer.gathering(kind, max_records, timeout)
        try:
            while gathering.left:
                gathering.add(await self.poll_batch(gathering.timeout, gathering.left))
            return await asyncio.to_thread(gathering.made)  # of a million records: a second
        except BaseException:
            self._consumer.take_back(gathering.received)
            raise

    async def commit(self, timeout: float = 10.0) -> None:
        """Commit the position of the group behind everything that was handed over so far.

        Args:
            timeout: Seconds.

        Raises:
            MisuseError: The consumer is in no group.
            NotStoredError: No store has acknowledged it in time; it may come to be stored.
            RebalancedError: Some of it is another member's by now, who gets it again.
        """
        committing = self._consumer.begin_commit()
        await self._bell.until(lambda: committing.done.done() or None, timeout)
        committing.check(timeout)

    def positions(self) -> dict[Partition, int]:
        """Return the sequence that comes next, of each partition that is this consumer's.

        Raises:
            MisuseError: The consumer is in no group.
        """
        return self._consumer.positions()

    def seek(self, topic: str, address: str, sequence: int) -> None:
        """Go on at `sequence` in one partition; what is committed next says so too.

        Raises:
            MisuseError: The partition is not this consumer's at present.
        """
        self._consumer.seek(topic, address, sequence)

    async def seek_to_beginning(self) -> None:
        """Go on at the first record that is kept, in every partition of this consumer.

        Raises:
            QueryError: No store answers.
        """
        await asyncio.to_thread(self._consumer.seek_to_beginning)

    async def seek_to_end(self) -> None:
        """Go on behind the last record, in every partition of this consumer.

        Raises:
            QueryError: No store answers.
        """
        await asyncio.to_thread(self._consumer.seek_to_end)

    async def seek_to_time(self, timestamp_ms: int) -> None:
        """Go on at the first record of this time or later, in every partition of this consumer.

        Raises:
            QueryError: No store answers.
        """
        await asyncio.to_thread(self._consumer.seek_to_time, timestamp_ms)

    async def close(self, timeout: float = LEAVE_S) -> None:
        """Leave the cluster, also if it is cancelled meanwhile.

        A group's positions are committed, if that is done by itself.

        Args:
            timeout: Seconds that stores may take to acknowledge them.

        Raises:
            NotStoredError: No store has acknowledged the last positions.
        """
        await self._closed(timeout, failed=False)

    def __repr__(self) -> str:
        """In a line, at once, whatever it is doing."""
        return f"Async{self._consumer!r}"

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        # Who is thrown out of the middle of a record has not processed it.
        await self._closed(LEAVE_S, failed=error is not None)

    async def _closed(self, timeout: float, *, failed: bool) -> None:
        await asyncio.shield(asyncio.to_thread(self._consumer.leave, timeout, failed=failed))

    def _at_hand(self) -> Record[K, V] | None:
        return None if self._consumer.overslept else self._consumer.next_at_hand()

    async def _polled(self, poll: Callable[[], T | None], timeout: float) -> T | None:
        """What is polled, once there is something; other coroutines have a turn meanwhile."""
        await asyncio.sleep(0)
        loop = asyncio.get_running_loop()
        end_s = loop.time() + timeout
        while self._consumer.overslept:
            await asyncio.sleep(RENEWAL_S)
        left_s = max(0.0, end_s - loop.time())
        return await self._bell.until(poll, left_s, self._consumer.search)
