"""The public producer: `send` from any thread, batches out of the node's thread."""

from __future__ import annotations

import threading
from collections import deque
from concurrent.futures import Future, wait
from dataclasses import dataclass
from typing import TYPE_CHECKING
from uuid import uuid4

from dafka.errors import BufferFullError, MisuseError, NotStoredError
from dafka.limits import RECORD_BYTES_MAX
from dafka.model import address_of, checked_topic
from dafka.node.clock import now_ms, wall_ms
from dafka.node.node import Node, Role, open_mesh
from dafka.protocol.effects import Stored
from dafka.protocol.events import Submitted, TurnEnded, Woke
from dafka.protocol.producer import ProducerMachine, ProducerSettings
from dafka.records.batch import BatchBuilder
from dafka.records.envelope import ENVELOPE_BYTES

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence
    from types import TracebackType
    from typing import Never, Self

    from dafka.protocol.events import Event
    from dafka.transport.poller import Pollable


@dataclass(frozen=True, slots=True)
class Delivery:
    """Where a batch went: `min_acks` stores have its records on disk.

    Attributes:
        topic: As given to `send`.
        address: The producer's; with the topic it names the partition.
        sequence: Sequence of the batch's first record.
        count: How many records the batch has.
    """

    topic: str
    address: str
    sequence: int
    count: int


_UNUSABLE = (TypeError, ValueError, AttributeError, OverflowError)
"""What aiokafka raises for a field of the wrong type or size."""


class _OpenBatch:
    """Records of one topic that have not been handed to the machine yet."""

    __slots__ = ("builder", "future", "opened_ms")

    def __init__(self, bytes_max: int) -> None:
        self.builder = BatchBuilder(bytes_max)
        self.future: Future[Delivery] = Future()
        # It is shared by all records of the batch, so none of them may cancel it.
        self.future.set_running_or_notify_cancel()
        self.opened_ms = now_ms()


