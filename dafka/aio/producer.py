"""A producer whose waiting is the event loop's."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Generic, TypedDict, TypeVar

from dafka.aio.bell import Bell
from dafka.errors import BufferFullError, UnreachableError
from dafka.model import K, V
from dafka.node.producer import Producer
from dafka.node.search import LOOK_S
from dafka.records.serialization import Serializers

if TYPE_CHECKING:
    import os
    from collections.abc import Callable, Generator, Sequence
    from concurrent.futures import Future
    from types import TracebackType
    from typing import Self, Unpack

    from dafka.cluster import Cluster
    from dafka.node.delivery import Delivery
    from dafka.node.search import Search
    from dafka.records.serialization import Serializer

T = TypeVar("T")

MAX_BLOCK_MS = 60_000
"""As a `Producer` waits for room."""


class ProducerOptions(TypedDict, Generic[K, V], total=False):
    """Options of a `dafka.Producer`, which says what they are."""

    linger_ms: int
    batch_bytes_max: int
    buffer_bytes_max: int
    max_block_ms: int
    min_acks: int
    spool: str | os.PathLike[str] | None
    content: str | None
    compression: str
    key_serializer: Serializer[K] | None
    value_serializer: Serializer[V] | None
    connect_timeout: float | None
    delivery: str | None


class PendingDelivery:
    """What became of records that were sent: awaited, their batch's `Delivery`.

    As often and by as many as like; who is cancelled while he awaits it cancels nobody else.
    """

    __slots__ = ("_future", "_search")

    def __init__(self, future: Future[Delivery], search: Search) -> None:
        self._future = future
        self._search = search

    def done(self) -> bool:
        """Whether it is decided."""
        return self._future.done()

    def __await__(self) -> Generator[object, None, Delivery]:
        """Wait for it.

        Raises:
            NotStoredError, HoleError, AddressInUseError: As of a `Producer`'s future.
            UnreachableError: The cluster is not found within `connect_timeout`.
        """
        if self._search.found:
            return asyncio.wrap_future(self._future).__await__()
        return self._delivered().__await__()

    async def _delivered(self) -> Delivery:
        future = asyncio.wrap_future(self._future)
        try:
            while not (self._future.done() or self._search.found):
                await asyncio.wait((future,), timeout=LOOK_S)
                self._search.check()
            return await future
        finally:
            future.cancel()  # only this one: the batch's is nobody's to cancel


class AsyncProducer(Generic[K, V]):
    """A `Producer` for coroutines of one event loop.

    It is there once it is made, as a `Producer` is: sockets are bound, and the spool is opened,
    without waiting for anybody. `async with` flushes at the end and leaves the cluster.

    Args:
        cluster: Which, or its tower, `tcp://host:port`.
        **options: As for `Producer`.

    Raises:
        MisuseError: An argument cannot be used.
        StorageError: The spool cannot be used, or another producer has it.
    """

    def __init__(self, cluster: Cluster | str, **options: Unpack[ProducerOptions[K, V]]) -> None:
        self._serializers = Serializers.given(
            options.pop("key_serializer", None), options.pop("value_serializer", None)
        )
        self._max_block_ms = options.pop("max_block_ms", MAX_BLOCK_MS)
        # It never waits for room: this here does, without keeping the loop from others.
        options["max_block_ms"] = min(0, self._max_block_ms)
        self._producer: Producer[Any, Any] = Producer(cluster, **options)
        self._search = self._producer.search
        self._bell = Bell()
        self._producer.listen(self._bell.ring)

    @property
    def address(self) -> str:
        """Names this producer, and with a topic a partition."""
        return self._producer.address

    @property
    def resumed(self) -> int:
        """Records found in the spool: sent earlier, stored by nobody yet as far as is known."""
        return self._producer.resumed

    async def send(
        self,
        topic: str,
        value: V | None,
        *,
        key: K | None = None,
        headers: Sequence[tuple[str, bytes | None]] = (),
        timestamp_ms: int | None = None,
    ) -> PendingDelivery:
        """Publish a record; waits only for room.

        Records of one topic have the order in which `send` begins as long as there is room; who
        waits for it together is served in no order.

        Args:
            topic: 1 to 249 bytes, no NUL.
            value: Content, or what the serializer makes content of; None is a tombstone.
            key: Routing key, likewise.
            headers: Name and value pairs.
            timestamp_ms: Milliseconds since 1970; now, if it is not given.

        Returns:
            To be awaited by those who want to know where it went. A record is sent also when nobody
            does.

        Raises:
            MisuseError: The record cannot be sent, or the producer is closed.
            SerializationError: A serializer has failed.
            BufferFullError: The buffer stayed full for `max_block_ms`.
            UnreachableError: It waited for room, and the cluster is not found.
        """
        octets: Any = value
        key_octets: Any = key
        if self._serializers is not None:
            key_octets, octets = self._serializers.octets(topic, key, value)

        def sent() -> Future[Delivery]:
            return self._producer.send(
                topic, octets, key=key_octets, headers=headers, timestamp_ms=timestamp_ms
            )

        try:
            return self._pending(sent())
        except BufferFullError:
            return self._pending(await self._with_room(sent))

    async def send_many(
        self, topic: str, values: Sequence[V | None], *, timestamp_ms: int | None = None
    ) -> PendingDelivery | None:
        """Publish records that have only a value, at a fraction of the cost of `send` for each.

        Args:
            topic: 1 to 249 bytes, no NUL.
            values: One for each record, in order.
            timestamp_ms: Of all of them; now, if it is not given.

        Returns:
            When it is done all are stored. None if there are no values.

        Raises:
            MisuseError: A value cannot be sent, or the producer is closed; those before it are.
            SerializationError: The serializer has failed at a value; none of them is sent.
            BufferFullError: No room came for `max_block_ms`; its `sent` says how many are sent.
            UnreachableError: It waited for room, and the cluster is not found.
        """
        octets: Sequence[Any] = values
        if self._serializers is not None:
            octets = self._serializers.octets_of_all(topic, values)
        start = 0

        def sent() -> list[Future[Delivery] | None]:
            nonlocal start
            try:
                return [
                    self._producer.send_many(topic, octets, start=start, timestamp_ms=timestamp_ms)
                ]
            except BufferFullError as error:
                if error.sent == start:
                    raise
                start = error.sent
                return []

        while True:
            try:
                done = sent()
            except BufferFullError:
                done = await self._with_room(sent)
            if done:
                (future,) = done
                return None if future is None else self._pending(future)

    async def flush(self, timeout: float | None = None) -> None:
        """Wait until everything sent so far is stored.

        Args:
            timeout: Seconds; None waits for as long as it takes.

        Raises:
            NotStoredError: The time was over first.
            HoleError: A store waits in vain for what this producer has no more.
            UnreachableError: The cluster is not found within `connect_timeout`.
        """
        under_way = self._producer.seal()
        await self._stored(under_way, timeout)
        self._producer.check_stored(under_way, timeout)

    async def persist(self, timeout: float | None = None) -> None:
        """Wait until everything sent so far is in the spool: then it survives this process.

        Args:
            timeout: Seconds; None waits for as long as it takes.

        Raises:
            MisuseError: The producer has no spool.
            NotStoredError: The time was over first, or the producer is closed.
        """
        missing = self._producer.seal_for_spool()

        def ended() -> bool | None:
            return self._producer.closed or not missing() or None

        await self._bell.until(ended, timeout)
        self._producer.check_spooled(missing, timeout)

    async def close(self, timeout: float | None = 10.0) -> None:
        """Flush, then leave the cluster; also if it is cancelled meanwhile.

        Raises:
            NotStoredError: Some records were not stored in time. Without a spool they are lost
                with this producer; the spool keeps them for the next one.
            AddressInUseError: Another producer publishes under the address of this one.
        """
        if self._producer.closed:
            return
        try:
            with suppress(UnreachableError):  # what is not stored says more
                await self._stored(self._producer.seal(), timeout)
        finally:
            # Its thread ends within moments, but not at once.
            leaving = asyncio.to_thread(self._producer.leave, timeout)
            error = await asyncio.shield(leaving)
        if error is not None:
            raise error

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        await self.close()

    def __repr__(self) -> str:
        """In a line, at once, whatever it is doing."""
        return f"Async{self._producer!r}"

    def _pending(self, future: Future[Delivery]) -> PendingDelivery:
        return PendingDelivery(future, self._search)

    async def _stored(self, under_way: Sequence[Future[Delivery]], timeout: float | None) -> None:
        """Wait until these are done; who asks them hears what of."""

        def done() -> bool | None:
            return all(future.done() for future in under_way) or None

        await self._bell.until(done, timeout, self._search)

    async def _with_room(self, sent: Callable[[], T]) -> T:
        """Send as soon as there is room.

        Raises:
            BufferFullError: None came for `max_block_ms`.
        """
        full: BufferFullError | None = None

        def tried() -> T | None:
            nonlocal full
            try:
                return sent()
            except BufferFullError as error:
                full = error
                return None

        found = await self._bell.until(tried, self._max_block_ms / 1_000, self._search)
        if found is None:
            assert full is not None
            error = self._producer.full(self._max_block_ms)
            error.sent = full.sent
            raise error from full.__cause__
        return found
