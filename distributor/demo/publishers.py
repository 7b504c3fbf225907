"""Who publishes the data set: a process for each cluster, with its rows made before it sends any.

So what is measured is the way of records, not the making of rows, and no cluster waits for another.
First some rows are sent at a steady pace, which shows how long a hop takes; then all others at
once, which shows how many a second there can be.
"""

from __future__ import annotations

import multiprocessing
import signal
import time
from contextlib import ExitStack, suppress
from itertools import islice
from multiprocessing.connection import wait
from typing import TYPE_CHECKING, NamedTuple

from dafka.cluster import Cluster
from dafka.model import Partition
from dafka.node.producer import Producer
from dafka.process.memory import collect_rarely, keep_freed_memory
from distributor.demo.dataset import rows
from distributor.demo.job import ROW_HEADER, STALLED_S, Published
from distributor.errors import ProcessError
from distributor.loading import load

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator, Sequence
    from multiprocessing.connection import Connection
    from pathlib import Path
    from types import TracebackType
    from typing import Self

    from distributor.demo.dataset import DatasetRow

CODEC = "zstd"
"""Rows are JSON, with the same names in each."""

STEADY_ROWS_MAX = 5_000
"""A publisher's rows that go out at a steady pace; at most half of what it has."""

STEADY_RATE = 1_000
"""Of these so many a second."""

_TICK_S = 0.05
"""How often some of these are sent."""

_ROWS_PER_STEP = 2_000
"""How often progress is told otherwise."""

_BATCH_BYTES_MAX = 512 * 1024
_END_S = 5.0


class _Made(NamedTuple):
    """A publisher has made its rows."""

    rows: int


class Order(NamedTuple):
    """What a publisher is to send next.

    Attributes:
        rows: So many; None is all that are left.
        rate: So many a second; None is as fast as it goes.
    """

    rows: int | None = None
    rate: int | None = None


class _Progress(NamedTuple):
    """It has sent some more."""

    rows: int


class _Sent(NamedTuple):
    """It has sent all, and stores have them."""

    rows: int
    size: int
    partitions: tuple[Partition, ...]


class _Failed(NamedTuple):
    """It cannot go on."""

    why: str


