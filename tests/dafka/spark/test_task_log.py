from __future__ import annotations

import random
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dafka.cluster import Cluster
from dafka.errors import MisuseError
from dafka.model import Batch, Partition
from dafka.records.batch import BatchBuilder, RawRecord, Run, checked_header, enclosed, records_of
from dafka.spark.options import sink_options
from dafka.spark.resume import RepeatedError, address_for
from dafka.spark.task_log import Attempt, Known, TopicLog, mirror_of, own_host

FIELDS = [(None, value, [("h", b"1")]) for value in (b"a", b"b")]
NOW_MS = 7

rows = st.lists(st.tuples(st.sampled_from(FIELDS), st.none() | st.integers(5, 8)), max_size=12)


def record(fields, timestamp_ms):
    key, value, headers = fields
    return RawRecord(0, timestamp_ms, key, value, tuple(headers))


@given(rows, st.integers(0, 12), st.randoms(use_true_random=False))
def test_of_rows_in_any_order_those_that_are_written_are_found(rows, written, shuffler):
    stored = [record(fields, NOW_MS if stamp is None else stamp) for fields, stamp in rows]
    known = Known(stored[:written])
    assert known.left == len(stored[:written])
    shuffler.shuffle(rows)
    found = [known.take(fields, stamp) for fields, stamp in rows]
    assert found.count(True) == len(stored[:written])
    assert known.left == 0


def test_everything_in_a_row_counts():
    plain = (b"k", b"v", [("h", b"1")])
    others = [
        ((b"x", b"v", [("h", b"1")]), 5),
        ((b"k", None, [("h", b"1")]), 5),
        ((b"k", b"v", []), 5),
        ((b"k", b"v", [("h", None)]), 5),
        (plain, 6),
    ]
    known = Known([record(plain, 5)])
    assert [known.take(*other) for other in others] == [False] * 5
    assert known.take(plain, 5)
    assert not known.take(plain, 5)
    assert not known.take(plain, None)


def test_a_row_without_a_timestamp_leaves_the_others_theirs():
    for seed in range(20):
        known = Known([record(FIELDS[0], stamp) for stamp in (5, NOW_MS, 6)])
        stamps = [None, 5, 6]
        random.Random(seed).shuffle(stamps)
        assert all(known.take(FIELDS[0], stamp) for stamp in stamps)
        assert known.left == 0


def test_a_process_has_one_mirror_on_a_cluster(cluster):
    options = sink_options(cluster.options, stream=True)
    mirror = mirror_of(options)
    assert mirror_of(options) is mirror
    mirror.close()
    other = mirror_of(options)
    assert other is not mirror
    assert other.alive
    insecure = sink_options({**cluster.options, "insecure": "true"}, stream=True)
    assert mirror_of(insecure) is not other


def test_the_way_to_a_tower_says_who_we_are():
    assert own_host("tcp://127.0.0.1:5556") == "127.0.0.1"
    assert own_host("tcp://localhost:5556") == "127.0.0.1"


def test_a_tower_that_is_none():
    with pytest.raises(MisuseError, match="endpoint"):
        own_host("nowhere")


ATTEMPT = Attempt("query q", 4, 2, 1_000)
LOG = Partition("out", address_for(Cluster(), "query q", 2))


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
def begin(serve):
    """A function that begins a log over what a store has; batches hold one record."""
    begun = []

    def begin(*batches, **settings):
        mirror = Recorder()
        options = sink_options(
            {"servers": serve(*batches).endpoint, "towers": "tcp://127.0.0.1:9"}, stream=True
        )
        options = replace(options, batch_bytes=1, **settings)
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
def test_nothing_gets_out_before_everything_written_has_come_by(begin, memory):
    log, out = begin(stored(b"a", b"b"), held_bytes_max=memory)
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
