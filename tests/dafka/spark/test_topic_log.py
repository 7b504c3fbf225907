from __future__ import annotations

import pytest

from dafka.model import Batch, Partition
from dafka.records.batch import BatchBuilder, Run, checked_header, enclosed, records_of
from dafka.spark import topic_log
from dafka.spark.options import sink_options
from dafka.spark.resume import RepeatedError, address_for
from dafka.spark.topic_log import Attempt, TopicLog

ATTEMPT = Attempt("query q", 4, 2, 1_000)
LOG = Partition("out", address_for("query q", 2))


class Recorder:
    """A mirror that keeps what it is given."""

    def __init__(self):
        self.batches = []
        self.forgotten = 0

    def publish(self, batch, _):
        self.batches.append(batch)

    def forget(self, _):
        self.forgotten += 1


def stored(*values):
    builder = BatchBuilder(1 << 20, Run(4, 0))
    for value in values:
        builder.append(5, None, value, ())
    return Batch(LOG, 0, len(values), enclosed(builder.build(), 0))


@pytest.fixture
def begin(serve, monkeypatch):
    """A function that begins a log over what a store has; batches hold one record."""
    monkeypatch.setattr(topic_log, "BATCH_BYTES", 1)
    begun = []

    def begin(*batches):
        mirror = Recorder()
        options = sink_options(
            {"servers": serve(*batches).endpoint, "towers": "tcp://127.0.0.1:9"}, stream=True
        )
        log = TopicLog(mirror, options, ATTEMPT, "out")
        begun.append(log)
        return log, mirror.batches

    yield begin
    for log in begun:
        log.close()


def row(value):
    return (None, value, [])


def places(batches):
    headers = [checked_header(batch.content, batch.sequence) for batch in batches]
    return [(header.run, header.last) for header in headers]


def test_batches_tell_their_place_and_the_last_one_that_it_is(begin):
    log, out = begin()
    assert not log.looks_up
    log.extend_values([b"0", b"1"])
    log.add(row(b"2"), None)
    log.finish()
    assert [(batch.sequence, batch.count) for batch in out] == [(0, 1), (1, 1), (2, 1)]
    assert places(out) == [(Run(4, 0), False), (Run(4, 1), False), (Run(4, 2), True)]


@pytest.mark.parametrize("memory", [1, 1 << 20])
def test_nothing_gets_out_before_everything_written_has_come_by(begin, monkeypatch, memory):
    monkeypatch.setattr(topic_log, "HELD_BYTES_MAX", memory)
    log, out = begin(stored(b"a", b"b"))
    for value in (b"x", b"a", b"y", b"z"):
        log.add(row(value), None)
    assert log.looks_up
    assert out == []
    log.add(row(b"b"), None)
    log.add(row(b"w"), None)
    assert not log.looks_up
    log.finish()
    assert [batch.sequence for batch in out] == [2, 3, 4, 5]
    assert [record.value for batch in out for record in records_of(batch)] == b"x y z w".split()
    assert places(out)[-1] == (Run(4, 5), True)


def test_of_rows_that_are_not_the_same_nothing_gets_out(begin):
    log, out = begin(stored(b"a", b"b"))
    for value in (b"x", b"a", b"y", b"z"):
        log.add(row(value), None)
    with pytest.raises(RepeatedError, match=r"1 records that this task wrote to .* not among"):
        log.finish()
    assert out == []