class Publishers:
    """The processes, which begin to make rows at once. To be closed.

    Args:
        file: Where the topology is declared: each process reads it.
        clusters: One on each of these; rows are dealt to them in turn.
        limit: At most so many rows of each topic; None for all.
    """

    def __init__(self, file: Path, clusters: Sequence[str], limit: int | None) -> None:
        self._homes: dict[Connection, str] = {}
        self._made: dict[Connection, int] = {}
        """How many rows each has, once it has told."""
        # A fork would take the threads' locks of this process with it.
        context = multiprocessing.get_context("spawn")
        with ExitStack() as opened:
            for part, cluster in enumerate(clusters):
                here, there = context.Pipe()
                self._homes[here] = cluster
                process = context.Process(
                    target=_run,
                    args=(there, file, cluster, (limit, part, len(clusters))),
                    name=f"publisher-{cluster}",
                    daemon=True,
                )
                process.start()
                opened.callback(process.join, _END_S)
                opened.callback(process.terminate)
                opened.callback(here.close)
                there.close()
            self._opened = opened.pop_all()

    def __enter__(self) -> Self:
        """Enter a `with`."""
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Close."""
        self.close()

    def prepare(self) -> int:
        """Wait until all have made their rows; returns how many these are.

        Raises:
            ProcessError: One cannot, or has ended.
        """
        left = set(self._homes)
        while left:
            for pipe, told in self._told(left):
                assert isinstance(told, _Made)
                self._made[pipe] = told.rows
                left.remove(pipe)
        return sum(self._made.values())

    @property
    def steady_rows(self) -> int:
        """How many of the rows made go out at a steady pace."""
        return sum(map(_steady, self._made.values()))

    def publish_steadily(self, advance: Callable[[int], None]) -> Published:
        """Have the first rows published at a pace that lets nothing pile up.

        Args:
            advance: Told how many rows have been sent since it was last told.

        Raises:
            ProcessError: A publisher cannot go on, or has ended.
        """
        return self._publish(
            {pipe: Order(_steady(made), STEADY_RATE) for pipe, made in self._made.items()},
            advance,
        )

    def publish(self, advance: Callable[[int], None]) -> Published:
        """Have all other rows published at once.

        Args:
            advance: Told how many rows have been sent since it was last told.

        Raises:
            ProcessError: A publisher cannot go on, or has ended.
        """
        return self._publish(dict.fromkeys(self._made, Order()), advance)

    def _publish(
        self, orders: dict[Connection, Order], advance: Callable[[int], None]
    ) -> Published:
        published = Published()
        began = time.monotonic()
        for pipe, order in orders.items():
            with suppress(BrokenPipeError):  # that it has ended is found below
                pipe.send(order)
        left = set(orders)
        while left:
            for pipe, told in self._told(left):
                if isinstance(told, _Progress):
                    advance(told.rows)
                    continue
                assert isinstance(told, _Sent)
                published.rows += told.rows
                published.size += told.size
                published.homes |= dict.fromkeys(told.partitions, self._homes[pipe])
                left.remove(pipe)
        published.seconds = time.monotonic() - began
        return published

    def close(self) -> None:
        """End the processes; what they have not published stays so."""
        self._opened.close()

    def _told(self, left: Collection[Connection]) -> list[tuple[Connection, object]]:
        """Wait for what some of these tell."""
        ready = wait(left)
        return [(pipe, self._received(pipe)) for pipe in left if pipe in ready]

    def _received(self, pipe: Connection) -> object:
        home = self._homes[pipe]
        try:
            told = pipe.recv()
        except (EOFError, ConnectionError) as error:
            raise ProcessError(f"the publisher at {home} has ended") from error
        if isinstance(told, _Failed):
            raise ProcessError(f"the publisher at {home} cannot go on: {told.why}")
        return told


def _steady(made: int) -> int:
    return min(STEADY_ROWS_MAX, made // 2)


def _run(pipe: Connection, file: Path, cluster: str, own: tuple[int | None, int, int]) -> None:
    """What a process does; its own are the rows of this limit, part and number of parts."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # whoever has begun it ends it
    keep_freed_memory()
    try:
        made = [ready(row) for row in rows(*own)]
        left = iter(made)
        collect_rarely()
        there = Cluster.declared(load(file).cluster(cluster))
        with Producer(there, batch_bytes_max=_BATCH_BYTES_MAX, compression=CODEC) as producer:
            pipe.send(_Made(len(made)))
            while True:
                order = pipe.recv()
                pipe.send(send_rows(producer, left, order, lambda sent: pipe.send(_Progress(sent))))
    except (EOFError, ConnectionError):
        return  # whoever has begun it is gone
    except Exception as error:  # noqa: BLE001 (whoever has begun it tells)
        with suppress(ConnectionError):
            pipe.send(_Failed(str(error) or type(error).__name__))


class ReadyRow(NamedTuple):
    """A row as it is sent."""

    topic: str
    key: bytes
    value: bytes
    headers: tuple[tuple[str, bytes], ...]


def ready(row: DatasetRow) -> ReadyRow:
    """A row with its number in a header."""
    number, topic, key, value = row
    return ReadyRow(topic, key, value, ((ROW_HEADER, str(number).encode()),))


def send_rows(
    producer: Producer[bytes, bytes],
    left: Iterator[ReadyRow],
    order: Order,
    advance: Callable[[int], None],
) -> _Sent:
    """Publish the first of the rows that are left; returns when stores have all of these.

    Raises:
        NotStoredError: They do not take them.
    """
    topics: dict[str, None] = {}
    """In the order of the rows."""
    count = size = 0
    rate = order.rate
    step = _ROWS_PER_STEP if rate is None else max(1, round(rate * _TICK_S))
    began = time.monotonic()
    wanted = islice(left, order.rows)
    while some := list(islice(wanted, step)):
        for topic, key, value, headers in some:
            producer.send(topic, value, key=key, headers=headers)
            topics[topic] = None
            size += len(key) + len(value)
        count += len(some)
        advance(len(some))
        if rate is not None:
            time.sleep(max(0.0, began + count / rate - time.monotonic()))
    producer.flush(STALLED_S)
    return _Sent(count, size, tuple(Partition(topic, producer.address) for topic in topics))
