"""The public consumer: iterate over the records of a cluster."""

from __future__ import annotations

import math
from collections import deque
from concurrent.futures import wait
from contextlib import ExitStack, suppress
from functools import partial
from itertools import islice
from typing import TYPE_CHECKING, Any, Generic

from dafka.cluster import Cluster, cluster_of
from dafka.errors import MisuseError
from dafka.limits import HELLO_TOPICS_MAX, LISTENED_BYTES_MAX, LISTENED_NAME_BYTES
from dafka.model import K, Partition, Record, V, checked_topic, short_repr
from dafka.node.consumer_role import ConsumerRole
from dafka.node.frames import Gathering
from dafka.node.group import GroupOptions, GroupRole, joined
from dafka.node.loop import Node
from dafka.node.received import ReceivedBatch
from dafka.node.search import Search
from dafka.process.unreadable import pass_over
from dafka.protocol.consumer import ConsumerMachine, ConsumerSettings, Start
from dafka.protocol.effects import Deliver
from dafka.protocol.events import Consumed
from dafka.records.batch import records_of
from dafka.records.serialization import Deserializers
from dafka.transport.mesh import Mesh

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from types import TracebackType
    from typing import Never, Self

    from dafka.arrow.frames import ArrowTable, PandasFrame, PolarsFrame
    from dafka.groups.events import GroupEvent, Handed
    from dafka.model import Batch
    from dafka.node.frames import FrameKind
    from dafka.node.group import Committing
    from dafka.node.turn import Role
    from dafka.query.client import StoreClient
    from dafka.records.serialization import Deserializer

_CHECK_S = 1.0
"""How often a waiting iteration looks whether the node still lives."""

_GIVE_BACK_PARTS = 8
"""Room is given back when so large a part of the buffer was read: it wakes the node's thread."""

LEAVE_S = 5.0
"""How long stores may take to acknowledge the last positions, and to hear that a member leaves."""

ISOLATIONS = ("published", "stored")


