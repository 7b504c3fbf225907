"""The window of what is not stored yet."""

from __future__ import annotations

import pytest

from dafka.limits import FETCH_ANSWER_BYTES_MAX, STORES_MAX
from dafka.model import Partition
from dafka.protocol.unacked import Unacked
from dafka.wire import messages

P = Partition("flights", "AA")


def window(batch, *ranges, min_acks=1, size=1):
    unacked = Unacked(min_acks)
    for sequence, count in ranges:
        unacked.add(batch(sequence, count, size=size))
    return unacked


def answer(unacked, sequence, count):
    return unacked.answer(messages.Fetch("flights", "AA", "YOU", sequence, count))


def test_an_ack_frees_everything_up_to_it(batch):
    unacked = window(batch, (0, 2), (2, 2), (4, 2))
    freed = len(batch(0, 2).content) + len(batch(2, 2).content)
    assert unacked.acked(P, "S1", 4) == (4, freed)
    assert unacked.low(P) == 4
    assert unacked.stored(P) == 4


def test_an_ack_inside_a_batch_keeps_the_batch(batch):
    unacked = window(batch, (0, 4))
    assert unacked.acked(P, "S1", 2) == (2, 0)
    assert unacked.low(P) == 0


def test_old_and_repeated_acks_change_nothing(batch):
    unacked = window(batch, (0, 2), (2, 2))
    unacked.acked(P, "S1", 4)
    assert unacked.acked(P, "S1", 4) is None
    assert unacked.acked(P, "S1", 2) is None


def test_distinct_stores_are_counted(batch):
    unacked = window(batch, (0, 2), (2, 2), min_acks=2)
    assert unacked.acked(P, "S1", 4) is None
    assert unacked.acked(P, "S1", 4) is None
    assert unacked.acked(P, "S2", 2) == (2, len(batch(0, 2).content))
    assert unacked.acked(P, "S3", 4) == (4, len(batch(2, 2).content))


def test_an_ack_beyond_the_end_does_not_free_what_comes_later(batch):
    unacked = window(batch, (0, 2))
    assert unacked.acked(P, "S1", 1_000) is not None
    unacked.add(batch(2, 2))
    assert unacked.low(P) == 2


def test_acks_of_invented_stores_do_not_pile_up(batch):
    unacked = Unacked(min_acks=2)
    unacked.add(batch(0, 5))
    for number in range(STORES_MAX):
        assert unacked.knows(P, f"S{number}")
        unacked.acked(P, f"S{number}", 1)
    assert not unacked.knows(P, "one more")
    assert unacked.knows(P, "S0")


def test_an_ack_for_an_unknown_partition_is_nothing():
    assert Unacked(1).acked(P, "S1", 4) is None


def test_a_fetch_is_answered_with_whole_batches_in_order_and_then_the_head(batch):
    unacked = window(batch, (0, 2), (2, 2), (4, 2), (6, 2))
    first, second, head = answer(unacked, 3, 2)
    assert (first.sequence, first.count, first.requester) == (2, 2, "YOU")
    assert (second.sequence, second.count) == (4, 2)
    assert head == messages.DirectHead("YOU", "flights", "AA", 7)


def test_a_fetch_that_names_a_store_is_left_to_it(batch):
    unacked = window(batch, (0, 2))
    assert unacked.answer(messages.Fetch("flights", "AA", "YOU", 0, 2, "S1")) == []


def test_a_fetch_below_the_window_is_not_answered(batch):
    unacked = window(batch, (0, 2), (2, 2))
    unacked.acked(P, "S1", 2)
    assert answer(unacked, 1, 5) is None
    assert answer(Unacked(1), 0, 5) is None


def test_an_answer_is_bounded_but_never_empty(batch):
    size = FETCH_ANSWER_BYTES_MAX // 2
    unacked = window(batch, (0, 1), (1, 1), (2, 1), size=size)
    assert len(answer(unacked, 0, 3)) == 2
    unacked = window(batch, (0, 1), size=2 * FETCH_ANSWER_BYTES_MAX)
    assert len(answer(unacked, 0, 1)) == 2


def test_a_window_may_have_gaps_but_never_goes_back(batch):
    unacked = window(batch, (0, 2), (6, 2))
    assert [one.sequence for one in answer(unacked, 0, 100)[:-1]] == [0, 6]
    with pytest.raises(AssertionError):
        unacked.add(batch(4, 2))


def test_dropping_a_window_tells_its_bytes(batch):
    unacked = window(batch, (0, 2), (2, 2))
    assert unacked.drop(P) == len(batch(0, 2).content) + len(batch(2, 2).content)
    assert unacked.drop(P) == 0
    assert P not in unacked
    assert unacked.low(P) is None


def test_pending_names_the_last_sequence_of_what_is_unstored(batch):
    unacked = window(batch, (0, 2))
    assert unacked.pending() == {P: 1}
    unacked.acked(P, "S1", 2)
    assert unacked.pending() == {}
    assert unacked.end(P) == 2


def test_a_store_that_has_left_does_not_count_beside_the_one_that_has_its_place(batch):
    unacked = window(batch, (0, 2), (2, 2), min_acks=2)
    assert unacked.acked(P, "S1", 4) is None
    assert unacked.left("S1") == [P]
    assert unacked.acked(P, "S1, without its disk", 4) is None
    assert unacked.acked(P, "S2", 2) == (2, len(batch(0, 2).content))


def test_what_enough_stores_have_said_is_not_taken_back(batch):
    unacked = window(batch, (0, 2), (2, 2), min_acks=2)
    for store in ("S1", "S2"):
        unacked.acked(P, store, 4)
    assert unacked.left("S1") == unacked.left("S2") == unacked.left("S3") == []
    assert unacked.stored(P) == 4
