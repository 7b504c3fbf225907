"""The records of a run that the cluster has, each of which stands for one row of the task.

The mirror through which the tasks of one Python worker write.

Finding a cluster's stores takes a second, a task often less; and Spark keeps its workers. So the
mirror stays for the next task, until the worker ends.

One task's partition of one topic, while the task writes it.

Sealed batches are published at once, except in a repetition: there they are held back until every
record that was written before has come by again, so that of rows that are not the same nothing
gets out.
"""

from __future__ import annotations

import os
import socket
from collections import Counter
from hashlib import blake2b
from tempfile import SpooledTemporaryFile
from typing import TYPE_CHECKING, NamedTuple

from dafka.errors import MisuseError
from dafka.limits import RECORD_BYTES_MAX
from dafka.model import Batch, Endpoint, Partition
from dafka.node.mirror import Mirror
from dafka.records.batch import BatchBuilder, RawRecord, Run, enclosed, raw_records
from dafka.spark.planning import Range, RangeReader
from dafka.spark.resume import PublishedDigests, RepeatedError, address_for, resumed

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from dafka.spark.options import ClusterOptions, SinkOptions


Fields = tuple[bytes | None, bytes | None, list[tuple[str, bytes | None]]]
"""Key, value, headers."""


class Known:
    """Which of a task's rows are written already.

    Rows are told apart by everything they hold. One without a timestamp was given the time of its
    attempt, so whatever the record says fits it.

    Args:
        records: What the task has written before.
    """

    def __init__(self, records: Iterable[RawRecord]) -> None:
        self._stamps: dict[bytes, Counter[int]] = {}
        """Timestamps of the records that are left, by the digest of all else."""
        self._lent: Counter[tuple[bytes, int]] = Counter()
        """Records that stand for rows without a timestamp."""
        self.left = 0
        """How many records have not found their row yet."""
        for record in records:
            digest = _digest((record.key, record.value, list(record.headers)))
            self._stamps.setdefault(digest, Counter())[record.timestamp_ms] += 1
            self.left += 1

    def take(self, fields: Fields, timestamp_ms: int | None) -> bool:
        """Whether a row is written already; each record is taken once.

        Args:
            fields: Of the row.
            timestamp_ms: Its own, if it has one.
        """
        digest = _digest(fields)
        stamps = self._stamps.get(digest)
        if stamps and (timestamp_ms is None or timestamp_ms in stamps):
            stamp = next(iter(stamps)) if timestamp_ms is None else timestamp_ms
            stamps[stamp] -= 1
            if not stamps[stamp]:
                del stamps[stamp]
            self._lent[digest, stamp] += timestamp_ms is None
            self.left -= 1
            return True
        if timestamp_ms is not None and self._lent[digest, timestamp_ms]:
            # It is this row's; the one that has it can do with another.
            self._lent[digest, timestamp_ms] -= 1
            return self.take(fields, None)
        return False


def _digest(fields: Fields) -> bytes:
    return blake2b(repr(fields).encode(), digest_size=16).digest()


_Key = tuple[int, "ClusterOptions", int]

_mirrors: dict[_Key, Mirror] = {}
"""By process, for a worker may be a fork of another; one for each cluster and key."""


def mirror_of(options: SinkOptions) -> Mirror:
    """Return this process's mirror on a sink's cluster.

    Raises:
        MisuseError: A tower's endpoint or a key file cannot be used.
    """
    key = (os.getpid(), options.cluster, options.min_acks)
    mirror = _mirrors.get(key)
    if mirror is None or not mirror.alive:
        place = options.cluster.open().bound_at(own_host(options.cluster.towers[0]))
        mirror = Mirror(place, min_acks=options.min_acks)
        _mirrors[key] = mirror
    return mirror


def own_host(tower: str) -> str:
    """The address of this machine on the network on which `tower` is: others reach us there.

    Raises:
        MisuseError: It is not an endpoint.
        OSError: There is no way to it.
    """
    host, port = Endpoint.parse(tower)
    bare = host.strip("[]")
    family = socket.AF_INET6 if ":" in bare else socket.AF_INET
    with socket.socket(family, socket.SOCK_DGRAM) as probe:
        probe.connect((bare, port))  # sends nothing: it only finds the way
        found = str(probe.getsockname()[0])
    return f"[{found}]" if family == socket.AF_INET6 else found


class Attempt(NamedTuple):
    """Which task of which run this is; the same for every repetition.

    Attributes:
        query: Names the query, or the batch job.
        run: Number of the micro-batch; 0 for a batch job.
        task: Number of the task in it.
        now_ms: Timestamp of rows that have none.
    """

    query: str
    run: int
    task: int
    now_ms: int


