from __future__ import annotations

from dafka.gateway.broker import KafkaPartition
from dafka.gateway.events import Produced
from dafka.gateway.refusals import REMEMBERED_MS, Refusals
from dafka.records.batch import PLACES
from tests.support.kafka_messages import client_batch

ORDERS = KafkaPartition("orders", 0)


def batch(first, epoch=0, producer=1):
    return client_batch(producer=(producer, epoch, first))


def produced(first, epoch=0, producer=1):
    return Produced(producer, epoch, first, 3)


def refused(*batches):
    refusals = Refusals()
    for one in batches:
        refusals.note(ORDERS, one, 0)
    return refusals


def test_what_comes_behind_a_refused_batch_has_one_before_it():
    refusals = refused(batch(20), batch(30))
    assert refusals.before(ORDERS, produced(30), 1)
    assert not refusals.before(ORDERS, produced(20), 1), "the one that was refused"
    assert not refusals.before(ORDERS, produced(10), 1), "it comes before that"


def test_the_first_of_those_that_were_refused_counts_in_whichever_order_they_came():
    refusals = refused(batch(30), batch(20))
    assert refusals.before(ORDERS, produced(30), 1)
    assert refused(batch(2), batch(PLACES - 1)).before(ORDERS, produced(2), 1)


def test_it_is_about_one_producer_in_one_epoch_and_partition():
    refusals = refused(batch(20))
    assert not refusals.before(ORDERS, produced(30, producer=2), 1)
    assert not refusals.before(ORDERS, produced(30, epoch=1), 1)
    assert not refusals.before(KafkaPartition("orders", 1), produced(30), 1)
    refusals.note(ORDERS, batch(40, epoch=1), 1)
    assert not refusals.before(ORDERS, produced(30, epoch=1), 1)


def test_it_is_over_once_something_is_taken_or_the_client_must_have_heard():
    refusals = refused(batch(20))
    assert refusals.before(ORDERS, produced(30), REMEMBERED_MS - 1)
    assert not refusals.before(ORDERS, produced(30), REMEMBERED_MS)
    refusals.over(ORDERS, 1)
    assert not refusals.before(ORDERS, produced(30), 1)


def test_producers_without_a_number_are_not_remembered():
    refusals = refused(client_batch())
    assert not refusals.before(ORDERS, Produced(-1, -1, 5, 3), 1)


def test_so_many_are_remembered():
    refusals = Refusals(remembered_max=2)
    for producer in range(3):
        refusals.note(ORDERS, batch(0, producer=producer), 0)
    there = [refusals.before(ORDERS, produced(9, producer=one), 1) for one in range(3)]
    assert there == [False, True, True]


def test_what_is_missing_may_come_for_so_long_and_is_out_of_order_from_then_on():
    refusals = Refusals()
    assert refusals.may_come(ORDERS, produced(30), 0)
    assert refusals.may_come(ORDERS, produced(33), REMEMBERED_MS - 1)
    assert not refusals.may_come(ORDERS, produced(30), REMEMBERED_MS)
    assert not refusals.may_come(ORDERS, produced(30), 9 * REMEMBERED_MS)
    assert refusals.may_come(ORDERS, produced(30, epoch=1), REMEMBERED_MS), "it has begun anew"
    assert refusals.may_come(ORDERS, produced(30, producer=2), REMEMBERED_MS)


def test_once_it_has_come_the_next_gap_has_its_own_time():
    refusals = Refusals()
    refusals.may_come(ORDERS, produced(30), 0)
    refusals.over(ORDERS, 1)
    assert refusals.may_come(ORDERS, produced(60), REMEMBERED_MS)
