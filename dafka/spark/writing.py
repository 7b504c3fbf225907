"""What a task of the sink does: rows in Arrow in, records that stores have out.

A record's place follows from the query, the task, the micro-batch and its position among the rows
of its topic. A task that is repeated finds in the log what it wrote before, compares, and writes
the rest: nothing twice, whenever it was killed.
"""

from __future__ import annotations

from collections import Counter
from hashlib import blake2b
from itertools import repeat
from typing import TYPE_CHECKING, Any, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from dafka.errors import MisuseError
from dafka.limits import RECORD_BYTES_MAX
from dafka.model import Batch, Partition, checked_topic
from dafka.records.batch import BatchBuilder, Run, enclosed, raw_records
from dafka.spark.publisher import mirror_of
from dafka.spark.ranges import Range
from dafka.spark.resume import RepeatedError, address_for, resumed
from dafka.spark.stores import Stores

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from dafka.node.mirror import Mirror
    from dafka.spark.options import SinkOptions

BATCH_BYTES = 256 * 1024
"""Size at which a batch goes out."""

SILENCE_S = 60.0
"""How long no store may acknowledge anything before the task fails, and is tried again."""

Fields = tuple[bytes | None, bytes | None, list[tuple[str, bytes | None]]]
"""Key, value, headers."""


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


def write(tables: Iterable[pa.RecordBatch], options: SinkOptions, attempt: Attempt) -> int:
    """Write rows; returns how many there were once the stores have all of them.

    Raises:
        NotStoredError: No store acknowledges.
        RepeatedError: The rows are not those that this task has written before.
        MisuseError: A row cannot be a record.
        QueryError: Not enough stores answer.
    """
    options.access.introduce(options.servers, options.towers)
    mirror = mirror_of(options.towers, options.min_acks)
    logs: dict[str, _TopicLog] = {}
    rows = 0
    try:
        for table in tables:
            rows += table.num_rows
            for topic, part in by_topic(table, options.topic):
                log = logs.get(topic)
                if log is None:
                    log = logs[topic] = _TopicLog(mirror, options, attempt, topic)
                log.extend(part)
        for log in logs.values():
            log.finish()
        mirror.flush(SILENCE_S)
    finally:
        # Done or not: the next task that writes there may begin where it likes.
        mirror.forget(log.partition for log in logs.values())
    return rows


def by_topic(table: pa.RecordBatch, default: str | None) -> Iterator[tuple[str, pa.RecordBatch]]:
    """Yield the rows of each topic, in order.

    Raises:
        MisuseError: A row has no topic, or one that cannot be used.
    """
    if "topic" not in table.schema.names:
        assert default is not None, "checked on the driver"
        yield default, table
        return
    topics = table.column("topic")
    for topic in pc.unique(topics).to_pylist():
        name = default if topic is None else topic
        if name is None:
            raise MisuseError("a row has no topic, and there is no option 'topic'")
        chosen = topics.is_null() if topic is None else pc.equal(topics, topic)
        yield checked_topic(name), table.filter(chosen)


class _TopicLog:
    """One task's partition of one topic."""

    def __init__(self, mirror: Mirror, options: SinkOptions, attempt: Attempt, topic: str) -> None:
        self.partition = Partition(topic, address_for(attempt.query, attempt.task))
        self._mirror = mirror
        self._attempt = attempt
        first, stored = resumed(options.servers, options.min_acks, self.partition, attempt.run)
        self._first = first
        self._written = self._stored(options, Range(self.partition, first, first + stored))
        """Records of this run that the cluster has and that have not come by again."""
        self._place = stored
        """Of the next record among those of the run."""
        self._builder = self._begin()
        # A mirror that wrote here before a failure would go on behind what it wrote then.
        mirror.forget((self.partition,))

    def extend(self, table: pa.RecordBatch) -> None:
        """Add rows."""
        values = _octets(table, "value")
        if set(table.schema.names) <= {"topic", "value"} and not self._written:
            self._extend_values(values)
            return
        keys, headers = _octets(table, "key"), _headers(table)
        stamps = _timestamps(table, self._attempt.now_ms)
        for key, value, pairs, stamp in zip(keys, values, headers, stamps, strict=True):
            if not (self._written and self._known((key, value, pairs))):
                self._add(stamp, (key, value, pairs))

    def finish(self) -> None:
        """Publish what has been collected."""
        if self._written:
            raise RepeatedError(
                f"{sum(self._written.values())} records that this task wrote to {self.partition} "
                "before it was repeated are not among its rows any more: the query does not "
                "give the same rows twice (rand(), uuid(), a limit without an order?)"
            )
        self._seal()

    def _extend_values(self, values: list[bytes | None]) -> None:
        start = 0
        while start < len(values):
            if not self._builder.count:
                self._refuse_oversize((None, values[start], []))
            start = self._builder.extend(self._attempt.now_ms, values, start)
            if start < len(values):
                self._seal()

    def _add(self, timestamp_ms: int, fields: Fields) -> None:
        if self._builder.count and self._builder.append(timestamp_ms, *fields):
            return
        self._seal()
        self._refuse_oversize(fields)
        self._builder.append(timestamp_ms, *fields)

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

    def _known(self, fields: Fields) -> bool:
        """Whether the cluster has this row; each of its records stands for one row."""
        digest = _digest(fields)
        count = self._written.get(digest, 0)
        if count > 1:
            self._written[digest] = count - 1
        elif count:
            del self._written[digest]
        return count > 0

    def _stored(self, options: SinkOptions, there: Range) -> Counter[bytes]:
        found: Counter[bytes] = Counter()
        with Stores(options.servers) as stores:
            for batches in stores.pages(there):
                for batch in batches:
                    found.update(
                        _digest((record.key, record.value, list(record.headers)))
                        for record in raw_records(batch.content)
                        if there.start <= record.sequence < there.end
                    )
        return found

    def _begin(self) -> BatchBuilder:
        return BatchBuilder(BATCH_BYTES, Run(self._attempt.run, self._place))

    def _seal(self) -> None:
        count = self._builder.count
        if count:
            sequence = self._first + self._place
            content = enclosed(self._builder.build(), sequence)
            self._mirror.publish(Batch(self.partition, sequence, count, content), SILENCE_S)
            self._place += count
        self._builder = self._begin()


def _digest(fields: Fields) -> bytes:
    return blake2b(repr(fields).encode(), digest_size=16).digest()


def _octets(table: pa.RecordBatch, name: str) -> list[bytes | None]:
    if name not in table.schema.names:
        return [None] * table.num_rows
    found: list[bytes | None] = table.column(name).cast(pa.binary()).to_pylist()
    return found


def _headers(table: pa.RecordBatch) -> Iterable[list[tuple[str, bytes | None]]]:
    if "headers" not in table.schema.names:
        return repeat([], table.num_rows)
    rows = table.column("headers").to_pylist()
    return ([_header(pair) for pair in pairs or ()] for pairs in rows)


def _header(pair: dict[str, Any] | None) -> tuple[str, bytes | None]:
    if pair is None or pair["key"] is None:
        raise MisuseError(
            "a row has a header that is null, or whose key is: a header needs a key; its value may "
            "be null"
        )
    return pair["key"], pair["value"]


def _timestamps(table: pa.RecordBatch, now_ms: int) -> Iterable[int]:
    if "timestamp" not in table.schema.names:
        return repeat(now_ms, table.num_rows)
    microseconds = table.column("timestamp").cast(pa.int64()).to_pylist()
    return [now_ms if stamp is None else stamp // 1_000 for stamp in microseconds]
