"""Runs of Spark's sink without Spark: what tasks and drivers do, and drivers that die."""

from __future__ import annotations

import pyarrow as pa

from dafka.groups.runs import STAGED, group_of_key, group_of_topic, run_in, sink_in
from dafka.node.mirror import Mirror
from dafka.query.agreement import Register
from dafka.spark.commit import RunCommit, RunName
from dafka.spark.staging import Attempt
from dafka.spark.writer import stage

KEY = "query q"


def staged(options, *tasks, run=0, now_ms=1_000):
    """What tasks have staged that have these rows: values, or topics, keys and values."""
    segments = []
    for number, rows in enumerate(tasks):
        full = [row if isinstance(row, tuple) else (None, None, row) for row in rows]
        topics, keys, values = zip(*full, strict=True) if full else ((), (), ())
        columns = {"value": pa.array(values, pa.binary())}
        if any(keys):
            columns["key"] = pa.array(keys, pa.binary())
        if any(topics):
            columns["topic"] = pa.array(topics, pa.string())
        table = pa.RecordBatch.from_pydict(columns)
        segments += stage([table], options, Attempt(KEY, run, number, now_ms))
    return segments


def committed(options, *tasks, run=0, key=KEY, **name):
    """Do what tasks and a driver do."""
    segments = staged(options, *tasks, run=run)
    return RunCommit(options, RunName(key, run, **name), segments).commit()


def log_of(cluster, topic="out"):
    """The values of a topic's one partition, in order."""
    ((_, records),) = [one for one in cluster.published().items() if one[0].topic == topic]
    return [record.value for record in records]


def sink_of(options, topic="out"):
    """What the register of a topic has."""
    with Register(options.cluster.open(), group_of_topic(topic), 2_000) as register:
        return sink_in(register.read())


def agreed_on(options, key=KEY):
    """What the register of a key has."""
    with Register(options.cluster.open(), group_of_key(key), 2_000) as register:
        return run_in(register.read())


class DiedError(Exception):
    """The driver has."""


def dying(monkeypatch, after):
    """Let the driver die when it has published so many batches."""
    publish, left = Mirror.publish, [after]

    def until_it_dies(mirror, batch, silence_s):
        if batch.partition.topic != STAGED:
            if not left[0]:
                mirror.flush(10)
                raise DiedError
            left[0] -= 1
        publish(mirror, batch, silence_s)

    monkeypatch.setattr(Mirror, "publish", until_it_dies)
