"""The sink as Spark sees it: `df.write` and `df.writeStream` with `format("dafka")`.

A task takes rows in Arrow and stages them, each attempt for itself; when all are done the driver
has the stores agree on what the run is, and publishes it (`dafka.spark.commit`). So it is written
once, whatever was repeated meanwhile, in whatever order and by however many tasks.

A task of the sink for whole batches publishes each under the name it has. The names make it
repeatable: stores drop what they have, whoever sends it how often.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise, repeat
from typing import TYPE_CHECKING, Any, Protocol
from uuid import uuid4

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyspark import TaskContext
from pyspark.sql.datasource import (
    DataSourceArrowWriter,
    DataSourceStreamArrowWriter,
    WriterCommitMessage,
)

from dafka.errors import MisuseError, RecordError
from dafka.model import Batch, Partition, checked_topic
from dafka.process.clock import wall_ms
from dafka.records.batch import checked_count, compressed_content
from dafka.records.compression import Codec
from dafka.records.envelope import Envelope, stamped, unpack
from dafka.spark.columns import WRITABLE
from dafka.spark.commit import RunCommit, RunName
from dafka.spark.partitioning import key_numbers
from dafka.spark.staging import Attempt, Stage, leave, mirror_of
from dafka.spark.topic_sinks import partitions_of
from dafka.wire.primitives import text

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from numpy.typing import NDArray

    from dafka.groups.runs import StagedRows
    from dafka.spark.options import SinkOptions


class Write(Protocol):
    """What a task does with its rows, wherever it runs; returns what it has staged."""

    def __call__(
        self, tables: Iterator[pa.RecordBatch], options: SinkOptions, attempt: Attempt, /
    ) -> tuple[StagedRows, ...]:
        """Return when stores have them."""


_QUERY = "sql.streaming.queryId"
_BATCH = "streaming.sql.batchId"
"""What Spark tells every task of a stream, under names it has kept since it has had streams; also
those of batch jobs that `foreachBatch` begins."""


@dataclass
class TaskWritten(WriterCommitMessage):
    """A task is done.

    Attributes:
        run: To which it belongs.
        segments: What it has staged.
    """

    run: RunName
    segments: tuple[StagedRows, ...]


class BatchWriter(DataSourceArrowWriter):
    """Writes a batch job's rows; made once for a job, on the driver.

    Args:
        options: Checked.
        write: What every task does.
    """

    def __init__(self, options: SinkOptions, write: Write) -> None:
        self._options = options
        self._write = write
        self._drawn = uuid4().hex
        self._now_ms = wall_ms()

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        """Write a task's rows."""
        context = _context()
        run = self._run(context)
        attempt = Attempt(run.key, run.number, context.partitionId(), self._now_ms)
        return TaskWritten(run, self._write(iterator, self._options, attempt))

    def commit(self, messages: list[WriterCommitMessage | None]) -> None:
        """Commit the run: from now on its rows are there."""
        _commit(messages, self._options)

    def _run(self, context: TaskContext) -> RunName:
        named = self._options.run_id
        if named is None:
            return RunName(f"job {self._drawn}", 0, shared=False)
        key = f"job {named!r} of topic {self._options.topic!r}"
        query, batch = context.getLocalProperty(_QUERY), context.getLocalProperty(_BATCH)
        if query is None or batch is None:
            return RunName(key, 0, exact=True)
        # Begun by foreachBatch: two queries may well give their batches the same names.
        return RunName(f"{key} in query {query}", int(batch), exact=True)


