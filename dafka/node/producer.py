"""The public producer: `send` from any thread, batches out of the node's thread."""

from __future__ import annotations

import logging
import math
import threading
from concurrent.futures import Future, wait
from contextlib import ExitStack, suppress
from typing import TYPE_CHECKING, Any, Generic

from dafka.cluster import Cluster, cluster_of
from dafka.errors import (
    AddressInUseError,
    BufferFullError,
    HoleError,
    MisuseError,
    UnreachableError,
)
from dafka.limits import RECORD_BYTES_MAX
from dafka.model import K, Partition, V, checked_topic
from dafka.node.batching import UNUSABLE, OpenBatch, OpenBatches, check_size, check_time
from dafka.node.delivery import (
    Deliveries,
    Delivery,
    address_in_use,
    buffer_full,
    ended_before_stored,
    not_spooled,
    not_stored,
)
from dafka.node.loop import Node
from dafka.node.producer_role import ProducerRole
from dafka.node.search import Search
from dafka.process.clock import wall_ns
from dafka.protocol.events import Submitted
from dafka.protocol.producer import ProducerMachine, ProducerSettings
from dafka.records.compression import Codec
from dafka.records.envelope import ENVELOPE_BYTES
from dafka.records.serialization import Serializers
from dafka.storage.lmdb_spool import LmdbSpool
from dafka.transport.mesh import Mesh

if TYPE_CHECKING:
    import os
    from collections.abc import Callable, Iterable, Sequence
    from typing import Never, Self

    from dafka.errors import DafkaError
    from dafka.model import Batch
    from dafka.node.turn import Role
    from dafka.protocol.effects import Disputed, HoleFound, Stored
    from dafka.records.serialization import Serializer


log = logging.getLogger(__name__)


