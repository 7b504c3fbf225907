"""What a task of the sink does: rows in Arrow in, records that stores have out.

A record's place follows from the query, the task, the micro-batch and its position among the rows
of its topic. A task that is repeated finds in the log what it wrote before, compares, and writes
the rest: nothing twice, whenever it was killed. What stores acknowledge is read back: nothing is
lost either if another attempt of the task has been writing there.
"""

from __future__ import annotations

from contextlib import suppress
from itertools import repeat
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc

from dafka.errors import MisuseError, NotStoredError, QueryError
from dafka.model import checked_topic
from dafka.spark.publisher import mirror_of
from dafka.spark.topic_log import SILENCE_S, TopicLog

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from dafka.spark.options import SinkOptions
    from dafka.spark.topic_log import Attempt


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
    options.access.introduce(options.servers, options.towers)
    mirror = mirror_of(options.towers, options.min_acks, options.access)
    logs: dict[str, TopicLog] = {}
    try:
        for table in tables:
            for topic, part in by_topic(table, options.topic):
                log = logs.get(topic)
                if log is None:
                    log = logs[topic] = TopicLog(mirror, options, attempt, topic)
                _extend(log, part)
        for log in logs.values():
            log.finish()
        mirror.flush(SILENCE_S)
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