class Consumer(Generic[K, V]):
    """Receives every record of its topics, each partition in order.

    Records that nobody can read, though their batch is whole, are passed over: they are logged, and
    counted (`dafka_unreadable_records_total`). Iterating waits for more, unless there is a
    `timeout`; `poll` returns after a while. An error of a deserializer ends an iteration, and the
    next one begins behind that record. Not safe for use from several threads at once.

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
        key_deserializer: Makes something of each key's octets; without it they stay octets.
        value_deserializer: Makes something of each value's. A key or value of None is left alone.
        connect_timeout: Seconds after which waiting is an error if no other node of the cluster has
            been found; None is never, and a `ConnectionWarning` says so after two.
        delivery: "direct": it connects to all producers and stores. "stores": to stores only, which
            pass on what they have on disk, so `isolation` makes no difference. Without it, what
            is declared of the cluster.

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
        key_deserializer: Deserializer[K] | None = None,
        value_deserializer: Deserializer[V] | None = None,
        connect_timeout: float | None = None,
        delivery: str | None = None,
    ) -> None:
        names = _checked_topics(topics)
        _check_reading(start, isolation, timeout)
        self.timeout = timeout
        self._topics = names
        self._deserializers = Deserializers.given(key_deserializer, value_deserializer)
        cluster = cluster_of(cluster).delivered(delivery)
        self.search = Search(cluster, lambda: self.towers_away, self._others, connect_timeout)
        """Whether the cluster has been found."""
        self.address = cluster.new_address()
        options = None
        if group is not None:
            options = GroupOptions(
                group, cluster.stores, auto_commit_ms, session_timeout_ms, max_hold_ms
            ).checked(names, positions)
        settings = ConsumerSettings(
            topics=listened(names, cluster),
            wants=frozenset(names).__contains__,
            start=Start(start) if options is None else Start.ASSIGNED,
            positions=_checked_positions(positions or {}),
            committed=isolation == "stored" and not cluster.is_guest,
            guest=cluster.is_guest,
            buffer_bytes_max=buffer_bytes_max,
        )
        self._records: Iterator[Any] = iter(())
        self._current: Deliver | Handed | None = None
        """The batch being iterated."""
        self._again: deque[Deliver] = deque()
        """Batches that were taken back."""
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

    def __iter__(self) -> Iterator[Record[K, V]]:
        while True:
            records = self._records
            if self._deserializers is not None:
                records = map(self._deserializers.deserialized, records)
            # Not `yield from`: who leaves the loop would close the batch, and lose the rest of it.
            for record in records:  # noqa: UP028
                yield record
            if not self._next_batch_in_time():
                return
            self._open_batch()

    def batches(self) -> Iterator[ReceivedBatch[K, V]]:
        """Iterate over whole batches instead of records: for those who need few of the fields.

        Begins with what is left of the batch whose records were being iterated, if one was.
        """
        while True:
            batch = self._batch_begun(None)
            if batch is None and self._next_batch_in_time(whole=True):
                batch = self._batch_taken_up()
            if batch is None:
                return
            yield batch

    def poll_batch(
        self, timeout: float, records_max: int | None = None
    ) -> ReceivedBatch[K, V] | None:
        """Return the next batch, as `batches` does, or None if there is none in `timeout` seconds.

        Args:
            timeout: Seconds.
            records_max: Of a larger batch only so many records; the others come next.

        Raises:
            MisuseError, NodeFailedError, RebalancedError, UnreachableError: As `poll`.
        """
        if records_max is not None and records_max < 1:
            raise MisuseError(f"records_max must be 1 or more: {records_max}")
        batch = self._batch_begun(records_max)
        while batch is None and self._next_batch(timeout):
            whole = self._batch_taken_up()
            if records_max is None or whole.count <= records_max:
                self._hold_rest()
                return whole
            self._open_batch()
            batch = self._batch_begun(records_max)
        return batch

    def poll(self, timeout: float) -> Record[K, V] | None:
        """Return the next record, or None if there is none within `timeout` seconds.

        Raises:
            MisuseError: The consumer is closed, and everything it had received is read.
            NodeFailedError: The consumer's thread has ended.
            RebalancedError: In a group: this consumer held records for too long, and is out of it.
            DeserializationError: A deserializer has failed; what follows the record comes next.
            UnreachableError: The cluster is not found within `connect_timeout`.
        """
        record = self.next_at_hand()
        while record is None and self._next_batch(timeout):
            self._open_batch()
            record = self.next_at_hand()
        return record

    def to_arrow(
        self, *, max_records: int | None = None, timeout: float | None = None
    ) -> ArrowTable:
        """Return the next records as a table of pyarrow; `dafka.arrow.frames` has its columns.

        Keys and values are as they are stored: no deserializer is asked.

        Args:
            max_records: How many at most; 1,000,000 if it is not said, and 1 GiB of them. The
                others come next.
            timeout: Seconds without a record after which there are enough; the consumer's own if
                it is not said.

        Raises:
            MissingPackageError: What makes such a table is not installed.
            MisuseError: It is not said when there are enough, or it is in a group that commits by
                itself.
            NodeFailedError, RebalancedError, UnreachableError: As `poll`.
        """
        return self._frame("arrow", max_records, timeout)

    def to_pandas(
        self, *, max_records: int | None = None, timeout: float | None = None
    ) -> PandasFrame:
        """Return the same as a data frame of pandas; see `to_arrow`."""
        return self._frame("pandas", max_records, timeout)

    def to_polars(
        self, *, max_records: int | None = None, timeout: float | None = None
    ) -> PolarsFrame:
        """Return the same as a data frame of polars; see `to_arrow`."""
        return self._frame("polars", max_records, timeout)

    def _frame(self, kind: FrameKind, max_records: int | None, timeout: float | None) -> Any:  # noqa: ANN401
        gathering = self.gathering(kind, max_records, timeout)
        try:
            while gathering.left:
                gathering.add(self.poll_batch(gathering.timeout, gathering.left))
            return gathering.made()
        except BaseException:
            self.take_back(gathering.received)
            raise

    def gathering(
        self, kind: FrameKind, max_records: int | None, timeout: float | None
    ) -> Gathering[K, V]:
        """Begin a frame, as `to_arrow` does.

        Raises:
            MissingPackageError, MisuseError: As that.
        """
        if self._group is not None and self._group.commits_by_itself:
            raise MisuseError(
                f"to_{kind} of a group that commits by itself would commit records before they are "
                "returned: give auto_commit_ms=None, and commit behind each frame"
            )
        return Gathering(kind, max_records, self.timeout if timeout is None else timeout)

    def take_back(self, received: Sequence[ReceivedBatch[K, V]]) -> None:
        """Hand these over again before all others: the application has not got them.

        Args:
            received: What was polled last, in its order.
        """
        if not received:
            return
        self._records = iter(())
        if self._group is None:
            again = [Deliver(one.batch, one.sequence) for one in received]
            self._again.extendleft(reversed(again))
            return
        for one in reversed(received):
            with suppress(MisuseError):  # another member's by now, who gets it
                self._group.seek(Partition(one.topic, one.address), one.sequence)

    def next_at_hand(self) -> Record[K, V] | None:
        """Return the next record of the batch that was taken up last; None behind its last one."""
        record: Record[Any, Any] | None = next(self._records, None)
        if record is None or self._deserializers is None:
            return record
        return self._deserializers.deserialized(record)

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

    def __repr__(self) -> str:
        """In a line, at once, whatever it is doing."""
        shown = [repr(self.search.cluster.called), f"topics={short_repr([*self._topics])}"]
        if self._group is not None:
            shown.append(f"group={self._group.group!r}, lag={self._group.lag}")
        elif self._current is not None:
            topic, address = self._current.batch.partition
            shown.append(f"at={topic}/{address[:8]}…/{self._current.batch.sequence}")
        failed = self._node.failure is not None
        shown.append(self.search.state(closed=self._closed, failed=failed))
        return f"Consumer({', '.join(shown)})"

    def _others(self) -> int:
        """How many other nodes it has found; a group's member has one of its own beside it.

        That one is no store, so guests do not find it.
        """
        beside = self._group is not None and not self.search.cluster.is_guest
        return self._node.peers(None) - beside

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
        if self._again:
            self._current = self._again.popleft()
            return True
        taken: Callable[[float], Deliver | Handed | None] = partial(self._role.next, whole=whole)
        while (delivered := self.search.wait(taken, min(timeout, _CHECK_S))) is None:
            self._node.check()
            if self._closed:
                raise MisuseError("consumer is closed")
            timeout -= _CHECK_S
            if timeout <= 0:
                return False
        self._current = delivered
        self._read += len(delivered.batch.content)
        return True

    def _next_batch_in_time(self, *, whole: bool = False) -> bool:
        """Take up the next batch; False if none has come for `timeout`."""
        return self._next_batch(math.inf if self.timeout is None else self.timeout, whole=whole)

    def _batch_taken_up(self) -> ReceivedBatch[K, V]:
        assert self._current is not None
        batch = self._current.batch
        return ReceivedBatch(batch, self._current.start, batch.end, self._deserializers)

    def _batch_begun(self, records_max: int | None) -> ReceivedBatch[K, V] | None:
        """What is left of the batch whose records are being iterated, or the first of that."""
        begun = next(self._records, None)
        if begun is None:
            return None
        assert self._current is not None
        batch = self._current.batch
        end = batch.end
        if records_max is not None and end - begun.sequence > records_max:
            (last,) = deque(islice(self._records, records_max - 1), maxlen=1) or (begun,)
            end = last.sequence + 1
        else:
            self._records = iter(())
            self._hold_rest()
        return ReceivedBatch(batch, begun.sequence, end, self._deserializers)

    def _open_batch(self) -> None:
        """Take the batch apart that was just taken up."""
        assert self._current is not None
        self._records = records_of(
            self._current.batch, self._current.start, self._pass_over, checked=True
        )
        if self._group is not None:
            self._records = self._group.watched(self._records)

    def _pass_over(self, batch: Batch, sequence: int) -> None:
        pass_over(batch, sequence)
        self._hold_rest()  # so that the position goes behind them

    def _hold_rest(self) -> None:
        """All that is left of the batch is handed over at once."""
        if self._group is not None:
            self._group.hand.hold_rest()


def _checked_topics(topics: str | Sequence[str]) -> tuple[str, ...]:
    names = (topics,) if isinstance(topics, str) else tuple(topics)
    if not names:
        raise MisuseError("at least one topic is needed")
    if len(names) > HELLO_TOPICS_MAX:
        raise MisuseError(
            f"{len(names):,} topics are too many for one consumer, which takes "
            f"{HELLO_TOPICS_MAX:,}: have several"
        )
    return tuple(checked_topic(name) for name in names)


def _check_reading(start: str, isolation: str, timeout: float | None) -> None:
    if start not in (Start.EARLIEST.value, Start.LATEST.value):
        raise MisuseError(f'start must be "earliest" or "latest", got {start!r}')
    if isolation not in ISOLATIONS:
        raise MisuseError(f'isolation must be "published" or "stored", got {isolation!r}')
    if timeout is not None and timeout < 0:
        raise MisuseError(f"timeout must not be negative: {timeout}")


def listened(topics: tuple[str, ...], cluster: Cluster) -> tuple[str, ...]:
    """Return the topics to subscribe to; none, so all, where publishers would have to keep much.

    With keys nobody may subscribe to more than he may read, and who brings names is known.
    """
    size = sum(len(topic.encode()) + LISTENED_NAME_BYTES for topic in topics)
    many = size > LISTENED_BYTES_MAX
    return () if many and cluster.credentials is None else topics


def _checked_positions(positions: Mapping[Partition, int]) -> dict[Partition, int]:
    for partition, sequence in positions.items():
        if sequence < 0:
            raise MisuseError(f"position of {partition} must not be negative: {sequence}")
    return {Partition(*key): value for key, value in positions.items()}
