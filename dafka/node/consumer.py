"""The public consumer: iterate over the records of a cluster."""

from __future__ import annotations

import queue
from typing import TYPE_CHECKING

from dafka.errors import MisuseError
from dafka.model import Partition, Record, checked_topic
from dafka.node.node import Node, Role, new_address, open_mesh
from dafka.protocol.consumer import ConsumerMachine, ConsumerSettings, Start
from dafka.protocol.effects import Deliver
from dafka.protocol.events import Drained, Event, TurnEnded
from dafka.records.batch import records_of, values_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
    from types import TracebackType
    from typing import Never, Self

    from dafka.model import Batch
    from dafka.transport.keys import Credentials
    from dafka.transport.poller import Pollable

_CHECK_S = 1.0
"""How often a waiting iteration looks whether the node still lives."""


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

        Raises:
            RecordError: The batch is damaged.
        """
        return values_of(self._batch, self.sequence)

    def __iter__(self) -> Iterator[Record]:
        """Iterate over the records.

        Raises:
            RecordError: The batch is damaged.
        """
        return records_of(self._batch, self.sequence)


class Consumer:
    """Receives every record of its topics, each partition in order.

    Iterating never ends by itself; `poll` returns after a while. Not safe for use from several
    threads at once.

    Args:
        towers: The cluster's tower, `tcp://host:port`, or several.
        topics: A topic, or several.
        start: Where partitions without a position begin: "earliest" at their first record,
            "latest" behind what is there when they are first heard of.
        positions: Sequence to begin at, for some partitions.
        host: Where to bind: `HOST`, `HOST:PORT`, `*`, `ipc:///DIRECTORY` or `inproc://`.
        advertise: `HOST` or `HOST:PORT` where others reach it; else where it is bound, or at `*`
            where its towers see it connect from.
        buffer_bytes_max: Bytes received ahead of the application.
        credentials: The node's key and those it knows, in a cluster with keys.
        insecure: Let anybody in at another host than this machine's own, without keys.
        wire: How nodes write to each other in this cluster, "rfc46" or "libdafka", that of the C
            implementation; without it, what the topology says that was read, else "rfc46".

    Raises:
        MisuseError: An argument cannot be used.
    """

    def __init__(
        self,
        towers: str | Sequence[str],
        topics: str | Sequence[str],
        *,
        start: str = "earliest",
        positions: Mapping[Partition, int] | None = None,
        host: str = "127.0.0.1",
        advertise: str | None = None,
        buffer_bytes_max: int = 32 * 1024 * 1024,
        credentials: Credentials | None = None,
        insecure: bool = False,
        wire: str | None = None,
    ) -> None:
        names = (topics,) if isinstance(topics, str) else tuple(topics)
        if not names:
            raise MisuseError("at least one topic is needed")
        if start not in (Start.EARLIEST.value, Start.LATEST.value):
            raise MisuseError(f'start must be "earliest" or "latest", got {start!r}')
        for partition, sequence in (positions or {}).items():
            if sequence < 0:
                raise MisuseError(f"position of {partition} must not be negative: {sequence}")
        self.address = new_address(towers, credentials)
        settings = ConsumerSettings(
            topics=tuple(checked_topic(name) for name in names),
            start=Start(start),
            positions={Partition(*key): value for key, value in (positions or {}).items()},
            buffer_bytes_max=buffer_bytes_max,
        )
        self._delivered: queue.SimpleQueue[Deliver] = queue.SimpleQueue()
        self._records: Iterator[Record] = iter(())
        self._current: Deliver | None = None
        """The batch being iterated."""
        self._size = 0
        """Its bytes, until their room is given back."""
        self._closed = False
        role: Role[None, Never] = _ConsumerRole(
            ConsumerMachine(self.address, settings), self._delivered
        )
        where = self.address, towers, host, credentials, advertise
        mesh = open_mesh(*where, insecure=insecure, wire=wire)
        self._node = Node(role, self.address, {None: mesh})
        self._node.start()

    def __iter__(self) -> Iterator[Record]:
        while True:
            # Not `yield from`: who leaves the loop would close the batch, and lose the rest of it.
            for record in self._records:  # noqa: UP028
                yield record
            if self._next_batch(_CHECK_S):
                self._open_batch()

    def batches(self) -> Iterator[ReceivedBatch]:
        """Iterate over whole batches instead of records: for those who need few of the fields.

        Begins with what is left of the batch whose records were being iterated, if one was.
        """
        while True:
            begun = next(self._records, None)
            self._records = iter(())
            if begun is not None or self._next_batch(_CHECK_S):
                assert self._current is not None
                start = self._current.start if begun is None else begun.sequence
                yield ReceivedBatch(self._current.batch, start)

    def poll(self, timeout: float) -> Record | None:
        """Return the next record, or None if there is none within `timeout` seconds.

        Raises:
            MisuseError: The consumer is closed, and everything it had received is read.
            RecordError: A batch is damaged; the next call goes on behind it.
            NodeFailedError: The consumer's thread has ended.
        """
        record = next(self._records, None)
        if record is None and self._next_batch(timeout):
            self._open_batch()
            # Never empty: a batch is delivered only if it brings something new.
            record = next(self._records, None)
        return record

    def close(self) -> None:
        """Leave the cluster. What has been received can still be read."""
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

    def _next_batch(self, timeout: float) -> bool:
        """Take up the next batch, giving back the room of the one that has been read."""
        if self._size:
            self._node.post(None, Drained(self._size))
            self._size = 0
        try:
            delivered = self._delivered.get(timeout=timeout)
        except queue.Empty:
            self._node.check()
            if self._closed:
                raise MisuseError("consumer is closed") from None
            return False
        self._current = delivered
        self._size = len(delivered.batch.content)
        return True

    def _open_batch(self) -> None:
        """Take the batch apart that was just taken up."""
        assert self._current is not None
        self._records = records_of(self._current.batch, self._current.start)


class _ConsumerRole:
    """The consumer's shell in the node's thread."""

    name = "consumer"

    def __init__(self, machine: ConsumerMachine, delivered: queue.SimpleQueue[Deliver]) -> None:
        self._machine = machine
        self._delivered = delivered

    def handle(self, side: None, event: Event, now_ms: int) -> Iterable[tuple[None, object]]:
        if isinstance(event, TurnEnded):
            return ()
        return [(side, effect) for effect in self._machine.handle(event, now_ms)]

    def wakeup_ms(self) -> int | None:
        return self._machine.wakeup_ms()

    def perform(self, _side: None, effect: object) -> None:
        if isinstance(effect, Deliver):
            self._delivered.put(effect)

    def pollable(self) -> Mapping[Pollable, Callable[[], Iterable[tuple[None, Event]]]]:
        return {}

    def close(self) -> None:
        return
