from __future__ import annotations

from dafka.model import Batch, Partition
from dafka.node.delivery import (
    Deliveries,
    Delivery,
    address_in_use,
    buffer_full,
    delivery_future,
    ended_before_stored,
    not_spooled,
    not_stored,
)


def test_batches_finish_in_order_and_only_when_whole():
    deliveries = Deliveries("AA", {}, [])
    first, second = delivery_future(), delivery_future()
    deliveries.expect("orders", 2, first)
    deliveries.expect("orders", 3, second)
    assert deliveries.ends == {"orders": 5}
    assert deliveries.last() == [second]
    assert deliveries.finish("orders", 1) == []
    assert deliveries.finish("orders", 4) == [(first, Delivery("orders", "AA", 0, 2))]
    assert deliveries.unstored() == {Partition("orders", "AA"): 3}
    assert deliveries.finish("orders", 5) == [(second, Delivery("orders", "AA", 2, 3))]
    assert (deliveries.last(), deliveries.unstored()) == ([], {})
    assert deliveries.finish("payments", 9) == []


def test_who_waits_is_failed_and_what_he_waited_for_is_still_expected():
    deliveries = Deliveries("AA", {}, [])
    first = delivery_future()
    deliveries.expect("orders", 2, first)
    assert deliveries.fail("payments") == []
    assert deliveries.fail("orders") == [first]
    assert deliveries.unstored() == {Partition("orders", "AA"): 2}
    ((again, _),) = deliveries.finish("orders", 2)
    assert again is not first
    assert deliveries.last() == []


def test_an_earlier_life_goes_on():
    kept = [
        Batch(Partition("orders", "AA"), 4, 2, b""),
        Batch(Partition("orders", "AA"), 6, 1, b""),
    ]
    deliveries = Deliveries("AA", {"orders": 7, "payments": 3}, kept)
    assert deliveries.unstored() == {Partition("orders", "AA"): 3}
    deliveries.expect("payments", 1, delivery_future())
    assert [place for _, place in deliveries.finish("orders", 7)] == [
        Delivery("orders", "AA", 4, 2),
        Delivery("orders", "AA", 6, 1),
    ]
    assert [place for _, place in deliveries.finish("payments", 4)] == [
        Delivery("payments", "AA", 3, 1)
    ]


def test_what_is_dropped_is_named_and_not_expected_any_more():
    deliveries = Deliveries("AA", {}, [])
    future = delivery_future()
    deliveries.expect("orders", 2, future)
    assert deliveries.drop() == [(Partition("orders", "AA"), 2, future)]
    assert deliveries.unstored() == {}


def test_every_error_says_how_many_records_of_which_topics():
    unstored = {Partition("orders", "AA"): 2, Partition("payments", "AA"): 1}
    counts = "2 records of 'orders', 1 records of 'payments'"
    assert str(not_stored(unstored, 1.5, 1)) == f"no store has acknowledged {counts} within 1.5 s"
    away = {"tcp://b:2", "tcp://a:1"}
    assert str(not_stored(unstored, 1.5, 1, away)) == (
        f"no store has acknowledged {counts} within 1.5 s"
        "; not heard: the tower at tcp://a:1 and at tcp://b:2"
    )
    assert counts in str(not_spooled(unstored, 1.5, "/spool"))
    assert f"fewer than 2 stores have acknowledged {counts}" in str(buffer_full(unstored, 9, 7, 2))
    assert ended_before_stored(Partition("orders", "AA"), 2).unstored == {("orders", "AA"): 2}


def test_of_very_many_topics_an_error_names_a_few_and_has_all():
    unstored = {Partition(f"t{number}", "AA"): number for number in range(1, 1_001)}
    error = not_stored(unstored, 1.5, 1)
    assert "10 records of 't10' and 500445 of 990 other topics" in str(error)
    assert len(str(error)) < 500
    assert error.unstored == unstored


def test_an_address_in_use_names_it_and_the_spool_it_comes_from():
    text = str(address_in_use(Partition("orders", "AA"), 7, "/spool"))
    assert "address AA of the spool at '/spool'" in text
    assert "'orders' up to sequence 7" in text
    assert "spool at" not in str(address_in_use(Partition("orders", "AA"), 7, None))


def test_records_have_a_place_in_this_life_and_no_other():
    deliveries = Deliveries("AA", {"orders": 7}, [])
    other = Deliveries("AA", {"orders": 7}, [])
    assert deliveries.place("orders") == (deliveries.life, 0)
    deliveries.expect("orders", 2, delivery_future())
    assert deliveries.place("orders") == (deliveries.life, 2)
    assert deliveries.place("payments") == (deliveries.life, 0)
    assert deliveries.life != other.life


def test_what_is_not_spooled_is_counted():
    deliveries = Deliveries("AA", {"orders": 7}, [])
    deliveries.expect("orders", 2, delivery_future())
    assert deliveries.unspooled(deliveries.ends) == {Partition("orders", "AA"): 2}
    deliveries.spooled["orders"] = 9
    assert deliveries.unspooled(deliveries.ends) == {}


def test_a_future_cannot_be_cancelled():
    assert not delivery_future().cancel()
