from __future__ import annotations

from operator import sub

import pytest
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import StructType

from dafka.errors import MisuseError, QueryError
from dafka.model import Batch, Partition, Range
from dafka.records.batch import records_of
from dafka.records.envelope import Envelope
from dafka.spark.options import source_options
from dafka.spark.planning import DataLossError
from dafka.spark.rows import BATCH_SCHEMA, BatchRows, RecordRows, ahead, check_batch_rows
from tests.support.batches import unreadable_from

ORDERS = Partition("orders", "AB" * 16)
OTHER = Partition("caf\udce9", "CD" * 16)


@pytest.fixture
def port(serve, make_batch):
    return serve(
        make_batch([b"0", b"1", b"2"], envelope=Envelope(3, 2**64 - 1)),
        make_batch([b"3", b"4"], 3),
        make_batch([b"a"], partition=OTHER),
    )


def options(port, **given):
    given = {"servers": port.endpoint, "subscribe": "orders", **given}
    return source_options(given)


def test_a_row_may_be_a_record(port):
    (rows,) = RecordRows(("topic", "value")).read(
        (Range(ORDERS, 1, 3), Range(OTHER, 0, 1)), options(port)
    )
    assert rows.to_pylist() == [
        *({"topic": "orders", "value": b"1"}, {"topic": "orders", "value": b"2"}),
        {"topic": "caf\ufffd", "value": b"a"},
    ]


def test_small_ranges_are_read_with_one_question_and_are_one_table(serve, make_batch):
    partitions = [Partition("orders", f"{number:032X}") for number in range(300)]
    port = serve(
        *(
            make_batch([b"%d" % (first + at) for at in range(2)], first, partition)
            for partition in partitions
            for first in (0, 2)
        )
    )
    respond, asked = port.respond, []
    port.respond = lambda question: asked.append(question) or respond(question)
    ranges = tuple(Range(one, 1, 4) for one in partitions)
    (table,) = RecordRows(("partition", "offset", "value")).read(ranges, options(port))
    assert len(asked) == 1
    assert [tuple(row.values()) for row in table.to_pylist()] == [
        (one.address, offset, b"%d" % offset) for one in partitions for offset in (1, 2, 3)
    ]


def test_what_cannot_be_read_of_one_of_many_is_lost_alone(serve, make_batch):
    whole = [make_batch([b"1"]), make_batch([b"a"], partition=OTHER)]
    third = Partition("orders", "EF" * 16)
    wrong = unreadable_from(make_batch([b"x", b"y"], partition=third), 1)
    port = serve(*whole, wrong)
    ranges = (Range(ORDERS, 0, 1), Range(third, 0, 2), Range(OTHER, 0, 1))
    with pytest.raises(DataLossError, match=f"sequences 1 to 1 of partition {third.address}"):
        list(RecordRows(("value", "headers")).read(ranges, options(port)))
    tables = RecordRows(("value", "headers")).read(ranges, options(port, failOnDataLoss="false"))
    assert [value for one in tables for value in one["value"].to_pylist()] == [b"1", b"x", b"a"]
    (table,) = RecordRows(("value",)).read(ranges, options(port))
    assert table["value"].to_pylist() == [b"1", b"x", b"y", b"a"], "its headers nobody asks for"


def test_a_row_may_be_a_batch_cut_where_the_range_ends(port):
    tables = BatchRows().read((Range(ORDERS, 1, 4), Range(OTHER, 0, 1)), options(port))
    rows = [row for table in tables for row in table.to_pylist()]
    assert [(row["topic"], row["offset"], row["records"]) for row in rows] == [
        (b"orders", 1, 2),
        (b"orders", 3, 1),
        (b"caf\xe9", 0, 1),
    ]
    assert [(row["copy_flags"], row["origin"]) for row in rows] == [(-1, 3), (0, 0), (0, 0)]
    assert [row["epoch"] for row in rows] == [0, 0, 0]
    batch = Batch(ORDERS, 1, 2, rows[0]["content"])
    assert [record.value for record in records_of(batch)] == [b"1", b"2"]


def test_tasks_read_from_all_stores_alike_and_each_from_one(serve, make_batch):
    batches = [make_batch([b"%d" % number], number) for number in range(40)]
    ports = [serve(*batches), serve(*batches)]
    asked = [0, 0]

    def counted(number):
        respond = ports[number].respond

        def answer(question):
            asked[number] += 1
            return respond(question)

        return answer

    for number, port in enumerate(ports):
        port.respond = counted(number)
    both = options(ports[0], servers=",".join(port.endpoint for port in ports))
    for start in range(0, 40, 2):
        before = list(asked)
        read = [value for table in _read(both, start) for value in table["value"].to_pylist()]
        assert read == [b"%d" % start, b"%d" % (start + 1)]
        assert sorted(map(sub, asked, before))[0] == 0
    assert min(asked) >= 5


def _read(given, start):
    return RecordRows(("value",)).read((Range(ORDERS, start, start + 2),), given)


def test_types_are_what_spark_expects(port):
    (table,) = BatchRows().read((Range(ORDERS, 0, 5),), options(port))
    assert table.schema.equals(to_arrow_schema(BATCH_SCHEMA, timezone="UTC"))


def test_records_are_dealt_evenly_and_batches_by_whole_ranges(port):
    ranges = [Range(ORDERS, 0, 5), Range(OTHER, 0, 1)]
    halves = options(port, minPartitions="2")
    assert RecordRows(("value",)).deal(ranges, halves) == [
        (Range(ORDERS, 0, 3),),
        (Range(ORDERS, 3, 5), Range(OTHER, 0, 1)),
    ]
    assert BatchRows().deal(ranges, halves) == [(ranges[0],), (ranges[1],)]


@pytest.mark.parametrize("rows", [RecordRows(("value",)), BatchRows()])
def test_exactly_the_range_or_an_error(port, rows):
    for choice in ("true", "false"):
        with pytest.raises(QueryError, match="not there yet"):
            list(rows.read((Range(ORDERS, 0, 6),), options(port, failOnDataLoss=choice)))
    first = port.log.read(ORDERS, 0, 1, 1)[0]
    port.log.append((), trims={ORDERS: first.end})
    with pytest.raises(DataLossError):
        list(rows.read((Range(ORDERS, 0, 5),), options(port)))
    assert list(rows.read((Range(ORDERS, 0, 5),), options(port, failOnDataLoss="false")))


def test_the_next_page_is_asked_for_while_one_is_used():
    asked, closed = [], []

    def pages():
        try:
            for number in range(1, 5):
                asked.append(number)
                yield number
        finally:
            closed.append(True)

    found = ahead(pages())
    assert next(found) == 1
    found.close()
    assert asked[:2] == [1, 2]
    assert closed
    assert list(ahead(pages())) == [1, 2, 3, 4]


def test_an_error_while_asking_ahead_comes_out():
    def pages():
        yield 1
        raise DataLossError("gone")

    found = ahead(pages())
    assert next(found) == 1
    with pytest.raises(DataLossError, match="gone"):
        next(found)


def test_only_whole_batches_are_rows_to_copy():
    check_batch_rows(BATCH_SCHEMA)
    with pytest.raises(MisuseError, match="not of struct<value:binary>"):
        check_batch_rows(StructType().add("value", "binary"))
