"""Spark with more partitions and more rows, beside what it reads of its own: `rate` and Parquet.

The rows are flights, the same ones in the store and in Parquet, read whole with two task slots. CPU
is that of the session's processes, Java and Python, and by itself that of the store.
"""

from __future__ import annotations

import statistics
import time
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING

from benchmarks.flights import TOPIC, filled
from benchmarks.harness import (
    PATIENCE_S,
    PROGRESS,
    Worker,
    cpu_seconds,
    free_ports,
    scratch,
    tree_cpu_seconds,
    until_told,
)
from dafka.spark import register
from dafka.spark.session import open_session

if TYPE_CHECKING:
    from collections.abc import Iterator
    from multiprocessing.connection import Connection

    from pyspark.sql import DataFrame
    from pyspark.sql.streaming.query import StreamingQuery

    from benchmarks.harness import Results

PARTITIONS = (10, 1_000, 10_000)
ROWS = (1_000_000, 10_000_000, 50_000_000)

MICRO_BATCH = 100_000
"""Rows of one, as many of each partition."""

_MICRO_BATCHES = 10

Spent = tuple[float, float]
"""Seconds by the clock, and of CPU."""


def _serve(pipe: Connection, tower: str, query: str, data: str) -> None:
    from dafka import Store, Tower

    with Tower(tower), Store(Path(data), tower, query=query):
        pipe.send("up")
        while until_told(pipe):
            pipe.send(cpu_seconds())


class _Session:
    """What is done in a process that has a session: each answers what it has taken."""

    def __init__(self) -> None:
        self._spark = open_session("local[2]", "growth", {"spark.sql.shuffle.partitions": "2"})
        register(self._spark)

    def read(self, options: dict[str, str]) -> Spent:
        """All rows there are."""
        return _read(self._spark.read.format("dafka").options(**options).load())

    def keep(self, options: dict[str, str], directory: str) -> None:
        """Write them as Parquet."""
        self._spark.read.format("dafka").options(**options).load().write.parquet(directory)

    def read_kept(self, directory: str) -> Spent:
        """All rows of that."""
        return _read(self._spark.read.parquet(directory))

    def stream(self, source: str, options: dict[str, str]) -> Spent:
        """A micro-batch in the middle of some; the first is left out."""
        with scratch() as checkpoint:
            rows = self._spark.readStream.format(source).options(**options).load()
            writer = rows.writeStream.format("noop").option("checkpointLocation", str(checkpoint))
            query = writer.start()
            first = _reached(query, 0)
            began = tree_cpu_seconds()
            last = _reached(query, _MICRO_BATCHES)
            spent = (tree_cpu_seconds() - began) / (last - first)
            query.stop()
        done = [one["durationMs"] for one in query.recentProgress if one["numInputRows"]][1:]
        return statistics.median(one["triggerExecution"] for one in done) / 1_000, spent


def _reached(query: StreamingQuery, number: int) -> int:
    """Wait for a micro-batch, by its number; returns that of the last one that is done."""
    while (error := query.exception()) is None:
        last = query.lastProgress
        if last and last["numInputRows"] and last["batchId"] >= number:
            return int(last["batchId"])
        time.sleep(0.002)
    raise error


def _read(rows: DataFrame) -> Spent:
    cpu, began = tree_cpu_seconds(), time.perf_counter()
    rows.write.format("noop").mode("overwrite").save()
    return time.perf_counter() - began, tree_cpu_seconds() - cpu


def _session(pipe: Connection) -> None:
    session = _Session()
    pipe.send("up")
    with suppress(EOFError):
        while True:
            name, *given = pipe.recv()
            pipe.send(getattr(session, name)(*given))


@contextmanager
def _stored(
    rows: int, partitions: int, batch_records: int = 1_000
) -> Iterator[tuple[Worker, dict[str, str]]]:
    """A store with so many rows, and the options that lead to it."""
    with scratch() as data:
        filled(data, rows, partitions, batch_records)
        first = free_ports(3)
        query = f"tcp://127.0.0.1:{first + 2}"
        store = Worker(_serve, f"tcp://127.0.0.1:{first}", query, str(data))
        store.hear()
        try:
            yield store, {"servers": query, "subscribe": TOPIC}
        finally:
            store.end()


def _asked(session: Worker, *question: object) -> Spent:
    session.tell(question)
    spent: Spent = session.hear(PATIENCE_S)
    return spent


def _cpu_of(store: Worker) -> float:
    store.tell("cpu")
    seconds: float = store.hear()
    return seconds


