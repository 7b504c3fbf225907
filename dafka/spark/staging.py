"""What an attempt of a task has: its rows, in `__staged`, where no other one writes.

The mirror through which the tasks of one Python worker write, and where.

Finding a cluster's stores takes a second, a task often less; and Spark keeps its workers. So the
mirror stays for the next task, until the worker ends.
"""

from __future__ import annotations

import os
import secrets
import socket
from dataclasses import dataclass
from operator import mul
from typing import TYPE_CHECKING, NamedTuple, Protocol
from zlib import crc32

from dafka.errors import MisuseError
from dafka.groups.runs import DIGESTS, STAGED, StagedRows
from dafka.limits import BATCH_BYTES_MAX, RECORD_BYTES_MAX
from dafka.model import Batch, Endpoint, Partition
from dafka.node.mirror import Mirror
from dafka.process.clock import wall_ms
from dafka.records.batch import BatchBuilder, Run, enclosed, raw_records
from dafka.records.header import checked_fields

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from dafka.spark.options import ClusterOptions, SinkOptions


Fields = tuple[bytes | None, bytes | None, list[tuple[str, bytes | None]]]
"""Key, value, headers."""

OPEN_BYTES_MAX = 16 * 1024 * 1024
"""Of the open batches of a task for one topic, once it has begun one for each partition."""

_LIFE_BITS = 62
"""Of numbers that nobody else draws."""

_mirrors: dict[tuple[int, ClusterOptions, int], Mirror] = {}
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


@dataclass(slots=True)
class StagingPlace:
    """Where this process stages rows for one topic: one task after the other, in one partition.

    A partition for each attempt would be some hundred thousand a day.

    Attributes:
        partition: Which.
        life: Of its producer; a number that nobody else draws.
        end: The next sequence.
    """

    partition: Partition
    life: int
    end: int = 0


_places: dict[tuple[int, ClusterOptions, int, str], StagingPlace] = {}
"""By process, as mirrors are, and topic."""


def place_of(options: SinkOptions, topic: str) -> StagingPlace:
    """Return where this process stages rows for a topic."""
    key = (os.getpid(), options.cluster, options.min_acks, topic)
    place = _places.get(key)
    if place is None:
        partition = Partition(STAGED, options.cluster.open().new_address())
        place = _places[key] = StagingPlace(partition, secrets.randbits(_LIFE_BITS))
    return place


def leave(place: StagingPlace) -> None:
    """Stage elsewhere from now on: it is not known how far stores have it."""
    for key, one in list(_places.items()):
        if one is place:
            del _places[key]


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
    """Which task of which run this is an attempt of.

    Attributes:
        key: Of the run: names the query, or the batch job.
        run: Number of the micro-batch; 0 for a batch job.
        task: Number of the task in it.
        now_ms: Timestamp of rows that have none.
    """

    key: str
    run: int
    task: int
    now_ms: int

    def number_of(self, partitions: int) -> int:
        """The partition of its rows that have no key: other runs and tasks have other ones."""
        return (crc32(f"{self.key}/{self.run}".encode("utf-8", "replace")) + self.task) % partitions


class MirrorPort(Protocol):
    """What batches are published through: `dafka.node.mirror.Mirror`."""

    def publish(self, batch: Batch, silence_s: float) -> None:
        """Publish a batch under the name that it has."""

    def flush(self, silence_s: float) -> None:
        """Return when enough stores have all."""

    def forget(self, partitions: Iterable[Partition]) -> None:
        """Go on in these as if nothing had been published."""


