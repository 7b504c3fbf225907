import pytest

from dafka.model import Batch, Partition
from dafka.protocol.disputes import Disputes
from dafka.protocol.effects import Compare, Disputed, Dropped

P, Q = Partition("flights", "AA"), Partition("flights", "BB")


@pytest.fixture
def disputes():
    return Disputes()


def test_what_is_durable_has_to_be_read(disputes, batch):
    assert disputes.compare(batch(0, 2), [], 5) == [Compare(batch(0, 2))]
    assert disputes.compare(batch(6, 2), [], 5) == []
    assert P not in disputes


def test_what_is_being_written_is_compared_at_once(disputes, batch):
    waiting = [batch(0, 2, partition=Q), batch(4, 2), batch(6, 2)]
    assert disputes.compare(batch(5, 2), waiting, 3) == []
    second = batch(5, 2, size=9)
    assert disputes.compare(second, waiting, 3) == [Disputed(P, 5)]
    assert P in disputes
    assert Q not in disputes


def test_a_dispute_is_told_once(disputes, batch):
    assert disputes.found(batch(3)) == [Disputed(P, 3)]
    assert disputes.found(batch(4)) == []


def test_what_cannot_be_read_settles_nothing(disputes, batch):
    whole = batch(0, 2)
    cut = Batch(P, 0, 2, whole.content[:-3])
    assert disputes.compare(cut, [whole], -1) == [Dropped("batch records")]
    assert P not in disputes