def _what(rows: int, partitions: int | None) -> str:
    where = "Parquet" if partitions is None else f"{partitions:,} partitions"
    return f"Spark, {rows // 1_000_000} M rows of {where}"


def _batches(partitions: int | None) -> str:
    where = "`rate`" if partitions is None else f"{partitions:,} partitions"
    return f"Spark, micro-batches of {MICRO_BATCH:,} rows of {where}"


_SPARKS, _STORES = "CPU of Spark", "CPU of the store"


def _grown(results: Results, session: Worker, rows: int, partitions: int) -> None:
    with _stored(rows, partitions) as (store, options):
        before = _cpu_of(store)
        seconds, cpu = _asked(session, "read", options)
        of_store = _cpu_of(store) - before
        name = _what(rows, partitions)
        results.add(name, "rows/s", rows / seconds)
        results.add(f"{name}: {_SPARKS}", "us/row", cpu / rows * 1e6)
        results.add(f"{name}: {_STORES}", "us/row", of_store / rows * 1e6)
        if partitions == PARTITIONS[0]:
            with scratch() as directory:
                _asked(session, "keep", options, f"{directory}/rows")
                seconds, cpu = _asked(session, "read_kept", f"{directory}/rows")
            name = _what(rows, None)
            results.add(name, "rows/s", rows / seconds)
            results.add(f"{name}: {_SPARKS}", "us/row", cpu / rows * 1e6)


def _streamed(results: Results, session: Worker, partitions: int) -> None:
    rows, of_each = MICRO_BATCH * (_MICRO_BATCHES + 2), MICRO_BATCH // partitions
    with _stored(rows, partitions, of_each) as (store, options):
        options |= {"startingOffsets": "earliest", "maxOffsetsPerTrigger": str(MICRO_BATCH)}
        before = _cpu_of(store)
        seconds, cpu = _asked(session, "stream", "dafka", options)
        of_store = (_cpu_of(store) - before) / (_MICRO_BATCHES + 1)
    name = _batches(partitions)
    results.add(name, "s", seconds)
    results.add(f"{name}: {_SPARKS}", "s", cpu)
    results.add(f"{name}: {_STORES}", "s", of_store)


def spark_growth(results: Results, rows_max: int) -> None:
    """Everything, with no more rows than that."""
    session = Worker(_session)
    session.hear()
    with _stored(ROWS[0], PARTITIONS[0]) as (_, options):
        _asked(session, "read", options)  # and its workers are there
    for rows in ROWS:
        for partitions in PARTITIONS:
            if rows <= rows_max:
                _grown(results, session, rows, partitions)
    for partitions in PARTITIONS:
        _streamed(results, session, partitions)
    rate = {"rowsPerBatch": str(MICRO_BATCH), "numPartitions": "2"}
    seconds, cpu = _asked(session, "stream", "rate-micro-batch", rate)
    results.add(_batches(None), "s", seconds)
    results.add(f"{_batches(None)}: {_SPARKS}", "s", cpu)
    session.end()
    PROGRESS.print(growth_table(results), markup=False)


def growth_table(results: Results) -> str:
    """What of these is in docs/performance.md, in Markdown."""
    medians = {series.name: series.median for series in results}
    heads = [f"{partitions:,} partitions" for partitions in PARTITIONS]
    lines = [f"| | {' | '.join(heads)} | Spark's own |", "|---" * (len(heads) + 2) + "|"]
    for rows in ROWS:
        names = [_what(rows, partitions) for partitions in (*PARTITIONS, None)]
        if names[0] in medians:
            cells = [_cell(medians, name, "{:,.0f} rows/s", "{:.2f}") for name in names]
            lines.append(f"| {rows // 1_000_000} M rows, Parquet | {' | '.join(cells)} |")
    names = [_batches(partitions) for partitions in (*PARTITIONS, None)]
    cells = [_cell(medians, name, "{:.2f} s", "{:.2f}") for name in names]
    lines.append(f"| micro-batch of {MICRO_BATCH:,} rows, `rate` | {' | '.join(cells)} |")
    return "\n".join(lines)


def _cell(medians: dict[str, float], name: str, form: str, cpu_form: str) -> str:
    spent = [cpu_form.format(medians[f"{name}: {_SPARKS}"])]
    if (store := medians.get(f"{name}: {_STORES}")) is not None:
        spent.append(cpu_form.format(store))
    return f"{' + '.join(spent)}; {form.format(medians[name])}"
