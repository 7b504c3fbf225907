"""The public consumer: iterate over the records of a cluster."""

from __future__ import annotations

import math
import queue
from concurrent.futures import wait
from contextlib import ExitStack
from typing import TYPE_CHECKING

from dafka.cluster import Cluster, cluster_of
from dafka.errors import MisuseError
from dafka.limits import HELLO_TOPICS_MAX, LISTENED_BYTES_MAX
from dafka.model import Partition, Record, checked_topic
from dafka.node.group import GroupOptions, GroupRole, joined
from dafka.node.loop import Node
from dafka.process.unreadable import pass_over
from dafka.protocol.consumer import ConsumerMachine, ConsumerSettings, Start
from dafka.protocol.effects import Deliver
from dafka.protocol.events import Consumed, Event, TurnEnded
from dafka.records.batch import records_of, values_of
from dafka.transport.mesh import Mesh

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
    from types import TracebackType
    from typing import Never, Self

    from dafka.groups.events import GroupEvent, Handed
    from dafka.model import Batch
    from dafka.node.group import Committing
    from dafka.node.turn import Role
    from dafka.query.client import StoreClient
    from dafka.transport.sockets import Pollable

_CHECK_S = 1.0
"""How often a waiting iteration looks whether the node still lives."""

_GIVE_BACK_PARTS = 8
"""Room is given back when so large a part of the buffer was read: it wakes the node's thread."""

LEAVE_S = 5.0
"""How long stores may take to acknowledge the last positions, and to hear that a member leaves."""

ISOLATIONS = ("published", "stored")


class ReceivedBatch:
    """Consecutive records of one partition, not taken apart yet.

    Attributes:
        topic: Its topic.
        address: Its producer; with the topic this names the partition.
        sequence: Sequence of the first record.
        count: How many records.
    """

    __slots__ = ("_batch", "address", "count", "sequence", "topic")

    def __init__(self, batch: Batch, start: int) -> None:
        self._batch = batch
        self.topic, self.address = batch.partition
        self.sequence = max(start, batch.sequence)
        self.count = batch.end - self.sequence

    def values(self) -> list[bytes | None]:
        """The records' values, in order: the cheapest way to them.

        Fewer than `count` where records cannot be read: those are logged and counted.
        """
        return values_of(self._batch, self.sequence, pass_over)

    def __iter__(self) -> Iterator[Record]:
        """Iterate over the records, as `values` does."""
        return records_of(self._batch, self.sequence, pass_over)