class TopicLog:
    """One task's partition of one topic.

    Args:
        mirror: What it is published through.
        options: Of the sink.
        attempt: Which task.
        topic: Which topic.

    Raises:
        QueryError: Not enough stores say what the task has written before.
        RepeatedError: It cannot write there any more.
    """

    def __init__(self, mirror: Mirror, options: SinkOptions, attempt: Attempt, topic: str) -> None:
        self._mirror = mirror
        self._options = options
        self._cluster = options.cluster.open()
        self.partition = Partition(topic, address_for(self._cluster, attempt.query, attempt.task))
        self._attempt = attempt
        self._before = resumed(self._cluster, options.min_acks, self.partition, attempt.run)
        first, stored = self._before.first, self._before.stored
        self._known = Known(_records(options, Range(self.partition, first, first + stored)))
        self._place = stored
        """Of the next record among those of the run."""
        self._builder = self._begin()
        self._held = _Held(self.partition, options.held_bytes_max)
        self._published = PublishedDigests(self.partition)
        # A mirror that wrote here before a failure would go on behind what it wrote then.
        mirror.forget((self.partition,))

    @property
    def looks_up(self) -> bool:
        """Whether rows have to be looked for among what was written before."""
        return self._known.left > 0 or self._before.ended

    def extend_values(self, values: Sequence[bytes | None]) -> None:
        """Add rows that are values only; not while it looks rows up.

        Raises:
            MisuseError: A row is too large.
            NotStoredError: No store acknowledges.
        """
        assert not self.looks_up
        start = 0
        while start < len(values):
            if not self._builder.count:
                self._refuse_oversize((None, values[start], []))
            start = self._builder.extend(self._attempt.now_ms, values, start)
            if start < len(values):
                self._seal()

    def add(self, fields: Fields, timestamp_ms: int | None) -> None:
        """Add a row, if it has not been written before.

        Raises:
            MisuseError: It is too large.
            NotStoredError: No store acknowledges.
            RepeatedError: It can be none of those that this task has.
        """
        if self._known.left and self._known.take(fields, timestamp_ms):
            return
        if self._before.ended:
            raise RepeatedError(
                f"this task had written all of its {self._before.stored} records to "
                f"{self.partition} before it was repeated, and has more rows now: either they are "
                "dealt to another number of tasks (minPartitions, repartition(), cores), or the "
                "query does not give the same rows twice (rand(), uuid(), a limit without an "
                "order?)"
            )
        stamp = self._attempt.now_ms if timestamp_ms is None else timestamp_ms
        if self._builder.count and self._builder.append(stamp, *fields):
            return
        self._seal()
        self._refuse_oversize(fields)
        self._builder.append(stamp, *fields)

    def finish(self) -> None:
        """Publish what has been collected.

        Raises:
            NotStoredError: No store acknowledges.
            RepeatedError: Rows that this task has written before are missing.
        """
        if self._known.left:
            raise RepeatedError(
                f"{self._known.left} records that this task wrote to {self.partition} before it "
                "was repeated are not among its rows any more: either they are dealt to another "
                "number of tasks (minPartitions, repartition(), cores), or the query does not "
                "give the same rows twice (rand(), uuid(), a limit without an order?)"
            )
        self._release()
        self._seal(last=True)

    def check(self) -> None:
        """Make sure that stores have what was published, once they have acknowledged it.

        Raises:
            OverlappedError: One has something else.
            QueryError: Not enough of them say what they have.
        """
        self._published.check(self._cluster, self._options.min_acks)

    def explain(self) -> None:
        """Find out why stores do not acknowledge.

        Raises:
            OverlappedError: One has other records.
            QueryError: One does not answer.
        """
        self._published.compare(self._cluster)

    def close(self) -> None:
        """Give up what is not published, so that the next task may begin where it likes."""
        self._held.close()
        self._mirror.forget((self.partition,))

    def _begin(self) -> BatchBuilder:
        return BatchBuilder(self._options.batch_bytes, Run(self._attempt.run, self._place))

    def _seal(self, *, last: bool = False) -> None:
        count = self._builder.count
        if count:
            sequence = self._before.first + self._place
            content = enclosed(self._builder.build(last=last), sequence)
            self._place += count
            batch = Batch(self.partition, sequence, count, content)
            if self._known.left:
                self._held.put(batch)
            else:
                self._release()
                self._publish(batch)
        self._builder = self._begin()

    def _release(self) -> None:
        """Let out what was held back."""
        for batch in self._held.take():
            self._publish(batch)

    def _publish(self, batch: Batch) -> None:
        self._published.add(batch)
        self._mirror.publish(batch, self._options.silence_s)

    def _refuse_oversize(self, fields: Fields) -> None:
        """An empty batch takes a record of any size, so its first one is looked at before."""
        key, value, headers = fields
        size = len(key or b"") + len(value or b"")
        size += sum(len(name.encode()) + len(content or b"") for name, content in headers)
        if size > RECORD_BYTES_MAX:
            raise MisuseError(
                f"a row for topic {self.partition.topic!r} has {size} bytes, "
                f"at most {RECORD_BYTES_MAX} can be"
            )


class _Held:
    """Batches that may not go out yet, in order; on disk where they are many."""

    def __init__(self, partition: Partition, bytes_max: int) -> None:
        self._partition = partition
        self._places: list[tuple[int, int, int]] = []
        """Sequence, count and size of each."""
        self._contents = SpooledTemporaryFile(bytes_max)  # noqa: SIM115 (as long as this)

    def put(self, batch: Batch) -> None:
        self._places.append((batch.sequence, batch.count, len(batch.content)))
        self._contents.write(batch.content)

    def take(self) -> Iterator[Batch]:
        """Take all of them out."""
        if not self._places:
            return
        places, self._places = self._places, []
        self._contents.seek(0)
        for sequence, count, size in places:
            yield Batch(self._partition, sequence, count, self._contents.read(size))
        self._contents.seek(0)
        self._contents.truncate()

    def close(self) -> None:
        self._contents.close()


def _records(options: SinkOptions, there: Range) -> Iterator[RawRecord]:
    with RangeReader(options.cluster.open()) as stores:
        for batches in stores.pages(there):
            for batch in batches:
                for record in raw_records(batch.content):
                    if there.start <= record.sequence < there.end:
                        yield record
