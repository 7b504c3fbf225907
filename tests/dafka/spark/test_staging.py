from __future__ import annotations

from dataclasses import replace
from itertools import combinations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dafka.errors import MisuseError
from dafka.groups.runs import DIGESTS, STAGED
from dafka.model import Partition
from dafka.process.clock import wall_ms
from dafka.records.batch import checked_count, records_of, run_of
from dafka.spark.options import sink_options
from dafka.spark.staging import (
    OPEN_BYTES_MAX,
    Attempt,
    Stage,
    digest_of_row,
    digest_of_values,
    leave,
    mirror_of,
    own_host,
    place_of,
    unwrapped,
)

rows = st.tuples(
    st.none() | st.binary(max_size=3),
    st.none() | st.binary(max_size=3),
    st.lists(st.tuples(st.text(max_size=2), st.none() | st.binary(max_size=2)), max_size=2),
)


@given(
    st.lists(st.tuples(rows, st.none() | st.integers(0, 9)), max_size=4),
    st.randoms(use_true_random=False),
)
def test_the_order_of_rows_does_not_count(rows, shuffler):
    before = sum(digest_of_row(*row) for row in rows)
    shuffler.shuffle(rows)
    assert sum(digest_of_row(*row) for row in rows) == before


@given(st.lists(st.none() | st.binary(max_size=3), max_size=8))
def test_rows_that_are_values_have_the_same_digest_either_way(values):
    assert digest_of_values(values) == sum(digest_of_row((None, one, []), None) for one in values)


def test_everything_in_a_row_counts():
    row = (b"k", b"v", [("h", b"1")])
    digests = {
        digest_of_row(*other)
        for other in (
            (row, 5),
            ((b"x", b"v", [("h", b"1")]), 5),
            ((None, b"v", [("h", b"1")]), 5),
            ((b"", b"v", [("h", b"1")]), 5),
            ((b"k", None, [("h", b"1")]), 5),
            ((b"k", b"", [("h", b"1")]), 5),
            ((b"k", b"v", []), 5),
            ((b"k", b"v", [("h", None)]), 5),
            (row, 6),
            (row, None),
        )
    }
    assert len(digests) == 10


def test_rows_that_have_exchanged_a_part_are_others():
    """By checksums alone, which are linear, one pair of 10,000 would be the same."""
    halves = [b"%03d" % number for number in range(0, 1_000, 7)]
    same = 0
    for one, other in combinations(halves, 2):
        kept = digest_of_values([one + one, other + other])
        same += kept == digest_of_values([one + other, other + one])
    assert same == 0


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


class Recorder:
    """A mirror that keeps what it is given."""

    def __init__(self):
        self.batches = []

    def publish(self, batch, _):
        self.batches.append(batch)


@pytest.fixture
def options():
    """Batches hold one record."""
    given = {"servers": "tcp://127.0.0.1:9", "towers": "tcp://127.0.0.1:9"}
    return replace(sink_options(given, stream=True), batch_bytes=1)


def test_an_attempt_stages_for_itself_and_tells_what(options):
    mirror = Recorder()
    stage = Stage(mirror, options, ATTEMPT, "out", 1)
    stage.extend_values([b"0", b"1"])
    stage.extend(0, [((b"k", b"2", []), 5)])
    segment = stage.finish()
    assert (segment.topic, segment.task, segment.rows) == ("out", 2, ((0, 3),))
    values = digest_of_values([b"0", b"1"])
    assert segment.digest == (values + digest_of_row((b"k", b"2", []), 5)) % DIGESTS
    assert {batch.partition for batch in mirror.batches} == {(STAGED, segment.address)}
    staged = [record for batch in mirror.batches for record in records_of(batch)]
    assert [record.sequence for record in staged] == [segment.start + one for one in range(3)]
    assert all(record.timestamp_ms > wall_ms() - 60_000 for record in staged), "not the rows' own"
    assert segment.batches == 3
    published = list(unwrapped(mirror.batches, {0: Partition("out", "AB")}, {0: 10}))
    assert [checked_count(batch.content, batch.sequence) for batch in published] == [1, 1, 1]
    records = [record for batch in published for record in records_of(batch)]
    assert [(record.sequence, record.value, record.timestamp_ms) for record in records] == [
        (10, b"0", 1_000),
        (11, b"1", 1_000),
        (12, b"2", 5),
    ]


