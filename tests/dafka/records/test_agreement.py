from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dafka.model import Batch, Partition
from dafka.records.agreement import agree, follows, run_behind
from dafka.records.batch import PLACES, BatchBuilder, RawRecord, Run, enclosed, without_first
from dafka.records.envelope import FRESH, Envelope, stamped
from dafka.testing.strategies import batch_of, batches
from dafka.values import replace

ORDERS = Partition("orders", "A1")


def raw(timestamp_ms):
    return RawRecord(0, timestamp_ms, None, b"value", ())


def lived(sequence, run, first, count=2):
    """A batch of one life of its producer, all values alike."""
    builder = BatchBuilder(1_000, None if run is None else Run(run, first))
    for _ in range(count):
        builder.append(1_000, None, b"value", ())
    return Batch(ORDERS, sequence, count, enclosed(builder.build(), sequence))


@given(batches, st.data())
def test_batches_agree_however_their_records_are_enclosed(batch, data):
    rest = without_first(batch, data.draw(st.integers(0, batch.count - 1)))
    flagged = replace(batch, content=stamped(batch.content, Envelope(9, 3, 1)))
    assert agree([batch], rest)
    assert agree([rest], batch)
    assert agree([flagged], batch)
    assert agree([], batch)


def test_another_record_under_one_sequence_does_not_agree():
    first = batch_of(ORDERS, 0, [raw(1), raw(2)], FRESH)
    second = batch_of(ORDERS, 2, [raw(3)], FRESH)
    assert agree([first, second], batch_of(ORDERS, 1, [raw(2), raw(3)], FRESH))
    assert not agree([first, second], batch_of(ORDERS, 1, [raw(2), raw(4)], FRESH))
    assert agree([first], batch_of(ORDERS, 2, [raw(9)], FRESH)), "elsewhere"


def test_what_comes_next_must_be_of_the_same_life():
    assert agree([lived(4, 7, 4)], lived(6, 7, 6))
    assert not agree([lived(4, 8, 4)], lived(6, 7, 6)), "of another one"
    assert not agree([lived(4, 7, 4)], lived(6, 7, 8)), "something of it is missing in between"
    assert agree([lived(4, 8, 4)], lived(7, 7, 6)), "not what comes next"


def test_records_that_are_alike_but_of_two_lives_do_not_agree():
    assert agree([lived(4, 7, 4)], lived(4, 7, 4, count=3))
    assert agree([lived(4, None, 4)], lived(4, 7, 4, count=3))
    assert not agree([lived(4, 7, 4)], lived(4, 8, 4, count=3))
    assert not agree([lived(4, 7, 4)], lived(5, 7, 9))


@pytest.mark.parametrize("before", [7, 8, None])
def test_a_new_life_may_begin_anywhere(before):
    assert agree([lived(4, before, 4)], lived(6, 9, 0))


def test_nothing_is_said_of_what_has_no_life():
    assert agree([lived(4, None, 0)], lived(6, 7, 6))
    assert agree([lived(4, 7, 4)], lived(6, None, 0))
    assert run_behind(lived(4, None, 0)) is None


def test_places_in_a_life_begin_again_where_the_field_ends():
    last = lived(0, 7, PLACES - 1, count=2)
    assert run_behind(last) == Run(7, 1)
    assert follows(run_behind(last), lived(2, 7, 1))


@given(st.integers(0, PLACES - 1), st.integers(0, 4))
def test_what_is_cut_keeps_its_place(first, dropped):
    whole = lived(10, 7, first, count=5)
    rest = without_first(whole, dropped)
    assert follows(Run(7, (first + dropped) % PLACES), rest)
    assert run_behind(rest) == run_behind(whole)