class Consumer:
    """Receives every record of its topics, each partition in order.

    Records that nobody can read, though their batch is whole, are passed over: they are logged, and
    counted (`dafka_unreadable_records_total`). Iterating waits for more, unless there is a
    `timeout`; `poll` returns after a while. Not safe for use from several threads at once.

    Args:
        cluster: Which, or its tower, `tcp://host:port`.
        topics: A topic, or several, up to 10,000.
        start: Where partitions without a position begin: "earliest" at their first record,
            "latest" behind what is there when the consumer begins, and those that come later at
            their first record, too. What is there is known some three seconds after the first
            peer is: partitions that begin in that time may begin behind their first records.
        positions: Sequence to begin at, for some partitions.
        isolation: "published": records as they are published; a store may still lose one that it
            has not acknowledged, with its producer, after it was read here. "stored": only what a
            store has on disk, which is some milliseconds later.
        group: The name of a group that shares the partitions: each is one member's, and goes on
            behind what the group has committed. The cluster's stores keep it; all members must
            name the same.
        auto_commit_ms: How often to commit by itself what is processed: a record is when the next
            one is asked for. None: only `commit` does.
        session_timeout_ms: A member that is silent for so long is replaced.
        max_hold_ms: How long the application may keep the group waiting for a partition that it
            gives to another member.
        buffer_bytes_max: Bytes received ahead of the application.
        timeout: Seconds without a record after which iterating ends; None is never.

    Raises:
        MisuseError: An argument cannot be used.
    """

    def __init__(
        self,
        cluster: Cluster | str,
        topics: str | Sequence[str],
        *,
        start: str = "earliest",
        positions: Mapping[Partition, int] | None = None,
        isolation: str = "published",
        group: str | None = None,
        auto_commit_ms: int | None = 5_000,
        session_timeout_ms: int = 10_000,
        max_hold_ms: int = 300_000,
        buffer_bytes_max: int = 32 * 1024 * 1024,
        timeout: float | None = None,
    ) -> None:
        names = (topics,) if isinstance(topics, str) else tuple(topics)
        if not names:
            raise MisuseError("at least one topic is needed")
        if len(names) > HELLO_TOPICS_MAX:
            raise MisuseError(
                f"{len(names):,} topics are too many for one consumer, which takes "
                f"{HELLO_TOPICS_MAX:,}: have several"
            )
        if start not in (Start.EARLIEST.value, Start.LATEST.value):
            raise MisuseError(f'start must be "earliest" or "latest", got {start!r}')
        if isolation not in ISOLATIONS:
            raise MisuseError(f'isolation must be "published" or "stored", got {isolation!r}')
        if timeout is not None and timeout < 0:
            raise MisuseError(f"timeout must not be negative: {timeout}")
        self.timeout = timeout
        cluster = cluster_of(cluster)
        self.address = cluster.new_address()
        options = None
        if group is not None:
            options = GroupOptions(
                group, cluster.stores, auto_commit_ms, session_timeout_ms, max_hold_ms
            ).checked(names, positions)
        names = tuple(map(checked_topic, names))
        settings = ConsumerSettings(
            topics=listened(names, cluster),
            wants=frozenset(names).__contains__,
            start=Start(start) if options is None else Start.ASSIGNED,
            positions=_checked_positions(positions or {}),
            committed=isolation == "stored",
            buffer_bytes_max=buffer_bytes_max,
        )
        self._records: Iterator[Record] = iter(())
        self._current: Deliver | Handed | None = None
        """The batch being iterated."""
        self._read = 0
        """Bytes of what was read, until their room is given back."""
        self._give_back_at = buffer_bytes_max // _GIVE_BACK_PARTS
        self._closed = False
        machine = ConsumerMachine(self.address, settings)
        self._group: GroupRole | None = None
        with ExitStack() as opened:
            if options is not None:
                self._group = joined(opened, options, machine, Start(start), cluster)
            mesh = Mesh(cluster, self.address, refuses_others=True)
            opened.pop_all()  # all there: from here on the node's thread closes them
        self._node: Node[None, Never] | Node[None, GroupEvent]
        self._role: ConsumerRole | GroupRole
        if self._group is None:
            self._role = single = ConsumerRole(machine)
            role: Role[None, Never] = single
            self._node = Node(role, self.address, {None: mesh})
        else:
            self._role = self._group
            shared: Role[None, GroupEvent] = self._group
            self._node = node = Node(shared, self.address, {None: mesh})
            self._group.attach(node.post)
        self._node.start()

    def __iter__(self) -> Iterator[Record]:
        while True:
            # Not `yield from`: who leaves the loop would close the batch, and lose the rest of it.
            for record in self._records:  # noqa: UP028
                yield record
            if not self._next_batch_in_time():
                return
            self._open_batch()

    def batches(self) -> Iterator[ReceivedBatch]:
        """Iterate over whole batches instead of records: for those who need few of the fields.

        Begins with what is left of the batch whose records were being iterated, if one was.
        """
        while True:
            batch = self._batch_begun()
            if batch is None and self._next_batch_in_time(whole=True):
                batch = self._batch_taken_up()
            if batch is None:
                return
            yield batch

    def poll_batch(self, timeout: float) -> ReceivedBatch | None:
        """Return the next batch, as `batches` does, or None if there is none in `timeout` seconds.

        Raises:
            MisuseError, NodeFailedError, RebalancedError: As `poll`.
        """
        batch = self._batch_begun()
        if batch is None and self._next_batch(timeout, whole=True):
            batch = self._batch_taken_up()
        return batch

    def poll(self, timeout: float) -> Record | None:
        """Return the next record, or None if there is none within `timeout` seconds.

        Raises:
            MisuseError: The consumer is closed, and everything it had received is read.
            NodeFailedError: The consumer's thread has ended.
            RebalancedError: In a group: this consumer held records for too long, and is out of it.
        """
        record = self.next_at_hand()
        while record is None and self._next_batch(timeout):
            self._open_batch()
            record = self.next_at_hand()
        return record

    def next_at_hand(self) -> Record | None:
        """Return the next record of the batch that was taken up last; None behind its last one."""
        return next(self._records, None)

    @property
    def towers_away(self) -> frozenset[str]:
        """The towers that are not heard at present; with none that is, no other node is found.

        One that does not answer is among them two seconds after the start.
        """
        return self._node.towers_away

    @property
    def overslept(self) -> bool:
        """Whether `poll` would wait at present, however short its timeout is.

        In a group: until this process, which was stopped, knows whether its partitions are others'
        by now.
        """
        return self._group is not None and self._group.overslept

    def listen(self, told: Callable[[], None]) -> None:
        """Have something called when there is more to poll, or an error.

        Args:
            told: Called in the consumer's own thread; must not wait.
        """
        self._role.told = told

    def commit(self, timeout: float = 10.0) -> None:
        """Commit the position of the group behind everything that was handed over so far.

        Args:
            timeout: Seconds.

        Raises:
            MisuseError: The consumer is in no group.
            NotStoredError: No store has acknowledged it in time; it may come to be stored.
            RebalancedError: Some of it is another member's by now, who gets it again.
        """
        committing = self.begin_commit()
        wait((committing.done,), timeout)
        committing.check(timeout)

    def begin_commit(self) -> Committing:
        """Begin a `commit`, without waiting.

        Raises:
            MisuseError: The consumer is in no group.
        """
        return self._grouped().begin_commit()

    def positions(self) -> dict[Partition, int]:
        """Return the sequence that comes next, of each partition that is this consumer's.

        Raises:
            MisuseError: The consumer is in no group.
        """
        return self._grouped().hand.positions()

    def seek(self, topic: str, address: str, sequence: int) -> None:
        """Go on at `sequence` in one partition; what is committed next says so too.

        Raises:
            MisuseError: The partition is not this consumer's at present.
        """
        group = self._grouped()
        group.seek(Partition(topic, address), sequence)
        if self._current is not None and self._current.batch.partition == (topic, address):
            self._records = iter(())

    def seek_to_beginning(self) -> None:
        """Go on at the first record that is kept, in every partition of this consumer.

        Raises:
            QueryError: No store answers.
        """
        self._seek_to(lambda store, kept, partition: kept.start)

    def seek_to_end(self) -> None:
        """Go on behind the last record, in every partition of this consumer.

        Raises:
            QueryError: No store answers.
        """
        self._seek_to(lambda store, kept, partition: kept.stop)

    def seek_to_time(self, timestamp_ms: int) -> None:
        """Go on at the first record of this time or later, in every partition of this consumer.

        Raises:
            QueryError: No store answers.
        """

        def found(store: StoreClient, kept: range, partition: Partition) -> int:
            sequence = store.find(partition, timestamp_ms)
            return kept.stop if sequence is None else sequence

        self._seek_to(found)

    def close(self, timeout: float = LEAVE_S) -> None:
        """Leave the cluster. What has been received can still be read, unless it is a group's.

        A group's positions are committed, if that is done by itself.

        Args:
            timeout: Seconds that stores may take to acknowledge them.

        Raises:
            NotStoredError: No store has acknowledged the last positions.
        """
        self.leave(timeout, failed=False)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        # Who is thrown out of the middle of a record has not processed it.
        self.leave(LEAVE_S, failed=error is not None)

    def leave(self, timeout: float, *, failed: bool) -> None:
        """Do what `close` does.

        Args:
            timeout: Seconds that stores may take to acknowledge the last positions.
            failed: Whether the application has not processed what it was handed last.

        Raises:
            NotStoredError: They have not.
        """
        if self._closed:
            return
        self._closed = True
        try:
            if self._group is not None:
                self._group.leave(timeout, failed=failed)
        finally:
            self._node.stop()

    def _grouped(self) -> GroupRole:
        if self._group is None:
            raise MisuseError("consumer is in no group: give it one, and the stores")
        self._node.check()
        if self._closed:
            raise MisuseError("consumer is closed")
        return self._group

    def _seek_to(self, place: Callable[[StoreClient, range, Partition], int]) -> None:
        self._grouped().seek_to(place)
        self._records = iter(())

    def _next_batch(self, timeout: float, *, whole: bool = False) -> bool:
        """Take up the next batch, giving back the room of those that have been read."""
        if self._read > self._give_back_at:
            self._node.post(None, Consumed(self._read))
            self._read = 0
        delivered = self._role.next(timeout, whole=whole)
        if delivered is None:
            self._node.check()
            if self._closed:
                raise MisuseError("consumer is closed")
            return False
        self._current = delivered
        self._read += len(delivered.batch.content)
        return True

    def _next_batch_in_time(self, *, whole: bool = False) -> bool:
        """Take up the next batch; False if none has come for `timeout`."""
        left_s = math.inf if self.timeout is None else self.timeout
        while not self._next_batch(min(left_s, _CHECK_S), whole=whole):
            left_s -= _CHECK_S
            if left_s <= 0:
                return False
        return True

    def _batch_taken_up(self) -> ReceivedBatch:
        assert self._current is not None
        return ReceivedBatch(self._current.batch, self._current.start)

    def _batch_begun(self) -> ReceivedBatch | None:
        """What is left of the batch whose records are being iterated, if anything is."""
        begun = next(self._records, None)
        self._records = iter(())
        if begun is None:
            return None
        if self._group is not None:
            self._group.hand.hold_rest()
        assert self._current is not None
        return ReceivedBatch(self._current.batch, begun.sequence)

    def _open_batch(self) -> None:
        """Take the batch apart that was just taken up."""
        assert self._current is not None
        self._records = records_of(self._current.batch, self._current.start, self._pass_over)
        if self._group is not None:
            self._records = self._group.watched(self._records)

    def _pass_over(self, batch: Batch, sequence: int) -> None:
        pass_over(batch, sequence)
        if self._group is not None:
            self._group.hand.hold_rest()  # so that the position goes behind them