class Producer:
    """Publishes records to one cluster.

    Records of one topic form one partition, in the order they are sent. They are collected into
    batches; a batch goes out when it is full or `linger_ms` old. Safe to use from several threads.

    Args:
        towers: The cluster's tower, `tcp://host:port`, or several.
        host: Interface to bind and advertise.
        linger_ms: How long a record may wait for others to share its batch.
        batch_bytes_max: Size at which a batch goes out.
        buffer_bytes_max: Bytes sent and not stored yet at which `send` begins to wait.
        max_block_ms: How long it waits.
        min_acks: How many distinct stores must have a record before it counts as stored.

    Raises:
        MisuseError: An argument cannot be used.
    """

    def __init__(
        self,
        towers: str | Sequence[str],
        *,
        host: str = "127.0.0.1",
        linger_ms: int = 5,
        batch_bytes_max: int = 64 * 1024,
        buffer_bytes_max: int = 32 * 1024 * 1024,
        max_block_ms: int = 60_000,
        min_acks: int = 1,
    ) -> None:
        if not 1 <= batch_bytes_max <= RECORD_BYTES_MAX:
            raise MisuseError(f"batch_bytes_max must be 1 to {RECORD_BYTES_MAX}: {batch_bytes_max}")
        if linger_ms < 0 or max_block_ms < 0 or min_acks < 1 or buffer_bytes_max < 1:
            raise MisuseError("linger_ms and max_block_ms must not be negative, min_acks not 0")
        self.address = address_of(uuid4())
        self._batch_bytes_max = batch_bytes_max
        self._buffer_bytes_max = buffer_bytes_max
        self._max_block_ms = max_block_ms
        self._closed = False
        # Re-entrant: an error message names what is unstored while the lock is held.
        self._lock = threading.RLock()
        """Guards everything below. Taken directly: through the condition it costs twice as much."""
        self._changed = threading.Condition(self._lock)
        """Tells of freed buffers and finished batches."""
        self._open: dict[str, _OpenBatch] = {}
        self._ends: dict[str, int] = {}
        self._waiting: dict[str, deque[tuple[int, int, Future[Delivery]]]] = {}
        """Per topic: end, count and future of the batches that are not stored yet."""
        self._buffered = 0
        role: Role[None, Never] = _ProducerRole(self, linger_ms, min_acks)
        self._node = Node(role, self.address, {None: open_mesh(self.address, towers, host)})
        self._node.start()

    def send(
        self,
        topic: str,
        value: bytes | None,
        *,
        key: bytes | None = None,
        headers: Sequence[tuple[str, bytes | None]] = (),
        timestamp_ms: int | None = None,
    ) -> Future[Delivery]:
        """Publish a record.

        Args:
            topic: 1 to 249 bytes, no NUL.
            value: Content; None is a tombstone.
            key: Routing key.
            headers: Name and value pairs.
            timestamp_ms: Milliseconds since 1970; now, if it is not given.

        Returns:
            A future, shared by all records of its batch. Its result is the `Delivery`; a callback
            added to it runs in the producer's own thread and must not wait.

        Raises:
            MisuseError: The record cannot be sent, or the producer is closed.
            BufferFullError: The buffer stayed full for `max_block_ms`.
        """
        if timestamp_ms is None:
            timestamp_ms = wall_ms()
        with self._lock:
            batch = self._open.get(topic)
            try:
                if batch is not None:
                    if batch.builder.append(timestamp_ms, key, value, headers):
                        return batch.future
                    self._seal(topic)
                # A batch that has records refuses what does not fit; an empty one takes anything.
                _check_size(topic, key, value, headers)
                batch = self._begin(topic)
                while not batch.builder.append(timestamp_ms, key, value, headers):
                    # Another thread has filled it while this one waited for room.
                    self._seal(topic)
                    batch = self._begin(topic)
                if batch.builder.size >= self._batch_bytes_max:
                    self._seal(topic)
            except _UNUSABLE as error:
                raise self._refusal(topic, error) from error
            return batch.future

    def send_many(
        self, topic: str, values: Sequence[bytes | None], *, timestamp_ms: int | None = None
    ) -> Future[Delivery] | None:
        """Publish records that have only a value, at a fraction of the cost of `send` for each.

        Args:
            topic: 1 to 249 bytes, no NUL.
            values: One for each record, in order.
            timestamp_ms: Of all of them; now, if it is not given.

        Returns:
            The future of the last record's batch: batches of a topic are stored in order, so when
            it is done all are. None if there are no values.

        Raises:
            MisuseError: A value cannot be sent, or the producer is closed; those before it are.
            BufferFullError: The buffer stayed full for `max_block_ms`; some may have been sent.
        """
        if timestamp_ms is None:
            timestamp_ms = wall_ms()
        future: Future[Delivery] | None = None
        sent = 0
        with self._lock:
            while sent < len(values):
                batch = self._open.get(topic)
                if batch is None:
                    _check_size(topic, None, values[sent], ())
                    batch = self._begin(topic)
                try:
                    added = batch.builder.extend(timestamp_ms, values, sent)
                except _UNUSABLE as error:
                    raise self._refusal(topic, error) from error
                if added > sent:
                    sent, future = added, batch.future
                if sent < len(values):
                    self._seal(topic)
        return future

    def flush(self, timeout: float | None = None) -> None:
        """Wait until everything sent so far is stored.

        Args:
            timeout: Seconds; None waits for as long as it takes.

        Raises:
            NotStoredError: The time was over first.
        """
        with self._lock:
            for topic in list(self._open):
                self._seal(topic)
            # Batches of one topic are stored in order, so its last one stands for all.
            last = [waiting[-1][2] for waiting in self._waiting.values() if waiting]
        done, not_done = wait(last, timeout)
        self._node.check()
        if not_done:
            raise NotStoredError(f"no store has acknowledged {self._unstored()} within {timeout} s")
        for future in done:
            future.result()

    def close(self, timeout: float | None = 10.0) -> None:
        """Flush, then leave the cluster.

        Raises:
            NotStoredError: Some records were not stored in time; they are lost with this producer.
        """
        if self._closed:
            return
        try:
            self.flush(timeout)
        finally:
            self._closed = True
            self._node.stop()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()

    def _begin(self, topic: str) -> _OpenBatch:
        """Open a batch, once there is room for it."""
        checked_topic(topic)
        self._check_open()
        if self._buffered >= self._buffer_bytes_max and not self._changed.wait_for(
            lambda: self._closed or self._buffered < self._buffer_bytes_max,
            self._max_block_ms / 1_000,
        ):
            self._node.check()
            raise BufferFullError(
                f"buffer of {self._buffer_bytes_max} bytes stayed full for {self._max_block_ms} ms:"
                f" no store acknowledges {self._unstored()}"
            )
        # Waiting gave the lock away: another thread may have closed us or opened one meanwhile.
        self._check_open()
        batch = self._open.get(topic)
        if batch is None:
            batch = self._open[topic] = _OpenBatch(self._batch_bytes_max)
            self._node.wake()
        return batch

    def _check_open(self) -> None:
        self._node.check()
        if self._closed:
            raise MisuseError("producer is closed")

    def _refusal(self, topic: str, error: Exception) -> MisuseError:
        """What to tell the caller of a record that cannot be built. The lock is held."""
        batch = self._open.get(topic)
        if batch is not None and not batch.builder.count:
            # An empty batch takes a record of any size unasked: the next one shall be checked.
            del self._open[topic]
        return MisuseError(f"record for topic {topic!r} cannot be sent: {error}")

    def _seal(self, topic: str) -> None:
        """Hand a topic's open batch to the machine. The lock is held."""
        batch = self._open.pop(topic)
        records = batch.builder.build()
        count = batch.builder.count
        end = self._ends[topic] = self._ends.get(topic, 0) + count
        self._waiting.setdefault(topic, deque()).append((end, count, batch.future))
        self._buffered += ENVELOPE_BYTES + len(records)
        self._node.post(None, Submitted(topic, count, records))

    def seal_older(self, opened_ms: int) -> None:
        """Hand over what was opened at or before a time. Called by the node's thread."""
        with self._lock:
            for topic in [t for t, batch in self._open.items() if batch.opened_ms <= opened_ms]:
                self._seal(topic)

    def oldest_open_ms(self) -> int | None:
        """When the oldest open batch was opened. Called by the node's thread."""
        with self._lock:
            return min((batch.opened_ms for batch in self._open.values()), default=None)

    def stored(self, effect: Stored) -> None:
        """Finish the batches that are stored. Called by the node's thread."""
        topic, address = effect.partition
        finished: list[tuple[int, int, Future[Delivery]]] = []
        with self._lock:
            waiting = self._waiting[topic]
            while waiting and waiting[0][0] <= effect.end:
                finished.append(waiting.popleft())
            self._buffered -= effect.size
            self._changed.notify_all()
        for end, count, future in finished:
            future.set_result(Delivery(topic, address, end - count, count))

    def abandon(self) -> None:
        """The node has ended: nothing more will be stored. Called by the node's thread."""
        with self._lock:
            self._closed = True
            lost = [entry[1:] for entries in self._waiting.values() for entry in entries]
            lost += [(batch.builder.count, batch.future) for batch in self._open.values()]
            self._waiting.clear()
            self._open.clear()
            self._changed.notify_all()
        for count, future in lost:
            message = f"producer ended before a store had {count} records"
            future.set_exception(NotStoredError(message))

    def _unstored(self) -> str:
        with self._lock:
            return ", ".join(
                f"{sum(count for _, count, _ in waiting)} records of {topic!r}"
                for topic, waiting in self._waiting.items()
                if waiting
            )


