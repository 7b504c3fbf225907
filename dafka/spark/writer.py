"""The sink as Spark sees it: `df.write` and `df.writeStream` with `format("dafka")`.

A task takes rows in Arrow, and returns when stores have its records.

A record's place follows from the query, the task, the micro-batch and its position among the rows
of its topic. A task that is repeated finds in the log what it wrote before, compares, and writes
the rest: nothing twice, whenever it was killed. What stores acknowledge is read back: nothing is
lost either if another attempt of the task has been writing there.

A task of the sink for whole batches publishes each under the name it has. The names make it
repeatable: stores drop what they have, whoever sends it how often.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from itertools import repeat
from typing import TYPE_CHECKING, Any
from uuid import uuid4

import pyarrow as pa
import pyarrow.compute as pc
from pyspark import TaskContext
from pyspark.sql.datasource import (
    DataSourceArrowWriter,
    DataSourceStreamArrowWriter,
    WriterCommitMessage,
)

from dafka.errors import MisuseError, NotStoredError, QueryError, RecordError
from dafka.model import Batch, Partition, checked_topic
from dafka.process.clock import wall_ms
from dafka.records.envelope import Envelope, stamped, unpack
from dafka.spark.columns import WRITABLE
from dafka.spark.resume import check_tasks
from dafka.spark.task_log import Attempt, TopicLog, mirror_of
from dafka.wire.primitives import text

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from dafka.spark.options import SinkOptions


Work = Callable[["Iterator[pa.RecordBatch]", "SinkOptions", Attempt], tuple[str, ...]]
"""What a task does with its rows, wherever it runs; returns to which topics it wrote."""

_QUERY = "sql.streaming.queryId"
_BATCH = "streaming.sql.batchId"
"""What Spark tells every task of a stream, under names it has kept since it has had streams."""


@dataclass
class TaskWritten(WriterCommitMessage):
    """A task is done.

    Attributes:
        attempt: Which task.
        topics: Where it wrote.
    """

    attempt: Attempt
    topics: tuple[str, ...]


class BatchWriter(DataSourceArrowWriter):
    """Writes a batch job's rows; made once for a job, on the driver.

    Args:
        options: Checked.
        work: What every task does.
    """

    def __init__(self, options: SinkOptions, work: Work) -> None:
        self._options = options
        self._work = work
        self._run_id = options.run_id or uuid4().hex
        self._now_ms = wall_ms()

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        """Write a task's rows."""
        attempt = Attempt(f"job {self._run_id}", 0, _context().partitionId(), self._now_ms)
        return TaskWritten(attempt, self._work(iterator, self._options, attempt))

    def commit(self, messages: list[WriterCommitMessage | None]) -> None:
        """Make sure that the job was not begun with more tasks; see `check_tasks`."""
        _check(messages, self._options)