def listened(topics: tuple[str, ...], cluster: Cluster) -> tuple[str, ...]:
    """Return the topics to subscribe to; none, so all, where publishers would have to keep much.

    With keys nobody may subscribe to more than he may read, and who brings names is known.
    """
    many = sum(len(topic.encode()) for topic in topics) > LISTENED_BYTES_MAX
    return () if many and cluster.credentials is None else topics


def _checked_positions(positions: Mapping[Partition, int]) -> dict[Partition, int]:
    for partition, sequence in positions.items():
        if sequence < 0:
            raise MisuseError(f"position of {partition} must not be negative: {sequence}")
    return {Partition(*key): value for key, value in positions.items()}


class ConsumerRole:
    """A consumer's machine in its node."""

    name = "consumer"

    def __init__(self, machine: ConsumerMachine) -> None:
        self.machine = machine
        self.told: Callable[[], None] = lambda: None
        """Called when something was delivered, or the node ends."""
        self._delivered: queue.SimpleQueue[Deliver] = queue.SimpleQueue()

    def next(self, timeout: float, *, whole: bool) -> Deliver | None:
        """The next batch, None if there is none in time."""
        try:
            return self._delivered.get(timeout=timeout)
        except queue.Empty:
            return None

    def handle(self, side: None, event: Event, now_ms: int) -> Iterable[tuple[None, object]]:
        """Pass an event to the machine."""
        if isinstance(event, TurnEnded):
            return ()
        return [(side, effect) for effect in self.machine.handle(event, now_ms)]

    def wakeup_ms(self) -> int | None:
        """When the machine wants to be woken."""
        return self.machine.wakeup_ms()

    def perform(self, _side: None, effect: object) -> None:
        """Hand batches to the application."""
        if isinstance(effect, Deliver):
            self._delivered.put(effect)
            self.told()

    def pollable(self) -> Mapping[Pollable, Callable[[], Iterable[tuple[None, Event]]]]:
        """No sockets of its own."""
        return {}

    def close(self) -> None:
        """Nothing is held outside this object."""
        self.told()
