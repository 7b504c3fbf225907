from __future__ import annotations

import pytest

from dafka.errors import NotStoredError, RecordError
from dafka.model import Partition
from dafka.query.client import StoreClient
from dafka.spark import copying
from dafka.spark.copying import copy
from dafka.spark.options import sink_options, source_options
from dafka.spark.ranges import Range
from dafka.spark.rows import BatchRows
from dafka.spark.topic_log import Attempt

ORDERS = Partition("orders", "AB" * 16)
OTHER = Partition("caf\udce9", "CD" * 16)
ATTEMPT = Attempt("query", 0, 0, 0)
STARTS = f'{{"orders": {{"{ORDERS.address}": 2}}}}'


@pytest.fixture
def source(serve, make_batch):
    return serve(
        make_batch([b"0", b"1", b"2"]), make_batch([b"3"], 3), make_batch([b"a"], partition=OTHER)
    )


@pytest.fixture
def options(cluster):
    return sink_options(cluster.options, stream=True)


def tables(source, *ranges):
    reading = source_options({"servers": source.endpoint, "subscribe": "orders"})
    return list(BatchRows().read(ranges, reading))


def test_names_stay_and_what_is_there_is_not_there_twice(cluster, options, source):
    copy(tables(source, Range(ORDERS, 0, 3)), options, ATTEMPT)
    everything = tables(source, Range(ORDERS, 1, 4), Range(OTHER, 0, 1))
    for _ in range(2):
        copy(everything, options, ATTEMPT)
    held = cluster.records()
    assert [(record.sequence, record.value) for record in held[ORDERS]] == [
        (number, b"%d" % number) for number in range(4)
    ]
    assert [record.value for record in held[OTHER]] == [b"a"]


def test_flags_and_origin_are_the_columns(cluster, options, source):
    rows = tables(source, Range(ORDERS, 0, 4))
    for name, value in (("copy_flags", -(2**63)), ("origin", 7)):
        index = rows[0].schema.get_field_index(name)
        column = rows[0].column(index)
        changed = [value] * len(column)
        rows[0] = rows[0].set_column(index, rows[0].schema.field(index), type_of(column, changed))
    copy(rows, options, ATTEMPT)
    assert {(record.copy_flags, record.origin) for record in cluster.records()[ORDERS]} == {
        (2**63, 7)
    }


def type_of(column, values):
    import pyarrow as pa

    return pa.array(values, column.type)


def test_a_hole_that_nobody_fills_fails_the_task(options, source, monkeypatch):
    monkeypatch.setattr(copying, "SILENCE_S", 0.3)
    with pytest.raises(NotStoredError, match="'orders'"):
        copy(tables(source, Range(ORDERS, 2, 4)), options, ATTEMPT)


def test_what_the_source_has_no_more_is_passed_over(cluster, source):
    options = sink_options({**cluster.options, "logStarts": STARTS}, stream=True, copying=True)
    copy(tables(source, Range(ORDERS, 2, 4)), options, ATTEMPT)
    with StoreClient(cluster.servers) as client:
        assert client.ranges() == {ORDERS: range(2, 4)}


def test_a_row_without_an_envelope_is_refused(options, source):
    (table,) = tables(source, Range(OTHER, 0, 1))
    index = table.schema.get_field_index("content")
    damaged = table.set_column(
        index, table.schema.field(index), type_of(table.column(index), [b"raw"])
    )
    with pytest.raises(RecordError, match="envelope"):
        copy([damaged], options, ATTEMPT)
