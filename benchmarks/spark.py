"""Spark against a source that only makes rows up, in the same session.

Reading and writing run in sessions with one task slot, so their rates are those of a core (of
Spark's; Python and the store work beside it). Streams and copies run with two.
"""

from __future__ import annotations

import json
import statistics
import time
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING

from pyspark.sql import functions as F  # noqa: N812 (as everybody writes it)
from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition

from benchmarks.flights import batches_of, filled
from benchmarks.harness import PATIENCE_S, Results, Worker, free_ports, rate, scratch, until_told
from dafka.arrow.columns import record_batch
from dafka.arrow.parsing import Page
from dafka.model import Range
from dafka.process.web import WebServer, bind
from dafka.schemas.rest import application
from dafka.schemas.schema_log import MemorySchemaLog
from dafka.schemas.service import Service
from dafka.spark.columns import TYPES, all_columns
from dafka.spark.confluent import from_confluent_avro, to_confluent_avro
from dafka.spark.options import source_options
from dafka.spark.reader import BatchReader
from dafka.spark.rows import RecordRows
from dafka.spark.session import open_session
from distributor.spark import register
from distributor.spark.link_job import LinkJob
from topology import load, plan

if TYPE_CHECKING:
    from collections.abc import Iterator
    from multiprocessing.connection import Connection

    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType

MADE_UP = "Spark, rows made up in Arrow"
READ = "Spark batch read, flights of 91 B"

PARTITIONS = 4
MICRO_BATCH = 1_000_000
TASK_RECORDS = 100_000
_SMALL_MICRO_BATCHES = 20
"""Of a few records each, to see what a micro-batch costs by itself."""


class MadeUp(DataSource):
    """As many rows as asked for, with all the columns of ours; each task has one batch of them."""

    @classmethod
    def name(cls) -> str:
        """What stands in `format(...)`."""
        return "made-up"

    def schema(self) -> StructType:
        """As ours."""
        return all_columns(headers=False)

    def reader(self, schema: StructType) -> DataSourceReader:
        """The only thing there is."""
        return _MadeUpReader(int(self.options["rows"]))


