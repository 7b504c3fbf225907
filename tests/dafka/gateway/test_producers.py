from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dafka.gateway.broker import ErrorCode, Placed
from dafka.gateway.producers import BATCHES_KEPT, GAP, Producers
from dafka.records.header import HeaderFields

FENCED = Placed(ErrorCode.INVALID_PRODUCER_EPOCH)


def batch(first, records=10, epoch=0, producer=1):
    return HeaderFields(0, 0, 0, 2, 0, 0, records - 1, 0, 0, producer, epoch, first, records)


def taken(*batches):
    producers = Producers()
    for number, one in enumerate(batches):
        assert producers.known(one) is None
        producers.add(one, 100 * number)
    return producers


def test_batches_that_follow_each_other_are_new():
    assert taken(batch(0), batch(10), batch(20, 1)).known(batch(21)) is None


def test_one_of_the_last_five_has_the_offset_that_it_got_and_the_one_before_them():
    producers = taken(*(batch(10 * number) for number in range(8)))
    for number in range(2, 8):
        found = producers.known(batch(10 * number))
        assert found == Placed(ErrorCode.NONE, 100 * number)
    assert BATCHES_KEPT == 6


@pytest.mark.parametrize("other", [batch(0), batch(10), batch(81), batch(70, 9), batch(75)])
def test_another_batch_is_out_of_order(other):
    assert taken(*(batch(10 * number) for number in range(8))).known(other) == GAP


def test_a_new_epoch_begins_at_zero_and_ends_the_old_one():
    producers = taken(batch(0), batch(10))
    assert producers.known(batch(20, epoch=1)) == GAP
    assert producers.known(batch(0, epoch=1)) is None
    producers.add(batch(0, epoch=1), 700)
    assert producers.known(batch(0, epoch=1)) == Placed(ErrorCode.NONE, 700)
    assert producers.known(batch(20)) == FENCED
    assert producers.known(batch(0)) == FENCED


def test_a_producer_of_which_nothing_is_known_may_go_on_anywhere():
    assert Producers().known(batch(70, epoch=3)) is None


def test_producers_have_nothing_to_do_with_each_other():
    producers = taken(batch(0))
    assert producers.known(batch(10, producer=2)) is None
    assert producers.known(batch(10)) is None


def test_who_has_no_id_is_not_kept():
    producers = Producers()
    producers.add(batch(-1, producer=-1, epoch=-1), 0)
    assert len(producers) == 0
    assert producers.known(batch(-1, producer=-1, epoch=-1)) is None


def test_numbers_begin_again_behind_the_last():
    producers = taken(batch(2**31 - 10, 10))
    assert producers.known(batch(0)) is None
    producers = taken(batch(2**31 - 5, 10))
    assert producers.known(batch(5)) is None
    assert producers.known(batch(0)) == GAP


def test_who_has_not_written_for_longest_is_forgotten():
    producers = Producers(producers_max=2)
    for producer in (1, 2, 1, 3):
        producers.add(batch(0, producer=producer), 0)
    assert len(producers) == 2
    assert producers.known(batch(50, producer=2)) is None
    assert producers.known(batch(50, producer=1)) == GAP


@given(st.lists(st.tuples(st.integers(1, 3), st.integers(1, 5), st.booleans())), st.data())
def test_what_is_rebuilt_from_headers_says_the_same(steps, data):
    """Every batch once more, some twice, in any state: nothing is placed twice."""
    producers, log, following = Producers(), [], {}
    for producer, records, again in steps:
        epoch, first = following.get(producer, (0, 0))
        fields = batch(first, records, epoch, producer)
        if again and log:
            fields = data.draw(st.sampled_from(log))[0]
        found = producers.known(fields)
        if found is None:
            log.append((fields, len(log)))
            producers.add(*log[-1])
            following[fields.producer_id] = (epoch, fields.base_sequence + fields.records)
        elif found.error is ErrorCode.NONE:
            assert (fields, found.offset) in log
    rebuilt = Producers()
    for fields, offset in log:
        rebuilt.add(fields, offset)
    for fields, _ in log:
        assert rebuilt.known(fields) == producers.known(fields) is not None
