"""The sink as Spark sees it: `df.write` and `df.writeStream` with `format("dafka")`."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING
from uuid import uuid4

from pyspark import TaskContext
from pyspark.sql.datasource import (
    DataSourceArrowWriter,
    DataSourceStreamArrowWriter,
    WriterCommitMessage,
)

from dafka.errors import MisuseError
from dafka.node.clock import wall_ms
from dafka.spark.resume import check_tasks
from dafka.spark.topic_log import Attempt

if TYPE_CHECKING:
    from collections.abc import Iterator

    import pyarrow as pa

    from dafka.spark.options import SinkOptions

Work = Callable[["Iterator[pa.RecordBatch]", "SinkOptions", Attempt], tuple[str, ...]]
"""What a task does with its rows, wherever it runs; returns to which topics it wrote."""

_QUERY = "sql.streaming.queryId"
_BATCH = "streaming.sql.batchId"
"""What Spark tells every task of a stream, under names it has kept since it has had streams."""


@dataclass
class Written(WriterCommitMessage):
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
        return Written(attempt, self._work(iterator, self._options, attempt))

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
        return Written(attempt, self._work(iterator, self._options, attempt))

    def commit(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803
        """Make sure that the micro-batch was not begun with more tasks; see `check_tasks`.

        All rows are stored: every task has waited for that.
        """
        _check(messages, self._options)

    def abort(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803
        """Nothing can be taken back: the micro-batch is repeated, and goes on behind it."""


def _check(messages: list[WriterCommitMessage | None], options: SinkOptions) -> None:
    done = [message for message in messages if isinstance(message, Written)]
    options.access.introduce(options.servers)
    for topic in sorted({topic for message in done for topic in message.topics}):
        attempt = done[0].attempt
        check_tasks(options.servers, attempt.query, attempt.run, len(messages), topic)


def _context() -> TaskContext:
    context = TaskContext.get()
    assert context is not None, "only tasks write"
    return context