class _MadeUpReader(DataSourceReader):
    def __init__(self, rows: int) -> None:
        self._rows = rows

    def partitions(self) -> list[InputPartition]:
        return [InputPartition(None) for _ in range(PARTITIONS)]

    def read(self, _partition: InputPartition) -> Iterator[pa.RecordBatch]:
        columns = [name for name in TYPES if name != "headers"]
        batches = batches_of(0, 10_000)
        wanted = Range(batches[0].partition, 0, 10_000)
        table = record_batch(Page(batches), [wanted] * len(batches), columns)
        for _ in range(self._rows // PARTITIONS // table.num_rows):
            yield table


def _serve(pipe: Connection, tower: str, query: str, data: str) -> None:
    from dafka import Store, Tower

    with Tower(tower), Store(Path(data), tower, query=query):
        pipe.send("up")
        until_told(pipe)


def _session(slots: int) -> SparkSession:
    spark = open_session(f"local[{slots}]", "bench", {"spark.sql.shuffle.partitions": "2"})
    register(spark)
    spark.dataSource.register(MadeUp)
    return spark


def _noop(rows: DataFrame) -> None:
    rows.write.format("noop").mode("overwrite").save()


def _one_core(pipe: Connection, file: Path, records: int) -> None:
    """Batch reading and writing with one task slot."""
    spark = _session(1)
    options = {"topology": str(file), "cluster": "c1"}

    def read() -> None:
        _noop(spark.read.format("dafka").options(**options, subscribe="bench").load())

    def make_up() -> None:
        _noop(spark.read.format("made-up").option("rows", records).load())

    def write(rows: int) -> None:
        values = spark.range(0, rows, 1, 2).selectExpr("lpad(CAST(id AS STRING), 100) AS value")
        writer = values.write.format("dafka").mode("append")
        writer.options(**options, topic="written").save()

    read()
    make_up()
    write(10_000)
    pipe.send("warm")
    until_told(pipe)
    rates = []
    for work, count in ((make_up, records), (read, records), (lambda: write(records), records)):
        began = time.perf_counter()
        work()
        rates.append(rate(count, began))
    pipe.send(rates)
    until_told(pipe)
    spark.stop()


def _stream(spark: SparkSession, options: dict[str, str], per_trigger: int) -> tuple[float, float]:
    """Rows a second and median milliseconds of the micro-batches of a stream, but the first."""
    with scratch() as checkpoint:
        rows = (
            spark.readStream.format("dafka")
            .option("startingOffsets", "earliest")
            .options(**options, subscribe="bench", maxOffsetsPerTrigger=per_trigger)
            .load()
        )
        query = (
            rows.writeStream.format("noop")
            .option("checkpointLocation", str(checkpoint))
            .trigger(availableNow=True)
            .start()
        )
        query.awaitTermination()
        done = [one for one in query.recentProgress if one["numInputRows"]][1:]
    spans_ms = [one["durationMs"]["triggerExecution"] for one in done]
    total = sum(one["numInputRows"] for one in done)
    return total / sum(spans_ms) * 1_000, statistics.median(spans_ms)


def _two_cores(pipe: Connection, file: Path, records: int) -> None:
    """Streaming and copying with two task slots."""
    spark = _session(2)
    options = {"topology": str(file), "cluster": "c1"}
    topology = load(file)
    few = {**options, "startingOffsets": _near_the_end(records)}
    _stream(spark, few, 20)
    pipe.send("warm")
    until_told(pipe)
    streamed, _ = _stream(spark, options, MICRO_BATCH)
    _, overhead_ms = _stream(spark, few, 20)
    (link,) = (link for link in plan(topology).links if link.source == "c1")
    job = LinkJob(spark, topology, link, available_now=True)
    began = time.perf_counter()
    warm, since = 0, began  # its first micro-batch starts the workers
    while not job.join(0.02):
        if not warm and (warm := job.copied):
            since = time.perf_counter()
    copied = job.copied  # with what the sink has written before
    pipe.send((streamed, overhead_ms, rate(copied, began), rate(copied - warm, since)))
    until_told(pipe)
    job.close()
    spark.stop()


FLIGHT = {
    "id": "long",
    "carrier": "string",
    "flight": ["null", "int"],
    "delay": "double",
    "origin": "string",
    "dest": "string",
    "distance": "int",
    "cancelled": "boolean",
    "time": {"type": "long", "logicalType": "timestamp-millis"},
    "note": ["null", "string"],
}
"""Ten fields, as their types in Avro."""


def _schemas(pipe: Connection, records: int) -> None:
    """Avro values with a schema of a registry, with one task slot."""
    fields = [{"name": name, "type": kind} for name, kind in FLIGHT.items()]
    schema = json.dumps({"type": "record", "name": "Flight", "fields": fields})
    bound, url = bind(f"127.0.0.1:{free_ports(1)}", "the registry")
    service = Service(MemorySchemaLog([], "A"), "bench")
    service.become_first_primary()
    with WebServer(application(service), bound):
        spark = _session(1)
        flights = spark.range(0, records, 1, 1).selectExpr(
            *("id", "concat('C', id % 16) AS carrier", "if(id % 8 = 0, null, int(id)) AS flight"),
            *("id / 7.0D AS delay", "concat('O', id % 300) AS origin", "'LAX' AS dest"),
            *("int(id % 5000) AS distance", "id % 50 = 0 AS cancelled"),
            *("timestamp_millis(id) AS time", "if(id % 2 = 0, null, concat('n', id)) AS note"),
        )
        column = to_confluent_avro(F.struct(*FLIGHT), url, subject="flights", schema=schema)
        kept = flights.select(column.alias("value")).persist()
        kept.count()  # and what has to be started is
        read = kept.select(from_confluent_avro("value", url, subject="flights"))
        _noop(read)
        pipe.send("warm")
        until_told(pipe)
        rates = []
        began = time.perf_counter()
        _noop(read)
        rates.append(rate(records, began))
        kept.unpersist(blocking=True)  # or what is made is taken from there
        began = time.perf_counter()
        _noop(flights.select(column.alias("value")))
        rates.append(rate(records, began))
        pipe.send(rates)
        until_told(pipe)
        spark.stop()


def _task_us(partitions: int) -> float:
    """What a task spends on a row of so many partitions, in microseconds of CPU."""
    with scratch() as data, ExitStack() as stack:
        filled(Path(data), TASK_RECORDS, partitions)
        first = free_ports(3)
        query = f"tcp://127.0.0.1:{first + 2}"
        server = Worker(_serve, f"tcp://127.0.0.1:{first}", query, str(data))
        stack.callback(server.end)
        server.hear()
        options = source_options({"servers": query, "subscribe": "bench"}, stream=False)
        reader = BatchReader(options, RecordRows(tuple(all_columns(headers=False).fieldNames())))
        tasks = reader.partitions()
        spent = []
        for _ in range(3):
            began, rows = time.process_time(), 0
            for task in tasks:
                rows += sum(table.num_rows for table in reader.read(task))
            spent.append((time.process_time() - began) / rows * 1e6)
        return min(spent)


def _near_the_end(records: int) -> str:
    last = records // PARTITIONS
    first = last - 20 * _SMALL_MICRO_BATCHES // PARTITIONS
    places = ", ".join(f'"{number:032X}": {first}' for number in range(PARTITIONS))
    return f'{{"bench": {{{places}}}}}'


def spark(results: Results, records: int) -> None:
    """Everything about Spark, over two clusters of one store each."""
    records = max(2, records // MICRO_BATCH) * MICRO_BATCH  # the first of a stream does not count
    with scratch() as data, ExitStack() as stack:
        lines = ["version: 1", "name: bench", "tree: {level: 1, children: [c1, c2]}", "clusters:"]
        filled(Path(data) / "c1", records, PARTITIONS)
        for number in (1, 2):
            first = free_ports(3)
            tower, query = f"tcp://127.0.0.1:{first}", f"tcp://127.0.0.1:{first + 2}"
            directory = f"{data}/c{number}"
            server = Worker(_serve, tower, query, directory)
            stack.callback(server.end)
            server.hear()
            stores = f'[{{query: "{query}", data: "{directory}"}}]'
            lines.append(
                f'  - {{name: c{number}, id: {number}, towers: ["{tower}"], stores: {stores}}}'
            )
        file = Path(data) / "topology.yaml"
        file.write_text("\n".join(lines))
        made_up, read, written = _measured(_one_core, file, records)
        results.add(MADE_UP, "rows/s", made_up)
        results.add(READ, "rows/s", read)
        results.add("Spark sink, 100 B", "rows/s", written)
        streamed, overhead_ms, copied, copied_warm = _measured(_two_cores, file, records)
        results.add("Spark stream, 1 M rows a micro-batch", "rows/s", streamed)
        results.add("Spark micro-batch of 20 rows", "ms", overhead_ms)
        results.add("Spark link, flights of 91 B", "records/s", copied_warm)
        results.add("Spark link, with the start of its workers", "records/s", copied)
    for partitions in (10, 1_000, 10_000):
        name = f"Spark task, {TASK_RECORDS:,} records of {partitions:,} partitions"
        results.add(name, "us CPU/row", _task_us(partitions))
    read, written = _measured(_schemas, records)
    results.add("Spark, Avro values of ten fields made", "rows/s", written)
    results.add("Spark, Avro values of ten fields read", "rows/s", read)


def _measured(work: object, *arguments: object) -> tuple[float, ...]:
    worker = Worker(work, *arguments)  # type: ignore[arg-type]
    worker.hear(PATIENCE_S)
    worker.tell("go")
    found: tuple[float, ...] = tuple(worker.hear(PATIENCE_S))
    worker.end()
    return found