class StreamWriter(DataSourceStreamArrowWriter):
    """Writes a micro-batch's rows; made anew for every one, on the driver.

    Args:
        options: Checked.
        write: What every task does.
    """

    def __init__(self, options: SinkOptions, write: Write) -> None:
        self._options = options
        self._write = write
        self._now_ms = wall_ms()

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        """Write a task's rows."""
        context = _context()
        query, batch = context.getLocalProperty(_QUERY), context.getLocalProperty(_BATCH)
        if query is None or batch is None:
            raise MisuseError("this version of Spark does not tell its tasks their micro-batch")
        run = RunName(f"query {query}", int(batch))
        attempt = Attempt(run.key, run.number, context.partitionId(), self._now_ms)
        return TaskWritten(run, self._write(iterator, self._options, attempt))

    def commit(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803
        """Commit the micro-batch: from now on its rows are there."""
        _commit(messages, self._options)

    def abort(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803
        """Nothing has to be taken back: what is staged and not committed goes by its age."""


class CopyingBatchWriter(BatchWriter):
    """Writes whole batches: with their names all is said, so nothing is left to be committed."""

    def commit(self, messages: list[WriterCommitMessage | None]) -> None:
        """All are stored: every task has waited for that."""


class CopyingStreamWriter(StreamWriter):
    """Writes whole batches: with their names all is said, so nothing is left to be committed."""

    def commit(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803
        """All are stored: every task has waited for that."""


def _commit(messages: list[WriterCommitMessage | None], options: SinkOptions) -> None:
    done = [message for message in messages if isinstance(message, TaskWritten)]
    assert len(done) == len(messages), "Spark commits when all tasks are done"
    if done:
        segments = [segment for message in done for segment in message.segments]
        RunCommit(options, done[0].run, segments).commit()


def _context() -> TaskContext:
    context = TaskContext.get()
    assert context is not None, "only tasks write"
    return context


def stage(
    tables: Iterable[pa.RecordBatch], options: SinkOptions, attempt: Attempt
) -> tuple[StagedRows, ...]:
    """Stage rows; returns what is staged, once stores have all of it.

    Raises:
        NotStoredError: Not enough stores acknowledge.
        MisuseError: A row cannot be a record.
    """
    mirror = mirror_of(options)
    stages: dict[str, Stage] = {}
    try:
        for table in tables:
            for topic, part in by_topic(_writable(table), options.topic):
                staged = stages.get(topic)
                if staged is None:
                    partitions = partitions_of(options, topic)
                    staged = stages[topic] = Stage(mirror, options, attempt, topic, partitions)
                _extend(staged, part)
        segments = [staged.finish() for staged in stages.values()]
        mirror.flush(options.silence_s)
    except BaseException:
        for staged in stages.values():
            leave(staged.place)
        raise
    finally:
        mirror.forget([staged.place.partition for staged in stages.values()])
    return tuple(segment for segment in segments if segment.records)


def _writable(table: pa.RecordBatch) -> pa.RecordBatch:
    """The columns that a record is made of, and the number of its partition."""
    return table.select([field.name for field in table.schema if _is_writable(field)])


def _is_writable(field: pa.Field) -> bool:
    # A partition that is no number is one that a source has shown: an address.
    return field.name in WRITABLE or (field.name == "partition" and pa.types.is_integer(field.type))


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


def _extend(staged: Stage, table: pa.RecordBatch) -> None:
    if set(table.schema.names) <= {"topic", "value"}:
        staged.extend_values(_octets(table, "value"))
        return
    for number, part in dealt(table, staged.partitions, staged.keyless):
        values, keys = _octets(part, "value"), _octets(part, "key")
        fields = zip(keys, values, _headers(part), strict=True)
        staged.extend(number, zip(fields, _timestamps(part), strict=True))


def dealt(
    table: pa.RecordBatch, partitions: int, keyless: int
) -> Iterator[tuple[int, pa.RecordBatch]]:
    """Yield the rows of each partition, in order.

    Args:
        table: Of one topic.
        partitions: How many there are.
        keyless: The one of rows that have neither a key nor a partition of their own.

    Raises:
        MisuseError: A row has a partition of its own that there is not.
    """
    if partitions == 1 and table.num_rows and "partition" not in table.schema.names:
        yield 0, table
        return
    numbers = _numbers(table, partitions, keyless)
    order = np.argsort(numbers, kind="stable")
    found, starts = np.unique(numbers[order], return_index=True)
    if len(found) > 1:
        table = table.take(pa.array(order))
    bounds = [*starts.tolist(), len(numbers)]
    for number, (start, end) in zip(found.tolist(), pairwise(bounds), strict=True):
        yield number, table.slice(start, end - start)


def _numbers(table: pa.RecordBatch, partitions: int, keyless: int) -> NDArray[np.int64]:
    """The partition of each row."""
    names = table.schema.names
    numbers = np.full(table.num_rows, keyless)
    if "key" in names:
        hashed = key_numbers(_binary(table, "key"), partitions)
        numbers = np.where(hashed < 0, numbers, hashed)
    if "partition" not in names:
        return numbers
    chosen = table.column("partition").cast(pa.int64())
    for wrong in pc.unique(chosen.filter(_outside(chosen, partitions))).to_pylist():
        raise MisuseError(
            f"a row has partition {wrong}, and sinks have {partitions} in its topic: 0 to "
            f"{partitions - 1}, or null, which leaves it to its key; see the option 'partitions'"
        )
    own = chosen.fill_null(-1).to_numpy(zero_copy_only=False)
    return np.where(own < 0, numbers, own)


def _outside(chosen: pa.Array, partitions: int) -> pa.Array:
    return pc.or_(pc.less(chosen, 0), pc.greater_equal(chosen, partitions))


def _octets(table: pa.RecordBatch, name: str) -> list[bytes | None]:
    if name not in table.schema.names:
        return [None] * table.num_rows
    found: list[bytes | None] = _binary(table, name).to_pylist()
    return found


def _binary(table: pa.RecordBatch, name: str) -> pa.Array:
    return table.column(name).cast(pa.binary())


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


def copy(
    tables: Iterable[pa.RecordBatch], options: SinkOptions, _: Attempt
) -> tuple[StagedRows, ...]:
    """Publish rows of whole batches; returns when stores have all.

    Nothing is staged: whoever copies takes names as they are.

    Raises:
        NotStoredError: No store acknowledges, or one waits for records that are not among these.
        RecordError: A row's content is no batch; if it is to be compressed, also if it is damaged,
            which a new checksum would hide.
    """
    mirror = mirror_of(options)
    begun: set[Partition] = set()
    try:
        for table in tables:
            for batch in _batches(table, options.codec):
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


def _batches(table: pa.RecordBatch, codec: Codec) -> Iterator[Batch]:
    for row in table.to_pylist():
        content = row["content"]
        if unpack(content) is None:
            raise RecordError("envelope")
        if codec is not Codec.NONE:
            checked_count(content, row["offset"])
            content = compressed_content(content, codec)
        envelope = Envelope(row["origin"], row["copy_flags"] & _ALL, row["epoch"])
        partition = Partition(text(row["topic"]), text(row["partition"]))
        yield Batch(partition, row["offset"], row["records"], stamped(content, envelope))