def _check_size(
    topic: str,
    key: bytes | None,
    value: bytes | None,
    headers: Sequence[tuple[str, bytes | None]],
) -> None:
    try:
        size = (len(key) if key else 0) + (len(value) if value else 0)
        if headers:
            size += sum(len(name) + (len(content) if content else 0) for name, content in headers)
    except (TypeError, ValueError) as error:
        raise MisuseError(f"record for topic {topic!r} cannot be sent: {error}") from error
    if size > RECORD_BYTES_MAX:
        raise MisuseError(
            f"record for topic {topic!r} cannot be sent: {size} bytes, at most {RECORD_BYTES_MAX}"
        )


class _ProducerRole:
    """The producer's shell in the node's thread."""

    name = "producer"

    def __init__(self, producer: Producer, linger_ms: int, min_acks: int) -> None:
        self._producer = producer
        self._linger_ms = linger_ms
        settings = ProducerSettings(min_acks=min_acks)
        self._machine = ProducerMachine(producer.address, settings)

    def handle(self, side: None, event: Event, now_ms: int) -> Iterable[tuple[None, object]]:
        if isinstance(event, TurnEnded):
            return ()
        if isinstance(event, Woke):
            self._producer.seal_older(now_ms - self._linger_ms)
        return [(side, effect) for effect in self._machine.handle(event, now_ms)]

    def wakeup_ms(self) -> int | None:
        opened_ms = self._producer.oldest_open_ms()
        linger_ms = None if opened_ms is None else opened_ms + self._linger_ms
        dues = (linger_ms, self._machine.wakeup_ms())
        return min((due for due in dues if due is not None), default=None)

    def perform(self, _side: None, effect: object) -> None:
        if isinstance(effect, Stored):
            self._producer.stored(effect)

    def pollable(self) -> Mapping[Pollable, Callable[[], Iterable[tuple[None, Event]]]]:
        return {}

    def close(self) -> None:
        self._producer.abandon()