class StreamWriter(DataSourceStreamArrowWriter):
    """Writes a micro-batch's rows; made anew for every one, on the driver.

    Args:
        options: Checked.
        work: What every task does.
    """

    def __init__(self, options: SinkOptions, work: Work) -> None:
        self._options = options
        self._work = work
        self._now_ms = wall_ms()

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        """Write a task's rows."""
        context = _context()
        query, run = context.getLocalProperty(_QUERY), context.getLocalProperty(_BATCH)
        if query is None or run is None:
            raise MisuseError("this version of Spark does not tell its tasks their micro-batch")
        attempt = Attempt(f"query {query}", int(run), context.partitionId(), self._now_ms)
        return TaskWritten(attempt, self._work(iterator, self._options, attempt))

    def commit(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803
        """Make sure that the micro-batch was not begun with more tasks; see `check_tasks`.

        All rows are stored: every task has waited for that.
        """
        _check(messages, self._options)

    def abort(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803
        """Nothing can be taken back: the micro-batch is repeated, and goes on behind it."""


def _check(messages: list[WriterCommitMessage | None], options: SinkOptions) -> None:
    done = [message for message in messages if isinstance(message, TaskWritten)]
    for topic in sorted({topic for message in done for topic in message.topics}):
        attempt = done[0].attempt
        check_tasks(options.cluster.open(), attempt.query, attempt.run, len(messages), topic)


def _context() -> TaskContext:
    context = TaskContext.get()
    assert context is not None, "only tasks write"
    return context


def write(
    tables: Iterable[pa.RecordBatch], options: SinkOptions, attempt: Attempt
) -> tuple[str, ...]:
    """Write rows; returns the topics they went to once the stores have all of them.

    Raises:
        NotStoredError: No store acknowledges.
        OverlappedError: Another attempt of the same task has written other records there.
        RepeatedError: The rows are not those that this task has written before.
        MisuseError: A row cannot be a record.
        QueryError: Not enough stores answer.
    """
    mirror = mirror_of(options)
    logs: dict[str, TopicLog] = {}
    try:
        for table in tables:
            for topic, part in by_topic(_writable(table), options.topic):
                log = logs.get(topic)
                if log is None:
                    log = logs[topic] = TopicLog(mirror, options, attempt, topic)
                _extend(log, part)
        for log in logs.values():
            log.finish()
        mirror.flush(options.silence_s)
    except NotStoredError:
        for log in logs.values():
            with suppress(QueryError):  # then that stores are silent says it all
                log.explain()
        raise
    finally:
        for log in logs.values():
            log.close()
    for log in logs.values():
        log.check()
    return tuple(logs)


def _writable(table: pa.RecordBatch) -> pa.RecordBatch:
    """The columns that a record is made of."""
    return table.select([name for name in table.schema.names if name in WRITABLE])


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


def _extend(log: TopicLog, table: pa.RecordBatch) -> None:
    values = _octets(table, "value")
    if set(table.schema.names) <= {"topic", "value"} and not log.looks_up:
        log.extend_values(values)
        return
    keys, headers, stamps = _octets(table, "key"), _headers(table), _timestamps(table)
    for key, value, pairs, stamp in zip(keys, values, headers, stamps, strict=True):
        log.add((key, value, pairs), stamp)


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


def _timestamps(table: pa.RecordBatch) -> Iterable[int | None]:
    if "timestamp" not in table.schema.names:
        return repeat(None, table.num_rows)
    microseconds = table.column("timestamp").cast(pa.int64()).to_pylist()
    return [None if stamp is None else stamp // 1_000 for stamp in microseconds]


_ALL = (1 << 64) - 1


def copy(tables: Iterable[pa.RecordBatch], options: SinkOptions, _: Attempt) -> tuple[str, ...]:
    """Publish rows of whole batches; returns when stores have all.

    No topics: whoever copies takes names as they are, so nothing has to be said of them.

    Raises:
        NotStoredError: No store acknowledges, or one waits for records that are not among these.
        RecordError: A row's content is no batch.
    """
    mirror = mirror_of(options)
    begun: set[Partition] = set()
    try:
        for table in tables:
            for batch in _batches(table):
                if batch.partition not in begun:
                    begun.add(batch.partition)
                    # A mirror that wrote here before a failure would go on behind that.
                    mirror.forget((batch.partition,))
                    start = options.log_starts.get(batch.partition)
                    if start is not None:
                        mirror.begins(batch.partition, start)
                mirror.publish(batch, options.silence_s)
        mirror.flush(options.silence_s)
    finally:
        mirror.forget(begun)
    return ()


def _batches(table: pa.RecordBatch) -> Iterator[Batch]:
    for row in table.to_pylist():
        envelope = unpack(row["content"])
        if envelope is None:
            raise RecordError("envelope")
        envelope = Envelope(row["origin"], row["copy_flags"] & _ALL, envelope.epoch)
        partition = Partition(text(row["topic"]), text(row["partition"]))
        content = stamped(row["content"], envelope)
        yield Batch(partition, row["offset"], row["records"], content)
