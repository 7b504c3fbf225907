from __future__ import annotations

from random import Random

import pyarrow as pa
import pytest

from dafka.errors import MisuseError
from dafka.limits import RECORD_BYTES_MAX
from dafka.model import Header, Partition
from dafka.spark import writing
from dafka.spark.options import sink_options
from dafka.spark.publisher import mirror_of
from dafka.spark.resume import RepeatedError, address_for
from dafka.spark.writing import Attempt, by_topic, write

HEADERS = pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))


def table(*values, **columns):
    arrays = {"value": pa.array(values, pa.binary()), **columns}
    return pa.RecordBatch.from_pydict(arrays)


def attempt(run=0, task=0, query="query q"):
    return Attempt(query, run, task, 1_000)


def address(task=0):
    return address_for("query q", task)


@pytest.fixture
def options(cluster):
    return sink_options({**cluster.options, "topic": "out"}, stream=True)


def test_rows_become_records(cluster, options):
    rows = table(
        b"1",
        None,
        key=pa.array(["a", None]),
        headers=pa.array([[("h", b"x"), ("n", None)], None], HEADERS),
        timestamp=pa.array([5_000, None], pa.timestamp("us", tz="UTC")),
        topic=pa.array(["mine", None]),
    )
    assert write([rows], options, attempt()) == 2
    ((mine,), (out,)) = (
        cluster.records()[Partition(topic, address())] for topic in ("mine", "out")
    )
    assert (mine.key, mine.value, mine.timestamp_ms) == (b"a", b"1", 5)
    assert mine.headers == (Header("h", b"x"), Header("n", None))
    assert (out.key, out.value, out.timestamp_ms, out.headers) == (None, None, 1_000, ())


def test_runs_follow_each_other_and_tasks_are_apart(cluster, options):
    write([table(b"1", b"2")], options, attempt(run=0))
    write([table(b"3")], options, attempt(run=1))
    write([table(b"4")], options, attempt(run=1, task=1))
    write([], options, attempt(run=2))
    held = cluster.records()
    assert [record.value for record in held[Partition("out", address(0))]] == [b"1", b"2", b"3"]
    assert [record.value for record in held[Partition("out", address(1))]] == [b"4"]


def test_a_repeated_task_writes_nothing_twice(cluster, options):
    rows = table(*(b"%d" % number for number in range(1_000)))
    for _ in range(3):
        assert write([rows], options, attempt(run=4)) == 1_000
    assert cluster.values() == sorted(b"%d" % number for number in range(1_000))


class KilledError(Exception):
    """The attempt ends here."""


def until_killed(options, *tables):
    """Rows, until everything published is stored and the attempt dies."""
    yield from tables
    mirror_of(options.towers, options.min_acks).flush(10)
    raise KilledError


@pytest.mark.parametrize("seed", range(4))
def test_attempts_killed_anywhere_leave_every_row_once(cluster, options, monkeypatch, seed):
    """Also when the rows come in another order each time, as they do after a shuffle."""
    monkeypatch.setattr(writing, "BATCH_BYTES", 1)
    random = Random(seed)
    values = [b"%d" % (number // 2) for number in range(40)]
    write([table(b"before")], options, attempt(run=0))
    for _ in range(4):
        random.shuffle(values)
        until = random.randrange(40)
        with pytest.raises(KilledError):
            write(until_killed(options, table(*values[:until])), options, attempt(run=1))
    random.shuffle(values)
    write([table(*values[:20]), table(*values[20:])], options, attempt(run=1))
    write([table(b"behind")], options, attempt(run=2))
    (held,) = cluster.records().values()
    assert sorted(record.value for record in held[1:-1]) == sorted(values)
    assert (held[0].value, held[-1].value) == (b"before", b"behind")


def test_other_rows_than_before_are_an_error(cluster, options):
    write([table(b"1", b"2", b"3")], options, attempt())
    with pytest.raises(RepeatedError, match=r"2 records that this task wrote .* not among"):
        write([table(b"1", b"x", b"y")], options, attempt())
    assert cluster.values() == [b"1", b"2", b"3"]


def test_it_goes_on_while_a_store_is_away(cluster, options):
    write([table(b"1")], options, attempt(run=0))
    cluster.close_store()
    cluster.open()
    write([table(b"2")], options, attempt(run=1))
    assert cluster.values() == [b"1", b"2"]


def test_rows_are_dealt_by_topic_in_order():
    rows = table(b"1", b"2", b"3", topic=pa.array(["a", "b", "a"]))
    found = [(topic, part["value"].to_pylist()) for topic, part in by_topic(rows, None)]
    assert found == [("a", [b"1", b"3"]), ("b", [b"2"])]


def test_a_row_without_a_topic_is_refused():
    with pytest.raises(MisuseError, match="no topic"):
        list(by_topic(table(b"1", topic=pa.array([None], pa.string())), None))
    with pytest.raises(MisuseError, match="NUL"):
        list(by_topic(table(b"1", topic=pa.array(["a\0b"])), None))


@pytest.mark.parametrize("header", [None, (None, b"x")])
def test_a_header_without_a_key_is_refused(options, header):
    rows = table(b"1", headers=pa.array([[("h", None), header]], HEADERS))
    with pytest.raises(MisuseError, match="a header needs a key; its value may be null"):
        write([rows], options, attempt())


@pytest.mark.parametrize("columns", [{}, {"key": pa.array([None, None], pa.binary())}])
def test_a_row_that_is_too_large_is_refused(options, columns):
    rows = table(b"1", bytes(RECORD_BYTES_MAX + 1), **columns)
    with pytest.raises(MisuseError, match="a row for topic 'out' has 8323073 bytes"):
        write([rows], options, attempt())


@pytest.mark.parametrize("columns", [{}, {"key": pa.array([b"k"] * 4)}])
def test_rows_larger_than_a_batch_have_batches_of_their_own(cluster, options, columns):
    large = bytes(writing.BATCH_BYTES * 2)
    write([table(b"1", large, large, b"2", **columns)], options, attempt())
    (held,) = cluster.records().values()
    assert [len(record.value) for record in held] == [1, len(large), len(large), 1]