def test_the_attempts_of_a_process_stage_behind_each_other(options):
    """Their rows are other lives of a producer all the same: stores take one behind the other."""
    mirror = Recorder()
    segments = []
    for topic in ("a", "b", "a"):
        stage = Stage(mirror, options, ATTEMPT, topic, 1)
        stage.extend_values([b"0", b"1"])
        segments.append(stage.finish())
    first, other, second = segments
    assert first.address == second.address != other.address
    assert second.start == first.start + first.batches
    staged = [batch for batch in mirror.batches if batch.partition.address == first.address]
    runs = [run_of(batch.content) for batch in staged]
    assert len({run.number for run in runs}) == 1
    assert [run.first for run in runs] == [batch.sequence for batch in staged]
    published = unwrapped(staged, {0: Partition("out", "AB")}, {0: 0})
    lives = [run_of(batch.content) for batch in published]
    assert [life.first for life in lives] == [0, 1, 0, 1]
    assert len({life.number for life in lives}) == 2


def test_after_a_failure_it_stages_elsewhere(options):
    """Nobody knows how far stores have what was staged there."""
    before = place_of(options, "out")
    assert place_of(options, "out") is before
    leave(before)
    assert place_of(options, "out").partition != before.partition


def test_nothing_is_a_segment_too(options):
    assert Stage(Recorder(), options, ATTEMPT, "out", 1).finish().records == 0


def test_rows_of_several_partitions_are_staged_in_one_and_dealt_when_they_are_published(options):
    mirror = Recorder()
    stage = Stage(mirror, replace(options, batch_bytes=10_000), ATTEMPT, "out", 3)
    for number, value in ((2, b"a"), (0, b"b"), (2, b"c"), (0, b"d")):
        stage.extend(number, [((b"k", value, []), None)])
    segment = stage.finish()
    assert (segment.partitions, segment.batches, segment.rows) == (3, 2, ((0, 2), (2, 2)))
    assert len({batch.partition for batch in mirror.batches}) == 1
    places = {number: Partition("out", f"A{number}") for number in range(3)}
    begins = {0: 5, 2: 7}
    del places[0]
    published = list(unwrapped(mirror.batches, places, begins))
    found = [
        (record.address, record.sequence, record.value)
        for batch in published
        for record in records_of(batch)
    ]
    assert found == [("A2", 7, b"a"), ("A2", 8, b"c")], "what is there already is left out"
    assert begins == {0: 5, 2: 9}


def test_of_many_partitions_batches_are_small(options):
    """What a task keeps open does not grow with them."""
    mirror = Recorder()
    options = replace(options, batch_bytes=OPEN_BYTES_MAX)
    stage = Stage(mirror, options, ATTEMPT, "out", 4_096)
    value = bytes(1_000)
    for _ in range(40):
        for number in range(1_024):
            stage.extend(number, [((None, value, []), None)])
    went_out = sum(len(batch.content) for batch in mirror.batches)
    assert 40 * 1_024 * 1_000 - went_out < 2 * OPEN_BYTES_MAX
    assert stage.finish().records == 40 * 1_024


def test_rows_without_a_key_go_to_one_partition_and_those_of_others_to_others():
    attempts = [replace_run(run, task) for run in range(3) for task in range(8)]
    found = [attempt.number_of(4) for attempt in attempts]
    assert set(found) == {0, 1, 2, 3}
    assert found == [attempt.number_of(4) for attempt in attempts]
    assert all(len(set(found[first : first + 4])) == 4 for first in range(0, 24, 4))
    assert {attempt.number_of(1) for attempt in attempts} == {0}


def replace_run(run, task):
    return ATTEMPT._replace(run=run, task=task)
