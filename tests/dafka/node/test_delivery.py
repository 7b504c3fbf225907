from __future__ import annotations

from dafka.model import Batch, Partition
from dafka.node.delivery import Deliveries, Delivery, delivery_future, described


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


def test_counts_are_said_by_topic():
    unstored = {Partition("orders", "AA"): 2, Partition("payments", "AA"): 1}
    assert described(unstored) == "2 records of 'orders', 1 records of 'payments'"


def test_a_future_cannot_be_cancelled():
    assert not delivery_future().cancel()