class Stage:
    """What an attempt writes to one topic.

    Args:
        mirror: What it is published through.
        options: Of the sink.
        attempt: Whose.
        topic: Where the rows are to go.
        partitions: How many partitions sinks have there.
    """

    def __init__(
        self,
        mirror: MirrorPort,
        options: SinkOptions,
        attempt: Attempt,
        topic: str,
        partitions: int,
    ) -> None:
        self._mirror = mirror
        self._options = options
        self._attempt = attempt
        self._topic = topic
        self.partitions = partitions
        self.keyless = attempt.number_of(partitions)
        """The partition of rows without a key."""
        self.place = place_of(options, topic)
        self._start = self.place.end
        self._digest = 0
        self._open: dict[int, _OpenBatch] = {}

    def extend_values(self, values: Sequence[bytes | None]) -> None:
        """Add rows that are values only.

        Raises:
            MisuseError: A row is too large.
            NotStoredError: No store acknowledges.
        """
        batch = self._batch(self.keyless)
        start = 0
        while start < len(values):
            if not batch.builder.count:
                self._refuse_oversize((None, values[start], []))
            start = batch.builder.extend(self._attempt.now_ms, values, start)
            if start < len(values):
                self._seal(batch)
        self._digest += digest_of_values(values)

    def extend(self, number: int, rows: Iterable[tuple[Fields, int | None]]) -> None:
        """Add rows to a partition.

        Args:
            number: Which.
            rows: Each with its timestamp, if it has one of its own.

        Raises:
            MisuseError: A row is too large.
            NotStoredError: No store acknowledges.
        """
        batch = self._batch(number)
        for fields, timestamp_ms in rows:
            self._digest += digest_of_row(fields, timestamp_ms)
            stamp = self._attempt.now_ms if timestamp_ms is None else timestamp_ms
            if batch.builder.count and batch.builder.append(stamp, *fields):
                continue
            self._seal(batch)
            self._refuse_oversize(fields)
            batch.builder.append(stamp, *fields)

    def finish(self) -> StagedRows:
        """Publish what is left; returns what it is all together.

        Raises:
            NotStoredError: No store acknowledges.
        """
        for batch in self._open.values():
            self._seal(batch)
        rows = sorted((one.number, one.records) for one in self._open.values() if one.records)
        return StagedRows(
            self._topic,
            self._attempt.task,
            self.place.partition.address,
            self._start,
            self.place.end - self._start,
            self.partitions,
            tuple(rows),
            self._digest % DIGESTS,
        )

    def _batch(self, number: int) -> _OpenBatch:
        batch = self._open.get(number)
        if batch is None:
            life = secrets.randbits(_LIFE_BITS)
            batch = self._open[number] = _OpenBatch(number, life, self._batch_bytes())
        return batch

    def _batch_bytes(self) -> int:
        """The size of the next batch: smaller ones where many are open."""
        return min(self._options.batch_bytes, OPEN_BYTES_MAX // (len(self._open) or 1))

    def _seal(self, batch: _OpenBatch) -> None:
        if not batch.builder.count:
            return
        # As a record's value: stores drop by the time of records, and rows may be of any time.
        place = self.place
        wrapper = BatchBuilder(BATCH_BYTES_MAX, Run(place.life, place.end))
        wrapper.append(wall_ms(), number_key(batch.number), bytes(batch.builder.build()), ())
        content = enclosed(wrapper.build(), place.end)
        staged = Batch(place.partition, place.end, 1, content)
        place.end += 1
        self._mirror.publish(staged, self._options.silence_s)
        batch.begin_next(self._batch_bytes())

    def _refuse_oversize(self, fields: Fields) -> None:
        """An empty batch takes a record of any size, so its first one is looked at before."""
        key, value, headers = fields
        size = len(key or b"") + len(value or b"")
        size += sum(len(name.encode()) + len(content or b"") for name, content in headers)
        if size > RECORD_BYTES_MAX:
            raise MisuseError(
                f"a row for topic {self._topic!r} has {size} bytes, at most {RECORD_BYTES_MAX} can "
                "be"
            )


class _OpenBatch:
    """The batch of an attempt for one partition, to which rows are added.

    Args:
        number: Of the partition.
        life: Of the batches' producer, where they are published.
        bytes_max: Size at which it goes out.
    """

    def __init__(self, number: int, life: int, bytes_max: int) -> None:
        self.number = number
        self.records = 0
        """In the batches that went out."""
        self._life = life
        self.builder = BatchBuilder(bytes_max, Run(life, 0))

    def begin_next(self, bytes_max: int) -> None:
        """It went out; begin the next one."""
        self.records += self.builder.count
        self.builder = BatchBuilder(bytes_max, Run(self._life, self.records))


def number_key(number: int) -> bytes:
    """The key of a staged batch: to which partition it goes."""
    return b"%d" % number


def unwrapped(
    staged: Iterable[Batch], partitions: Mapping[int, Partition], begins: dict[int, int]
) -> Iterator[Batch]:
    """Yield what is staged as it is to be published: the batches as they were sealed.

    Args:
        staged: All that is staged of a segment.
        partitions: Where to, by their numbers; what goes elsewhere is left out.
        begins: The next sequence of each; goes on with what is yielded.
    """
    for batch in staged:
        for record in raw_records(batch.content):
            number = int(record.key or b"0")
            if number not in partitions:
                continue
            at, value = begins[number], record.value or b""
            count = checked_fields(value).records
            # The base offset stands outside the checksum: nothing else has to change.
            yield Batch(partitions[number], at, count, enclosed(value, at))
            begins[number] = at + count


# Digests tell whether a job that was run again has the rows that it had, in whatever order. Squares
# are added up: checksums themselves are linear, so that rows which have only exchanged a part of
# what they hold would often add up to the same.


_KEYED = 0x5A5A5A5A
"""Makes an empty key another one than none."""


def digest_of_values(values: Sequence[bytes | None]) -> int:
    """The digest of rows that are values only."""
    checksums = [crc32(b"" if value is None else value) + (value is None) for value in values]
    return sum(map(mul, checksums, checksums))


def digest_of_row(fields: Fields, timestamp_ms: int | None) -> int:
    """The digest of one row; its timestamp counts if it has one of its own."""
    key, value, headers = fields
    checksum = crc32(b"" if value is None else value) + (value is None)
    if key is not None:
        checksum = crc32(key, checksum ^ _KEYED)
    if headers or timestamp_ms is not None:
        checksum = crc32(repr((checksum, headers, timestamp_ms)).encode())
    return checksum * checksum
