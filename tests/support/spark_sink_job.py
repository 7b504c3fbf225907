"""A program that writes rows to a cluster by Spark, with executors that do what a test says.

Its one argument is JSON: `master` and `conf` of the session, `options` of the sink; `first` and
`rows`, the numbers that are written; `keys`, how many these have, 0 for none; `tasks`; and
`slow_s`, for which the first attempt of task 0 rests half way, and `rests`, a file that is there
from then on and that later attempts of the task wait for, none if empty. Each attempt gives its
rows in an order of its own, as one behind a shuffle that was fetched again.
"""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path
from random import Random

import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition

from dafka.spark import register
from dafka.spark.session import open_session

ROWS_AT_ONCE = 1_000


def text_of(number):
    """So long that a thousand rows are some batches: what an attempt has goes out as it comes."""
    return f"{number:0500d}"


class Numbers(DataSource):
    """Rows of numbers."""

    @classmethod
    def name(cls):
        return "numbers"

    def schema(self):
        return "value string"

    def reader(self, schema):
        return NumbersReader(json.loads(self.options["given"]))


class NumbersReader(DataSourceReader):
    """In another order in each attempt."""

    def __init__(self, given):
        self._given = given

    def partitions(self):
        return [InputPartition(number) for number in range(self._given["tasks"])]

    def read(self, partition):
        first, end = self._given["first"], self._given["first"] + self._given["rows"]
        values = list(range(first + partition.value, end, self._given["tasks"]))
        attempt = TaskContext.get().attemptNumber()
        Random(attempt).shuffle(values)
        if attempt and partition.value == 0 and self._given["rests"]:
            self._wait_for_the_first()
        for start in range(0, len(values), ROWS_AT_ONCE):
            if attempt == 0 and partition.value == 0 and start == len(values) // 2:
                self._rest()
            part = [text_of(value) for value in values[start : start + ROWS_AT_ONCE]]
            yield pa.RecordBatch.from_pydict({"value": part})

    def _rest(self):
        if self._given["rests"]:
            Path(self._given["rests"]).touch()
        time.sleep(self._given["slow_s"])

    def _wait_for_the_first(self):
        until_s = time.monotonic() + self._given["slow_s"]
        while not Path(self._given["rests"]).exists() and time.monotonic() < until_s:
            time.sleep(0.05)


def main(given):
    """Run the job."""
    local = {"spark.driver.host": "127.0.0.1", "spark.driver.bindAddress": "127.0.0.1"}
    spark = open_session(given["master"], "sink", {**local, **given["conf"]})
    register(spark)
    spark.dataSource.register(Numbers)
    rows = spark.read.format("numbers").option("given", json.dumps(given)).load()
    if given["keys"]:
        rows = rows.selectExpr(f"CAST(value AS LONG) % {given['keys']} AS number", "value")
        rows = rows.selectExpr("CAST(number AS STRING) AS key", "value")
    rows.write.format("dafka").mode("append").options(**given["options"]).save()
    spark.stop()


if __name__ == "__main__":
    main(json.loads(sys.argv[1]))
