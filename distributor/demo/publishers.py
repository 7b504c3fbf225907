"""Who publishes the data set: a process for each cluster, with its rows made before it sends any.

So what is measured is the way of records, not the making of rows, and no cluster waits for another.
"""

from __future__ import annotations

import multiprocessing
import signal
import time
from contextlib import ExitStack, suppress
from multiprocessing.connection import wait
from typing import TYPE_CHECKING, NamedTuple

from dafka.cluster import Cluster
from dafka.model import Partition
from dafka.node.producer import Producer
from distributor.demo.dataset import rows
from distributor.demo.job import ROW_HEADER, STALLED_S, Published
from distributor.errors import ProcessError
from distributor.loading import load

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Sequence
    from multiprocessing.connection import Connection
    from pathlib import Path
    from types import TracebackType
    from typing import Self

    from distributor.demo.dataset import DatasetRow

_ROWS_PER_STEP = 2_000
"""How often progress is told."""

_BATCH_BYTES_MAX = 128 * 1024
_END_S = 5.0


class _Made(NamedTuple):
    """A publisher has made its rows."""

    rows: int


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
        made = 0
        left = set(self._homes)
        while left:
            for pipe, told in self._told(left):
                assert isinstance(told, _Made)
                made += told.rows
                left.remove(pipe)
        return made

    def publish(self, advance: Callable[[int], None]) -> Published:
        """Have all rows published.

        Args:
            advance: Told how many rows have been sent since it was last told.

        Raises:
            ProcessError: A publisher cannot go on, or has ended.
        """
        published = Published()
        began = time.monotonic()
        left = set(self._homes)
        for pipe in left:
            with suppress(BrokenPipeError):  # that it has ended is found below
                pipe.send(True)
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


def _run(pipe: Connection, file: Path, cluster: str, own: tuple[int | None, int, int]) -> None:
    """What a process does; its own are the rows of this limit, part and number of parts."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # whoever has begun it ends it
    try:
        there = Cluster.declared(load(file).cluster(cluster))
        made = list(rows(*own))
        pipe.send(_Made(len(made)))
        pipe.recv()
        pipe.send(send_rows(there, made, lambda sent: pipe.send(_Progress(sent))))
    except (EOFError, ConnectionError):
        return  # whoever has begun it is gone
    except Exception as error:  # noqa: BLE001 (whoever has begun it tells)
        with suppress(ConnectionError):
            pipe.send(_Failed(str(error) or type(error).__name__))


def send_rows(cluster: Cluster, own: Iterable[DatasetRow], advance: Callable[[int], None]) -> _Sent:
    """Publish rows on a cluster; returns when its stores have all.

    Raises:
        NotStoredError: They do not take them.
    """
    partitions: dict[Partition, None] = {}
    """In the order of the rows."""
    count = size = 0
    producer = Producer(cluster, batch_bytes_max=_BATCH_BYTES_MAX)
    try:
        for number, topic, key, value in own:
            producer.send(topic, value, key=key, headers=[(ROW_HEADER, str(number).encode())])
            partitions[Partition(topic, producer.address)] = None
            size += len(key) + len(value)
            count += 1
            if count % _ROWS_PER_STEP == 0:
                advance(_ROWS_PER_STEP)
        producer.flush(STALLED_S)
        advance(count % _ROWS_PER_STEP)
    finally:
        producer.close(0)
    return _Sent(count, size, tuple(partitions))