class Producer(Generic[K, V]):
    """Publishes records to one cluster.

    Records of one topic form one partition, in the order they are sent. They are collected into
    batches; a batch goes out when it is full or `linger_ms` old. Safe to use from several threads.

    Args:
        cluster: Which, or its tower, `tcp://host:port`.
        linger_ms: How long a record may wait for others to share its batch. With 0 it goes out at
            once; a fast sender's still share batches made 0.3 to 2 ms apart, as stores are busy.
        batch_bytes_max: Size at which a batch goes out.
        buffer_bytes_max: Bytes sent and not stored yet at which `send` begins to wait. Batches
            being filled come on top: one a topic, until it is full or `linger_ms` old.
        max_block_ms: How long it waits.
        min_acks: How many distinct stores must have a record before it counts as stored.
        spool: Directory that keeps what is not stored yet, made if it is not there. The next
            producer that is given it goes on where this one ended, however that was: under the
            same address, with the records that were left and then with the next sequence. Every
            record is on disk before it is published. It holds `buffer_bytes_max` at most.
        content: "batches"; "raw", each record by itself and as a bare value, without key and
            headers; or "classic", both. Without it, what is declared of the cluster.
        compression: "none", "gzip", "snappy", "lz4" or "zstd", of each batch: from a producer to
            the disk of every store, on every cluster, until somebody reads the records.
        key_serializer: Makes octets of each key; without it keys are octets.
        value_serializer: Makes octets of each value. A key or value of None is left alone.
        connect_timeout: Seconds after which waiting is an error if no other node of the cluster has
            been found; None is never, and a `ConnectionWarning` says so after two.
        delivery: "direct": it connects to everybody. "stores": to stores only, which pass on what
            they have on disk. Without it, what is declared of the cluster.

    Raises:
        MisuseError: An argument cannot be used.
        StorageError: The spool cannot be used, or another producer has it.
    """

    def __init__(
        self,
        cluster: Cluster | str,
        *,
        linger_ms: int = 5,
        batch_bytes_max: int = 64 * 1024,
        buffer_bytes_max: int = 32 * 1024 * 1024,
        max_block_ms: int = 60_000,
        min_acks: int = 1,
        spool: str | os.PathLike[str] | None = None,
        content: str | None = None,
        compression: str = "none",
        key_serializer: Serializer[K] | None = None,
        value_serializer: Serializer[V] | None = None,
        connect_timeout: float | None = None,
        delivery: str | None = None,
    ) -> None:
        if not 1 <= batch_bytes_max <= RECORD_BYTES_MAX:
            raise MisuseError(f"batch_bytes_max must be 1 to {RECORD_BYTES_MAX}: {batch_bytes_max}")
        if linger_ms < 0 or max_block_ms < 0 or min_acks < 1 or buffer_bytes_max < 1:
            raise MisuseError("linger_ms and max_block_ms must not be negative, min_acks not 0")
        self._codec = _checked_codec(compression, content)
        cluster = cluster_of(cluster).delivered(delivery)
        self._serializers = Serializers.given(key_serializer, value_serializer)
        self.search = Search(
            cluster, lambda: self._node.towers_away, lambda: self._node.peers(None), connect_timeout
        )
        """Whether the cluster has been found."""
        self._batch_bytes_max = batch_bytes_max
        self._buffer_bytes_max = buffer_bytes_max
        self._max_block_ms = max_block_ms
        self._min_acks = min_acks
        self._spool_name = None if spool is None else str(spool)
        self._bare = content == "raw"
        self._closed = False
        # Re-entrant: an error message names what is unstored while the lock is held.
        self._lock = threading.RLock()
        """Guards everything below. Taken directly: through the condition it costs twice as much."""
        self._changed = threading.Condition(self._lock)
        """Tells of freed buffers, finished batches, and batches in the spool."""
        self._told: Callable[[], None] = lambda: None
        self._open = OpenBatches()
        self._rival: AddressInUseError | None = None
        """Why nothing is sent any more, once another producer has our address."""
        self._holes: dict[str, HoleError] = {}
        """By topic, why nothing is stored at present."""
        with ExitStack() as opened:
            kept_in: LmdbSpool | None = None
            ends: dict[str, int] = {}
            kept: list[Batch] = []
            self.address = cluster.new_address()
            """Names this producer, and with a topic a partition."""
            if spool is not None:
                kept_in = LmdbSpool(spool, self.address)
                opened.callback(kept_in.close)
                ends, kept = kept_in.ends(), kept_in.batches()
                self.address = cluster.checked_address(kept_in.address, str(spool))
            self.resumed = sum(batch.count for batch in kept)
            """Records found in the spool: sent earlier, stored by nobody yet as far as is known."""
            self._buffered = sum(len(batch.content) for batch in kept)
            self._deliveries = Deliveries(self.address, ends, kept)
            mesh = Mesh(cluster, self.address, content=content, refuses_others=True)
            opened.pop_all()  # all there: from here on the node's thread closes them
        settings = ProducerSettings(
            min_acks=min_acks, spooled=spool is not None, foreign=mesh.foreign
        )
        machine = ProducerMachine(self.address, settings, ends, kept)
        self._node = _started(ProducerRole(self, machine, linger_ms, kept_in), self.address, mesh)

    def send(
        self,
        topic: str,
        value: V | None,
        *,
        key: K | None = None,
        headers: Sequence[tuple[str, bytes | None]] = (),
        timestamp_ms: int | None = None,
    ) -> Future[Delivery]:
        """Publish a record.

        Args:
            topic: 1 to 249 bytes, no NUL.
            value: Content, or what the serializer makes content of; None is a tombstone.
            key: Routing key, likewise.
            headers: Name and value pairs.
            timestamp_ms: Milliseconds since 1970; now, if it is not given.

        Returns:
            A future, shared by all records of its batch. Its result is the `Delivery`; a callback
            added to it runs in the producer's own thread and must not wait.

        Raises:
            MisuseError: The record cannot be sent, or the producer is closed.
            SerializationError: A serializer has failed.
            BufferFullError: The buffer stayed full for `max_block_ms`.
            UnreachableError: It waited for room, and the cluster is not found.
        """
        if timestamp_ms is None:
            timestamp_ms = wall_ns() // 1_000_000
        else:
            check_time(topic, timestamp_ms)
        octets: Any = value
        key_octets: Any = key
        if self._serializers is not None:
            key_octets, octets = self._serializers.octets(topic, key, value)
        with self._lock:
            batch = self._open.get(topic)
            try:
                if batch is not None:
                    if batch.builder.append(timestamp_ms, key_octets, octets, headers):
                        return batch.future
                    self._seal(topic)
                # A batch that has records refuses what does not fit; an empty one takes anything.
                check_size(topic, key_octets, octets, headers)
                batch = self._begin(topic)
                while not batch.builder.append(timestamp_ms, key_octets, octets, headers):
                    # Another thread has filled it while this one waited for room.
                    self._seal(topic)
                    batch = self._begin(topic)
                if batch.builder.size >= self._batch_bytes_max:
                    self._seal(topic)
            except UNUSABLE as error:
                raise self._refusal(topic, error) from error
            return batch.future

    def send_many(
        self,
        topic: str,
        values: Sequence[V | None],
        *,
        start: int = 0,
        timestamp_ms: int | None = None,
    ) -> Future[Delivery] | None:
        """Publish records that have only a value, at a fraction of the cost of `send` for each.

        Args:
            topic: 1 to 249 bytes, no NUL.
            values: One for each record, in order.
            start: The index of the first that is to be sent.
            timestamp_ms: Of all of them; now, if it is not given.

        Returns:
            The future of the last record's batch: batches of a topic are stored in order, so when
            it is done all are. None if there are no values.

        Raises:
            MisuseError: A value cannot be sent, or the producer is closed; those before it are.
            SerializationError: The serializer has failed at a value; none of them is sent.
            BufferFullError: The buffer stayed full for `max_block_ms`; its `sent` says where to go
                on, as some may have been sent.
            UnreachableError: It waited for room, and the cluster is not found.
        """
        if timestamp_ms is None:
            timestamp_ms = wall_ns() // 1_000_000
        else:
            check_time(topic, timestamp_ms)
        octets: Sequence[Any] = values
        if self._serializers is not None:
            octets = self._serializers.octets_of_all(topic, values)
        future: Future[Delivery] | None = None
        sent = start
        with self._lock:
            while sent < len(octets):
                batch = self._open.get(topic)
                if batch is None:
                    check_size(topic, None, octets[sent], ())
                    try:
                        batch = self._begin(topic)
                    except BufferFullError as error:
                        error.sent = sent
                        raise
                try:
                    added = batch.builder.extend(timestamp_ms, octets, sent)
                except UNUSABLE as error:
                    raise self._refusal(topic, error) from error
                if added > sent:
                    sent, future = added, batch.future
                if sent < len(octets):
                    self._seal(topic)
        return future

    def flush(self, timeout: float | None = None) -> None:
        """Wait until everything sent so far is stored.

        Args:
            timeout: Seconds; None waits for as long as it takes.

        Raises:
            NotStoredError: The time was over first.
            HoleError: A store waits in vain for what this producer has no more.
            UnreachableError: The cluster is not found within `connect_timeout`.
        """
        under_way = self.seal()
        self._wait_for(under_way, timeout)
        self.check_stored(under_way, timeout)

    def seal(self) -> list[Future[Delivery]]:
        """Hand over what was sent so far, without waiting.

        Returns:
            Futures that are done when all of it is stored, or has failed.
        """
        with self._lock:
            self._seal_all()
            return self._deliveries.last()

    def check_stored(self, under_way: Iterable[Future[Delivery]], timeout: float | None) -> None:
        """Complain of what is not stored, as `flush` does.

        Args:
            under_way: What `seal` has returned.
            timeout: For how many seconds it was waited, for people.

        Raises:
            NotStoredError: Some of it is not.
            HoleError: A store waits in vain for what this producer has no more.
        """
        self._check()
        if not all(future.done() for future in under_way):
            with self._lock:
                unstored = self._deliveries.unstored()
            raise not_stored(unstored, timeout, self._min_acks, self._node.towers_away)
        for future in under_way:
            future.result()

    def persist(self, timeout: float | None = None) -> None:
        """Wait until everything sent so far is in the spool: then it survives this process.

        Args:
            timeout: Seconds; None waits for as long as it takes.

        Raises:
            MisuseError: The producer has no spool.
            NotStoredError: The time was over first, or the producer is closed.
        """
        missing = self.seal_for_spool()
        with self._lock:
            self._changed.wait_for(lambda: self._closed or not missing(), timeout)
        self.check_spooled(missing, timeout)

    def seal_for_spool(self) -> Callable[[], dict[Partition, int]]:
        """Hand over what was sent so far, without waiting.

        Returns:
            Says how many records of that are not in the spool, by partition.

        Raises:
            MisuseError: The producer has no spool.
        """
        if self._spool_name is None:
            raise MisuseError("producer has no spool to persist to")
        with self._lock:
            self._seal_all()
            ends = dict(self._deliveries.ends)

        def missing() -> dict[Partition, int]:
            with self._lock:
                return self._deliveries.unspooled(ends)

        return missing

    def check_spooled(
        self, missing: Callable[[], dict[Partition, int]], timeout: float | None
    ) -> None:
        """Complain of what is not in the spool, as `persist` does.

        Args:
            missing: What `seal_for_spool` has returned.
            timeout: For how many seconds it was waited, for people.

        Raises:
            NotStoredError: Some of it is not.
        """
        unspooled = missing()
        self._check()
        if unspooled:
            assert self._spool_name is not None
            raise not_spooled(unspooled, timeout, self._spool_name)

    def close(self, timeout: float | None = 10.0) -> None:
        """Flush, then leave the cluster.

        Raises:
            NotStoredError: Some records were not stored in time. Without a spool they are lost
                with this producer; the spool keeps them for the next one.
            AddressInUseError: Another producer publishes under the address of this one.
        """
        if self.closed:
            return
        try:
            with suppress(UnreachableError):  # what is not stored says more
                self._wait_for(self.seal(), timeout)
        finally:
            error = self.leave(timeout)
        if error is not None:
            raise error

    @property
    def closed(self) -> bool:
        """Whether it has left the cluster, and nothing is left to tell of that."""
        return self._closed and self._rival is None

    def leave(self, timeout: float | None) -> DafkaError | None:
        """Leave the cluster without waiting for stores; returns what `close` has to raise.

        Args:
            timeout: For how many seconds they were waited for, for people.
        """
        with self._lock:
            self._closed = True
            self._seal_all()
            unstored = self._deliveries.unstored()
            spooled = not self._deliveries.unspooled(self._deliveries.ends)
            away = self._node.towers_away
        self._node.stop()
        self._check()
        if not unstored:
            return None
        spool = self._spool_name if spooled else None
        unheard = not_stored(unstored, timeout, self._min_acks, away, spool)
        return next(iter(self._holes.values()), unheard)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _begin(self, topic: str) -> OpenBatch:
        """Open a batch, once there is room for it."""
        checked_topic(topic)
        self._check_open()
        if self._buffered >= self._buffer_bytes_max and not self.search.wait(
            lambda seconds: self._changed.wait_for(
                lambda: self._closed or self._buffered < self._buffer_bytes_max, seconds
            ),
            self._max_block_ms / 1_000,
        ):
            self._check()
            raise self.full(self._max_block_ms) from next(iter(self._holes.values()), None)
        # Waiting gave the lock away: another thread may have closed us or opened one meanwhile.
        self._check_open()
        batch = self._open.get(topic)
        if batch is None:
            run = self._deliveries.place(topic)
            batch = self._open[topic] = OpenBatch(
                self._batch_bytes_max, run, self._codec, bare=self._bare
            )
            self._node.wake()
        return batch

    def listen(self, told: Callable[[], None]) -> None:
        """Have something called when futures are done, there is room, or more is in the spool.

        Args:
            told: Called in the producer's own thread; must not wait.
        """
        self._told = told

    def full(self, waited_ms: int) -> BufferFullError:
        """What to tell whoever has waited so long for room."""
        with self._lock:
            unstored = self._deliveries.unstored()
        return buffer_full(unstored, self._buffer_bytes_max, waited_ms, self._min_acks)

    def __repr__(self) -> str:
        """In a line, at once, whatever it is doing."""
        search = self.search
        state = search.state(closed=self._closed, failed=self._node.failure is not None)
        return (
            f"Producer({search.cluster.called!r}, address={self.address[:8]}…, "
            f"topics={len(self._deliveries.ends)}, unstored_bytes={self._buffered}, {state})"
        )

    def _wait_for(self, under_way: Iterable[Future[Delivery]], timeout: float | None) -> None:
        """Wait until all of these are done, or for so many seconds."""

        def waited(seconds: float) -> bool:
            return not wait(under_way, None if seconds == math.inf else seconds).not_done

        self.search.wait(waited, math.inf if timeout is None else timeout)

    def _check(self) -> None:
        self._node.check()
        if self._rival is not None:
            raise self._rival

    def _check_open(self) -> None:
        self._check()
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
        records = batch.builder.parts()
        count = batch.builder.count
        self._deliveries.expect(topic, count, batch.future)
        self._buffered += ENVELOPE_BYTES + sum(map(len, records))
        self._node.post(None, Submitted(topic, count, records))

    def _seal_all(self) -> None:
        """Hand over every open batch. The lock is held."""
        for topic in list(self._open):
            self._seal(topic)

    def seal_older(self, opened_ms: int) -> None:
        """Hand over what was opened at or before a time. Called by the node's thread."""
        with self._lock:
            for topic in self._open.older(opened_ms):
                self._seal(topic)

    def oldest_open_ms(self) -> int | None:
        """When the oldest open batch was opened. Called by the node's thread."""
        with self._lock:
            return self._open.oldest_ms()

    def spooled(self, batches: Sequence[Batch]) -> None:
        """These are in the spool. Called by the node's thread."""
        with self._lock:
            self._deliveries.spooled.update((one.partition.topic, one.end) for one in batches)
            self._changed.notify_all()
        self._told()

    def stored(self, effect: Stored) -> None:
        """Finish the batches that are stored. Called by the node's thread."""
        with self._lock:
            finished = self._deliveries.finish(effect.partition.topic, effect.end)
            self._buffered -= effect.size
            self._changed.notify_all()
            self._holes.pop(effect.partition.topic, None)
        for future, delivery in finished:
            future.set_result(delivery)
        self._told()

    def hole_found(self, effect: HoleFound) -> None:
        """Nobody is to wait for what may never be stored. Called by the node's thread."""
        topic = effect.partition.topic
        with self._lock:
            unstored = self._deliveries.unstored().get(effect.partition, 0)
            error = HoleError(effect.partition, effect.expected, effect.kept, unstored)
            if topic not in self._holes:
                log.error("%s", error)
            self._holes[topic] = error
            failed = self._deliveries.fail(topic)
        for future in failed:
            future.set_exception(error)
        self._told()

    def disputed(self, effect: Disputed) -> None:
        """Another producer has our address: nothing more is sent. Called by the node's thread."""
        self._rival = rival = address_in_use(effect.partition, effect.sequence, self._spool_name)
        self._give_up(lambda _partition, _count: rival)

    def abandon(self) -> None:
        """The node has ended: nothing more will be stored. Called by the node's thread."""
        self._give_up(ended_before_stored)

    def _give_up(self, reason: Callable[[Partition, int], Exception]) -> None:
        with self._lock:
            self._closed = True
            for topic, batch in self._open.items():
                self._deliveries.expect(topic, batch.builder.count, batch.future)
            self._open.clear()
            lost = self._deliveries.drop()
            self._changed.notify_all()
        for partition, count, future in lost:
            future.set_exception(reason(partition, count))
        self._told()


def _checked_codec(compression: str, content: str | None) -> Codec:
    codec = Codec.named(compression)
    if content == "raw" and codec is not Codec.NONE:
        raise MisuseError(f"raw content has no batches that {compression} could compress")
    return codec


def _started(role: Role[None, Never], address: str, mesh: Mesh) -> Node[None, Never]:
    node = Node(role, address, {None: mesh})
    node.start()
    return node
