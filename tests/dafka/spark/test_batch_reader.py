from __future__ import annotations

import pickle

import pytest

from dafka.errors import MisuseError, QueryError
from dafka.model import Partition
from dafka.spark.batch_reader import BatchReader
from dafka.spark.options import source_options
from dafka.spark.rows import RecordRows

OTHER = Partition("orders", "CD" * 16)


def reader(*ports, columns=("value", "offset"), **options):
    servers = ",".join(port if isinstance(port, str) else port.endpoint for port in ports)
    given = {"servers": servers, "subscribe": "orders", **options}
    return BatchReader(source_options(given, stream=False), RecordRows(columns))


def rows(reader):
    """What a job reads: every task of its own, by a reader that has travelled there."""
    found = []
    for task in pickle.loads(pickle.dumps(reader.partitions())):
        for table in pickle.loads(pickle.dumps(reader)).read(task):
            found += [tuple(row.values()) for row in table.to_pylist()]
    return found


@pytest.fixture
def port(serve, make_batch):
    """A store with two partitions of `orders` and one of another topic."""
    return serve(
        make_batch([b"0", b"1", b"2"]),
        make_batch([b"3", b"4"], 3),
        make_batch([b"a", b"b"], partition=OTHER),
        make_batch([b"x"], partition=Partition("other", "EF" * 16)),
    )


def test_everything(port):
    expected = [(b"%d" % number, number) for number in range(5)] + [(b"a", 0), (b"b", 1)]
    assert rows(reader(port)) == expected


@pytest.mark.parametrize("tasks", ["1", "2", "3", "7", "99"])
def test_tasks_tile_what_is_read(port, tasks):
    cut = reader(port, minPartitions=tasks)
    assert len(cut.partitions()) == min(int(tasks), 7)
    assert rows(cut) == rows(reader(port))


def test_from_and_to_sequences(port):
    starting = '{{"orders": {{"{}": 2, "{}": -1}}}}'.format("AB" * 16, "CD" * 16)
    ending = '{"orders": {"%s": 4}}' % ("AB" * 16)
    found = rows(reader(port, startingOffsets=starting, endingOffsets=ending))
    assert found == [(b"2", 2), (b"3", 3)]


def test_from_a_time(serve, make_batch):
    port = serve(make_batch([b"1"], timestamp_ms=10), make_batch([b"2"], 1, timestamp_ms=20))
    assert rows(reader(port, startingTimestamp="15")) == [(b"2", 1)]


def test_latest_and_nothing(port):
    assert rows(reader(port, startingOffsets="latest")) == []
    assert rows(reader(port, subscribe="nothing")) == []


def test_an_end_behind_what_is_there_is_refused(port):
    ending = '{"orders": {"%s": 6}}' % ("AB" * 16)
    with pytest.raises(MisuseError, match=r"'endingOffsets': partition 'AB.* ends at 5, before 6"):
        reader(port, endingOffsets=ending).partitions()


def test_no_store(silent, monkeypatch):
    monkeypatch.setattr("dafka.spark.stores.ANSWER_TIMEOUT_MS", 100)
    with pytest.raises(QueryError, match=silent):
        reader(silent).partitions()


def test_exactly_what_was_planned_or_an_error(serve, make_batch, port):
    planned = reader(port)
    lagging = serve(make_batch([b"0", b"1", b"2"]))
    (task,) = planned.partitions()
    with pytest.raises(QueryError, match=r"sequence 3 .* is not there yet: the cluster ends at 3"):
        list(reader(lagging).read(task))


def test_the_empty_partition_that_spark_makes_up(port):
    assert list(reader(port).read(None)) == []
