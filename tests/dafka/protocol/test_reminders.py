from __future__ import annotations

from itertools import pairwise

from dafka.model import Partition
from dafka.protocol.reminders import INTERVAL_MS, INTERVAL_MS_MAX, Reminders
from dafka.wire.messages import ConsumerHello

ORDERS = Partition("orders", "AB")
OTHERS = Partition("others", "AB")


def test_a_consumer_is_reminded_of_its_topics_ever_more_rarely_and_then_no_more():
    reminders = Reminders()
    reminders.greeted(ConsumerHello("ST", "CC", ("orders",)), [ORDERS, OTHERS], 0)
    times = []
    while (due_ms := reminders.wakeup_ms()) is not None:
        assert list(reminders.due(due_ms)) == [(ORDERS, "CC")]
        times.append(due_ms)
    assert times[0] == INTERVAL_MS
    gaps = [later - sooner for sooner, later in pairwise(times)]
    assert gaps == sorted(gaps)
    assert gaps[-1] <= INTERVAL_MS_MAX


def test_what_moves_is_said_again():
    reminders = Reminders()
    reminders.greeted(ConsumerHello("ST", "CC", ("orders",)), [], 0)
    reminders.moved(ORDERS, 5)
    assert list(reminders.due(5 + INTERVAL_MS)) == [(ORDERS, "CC")]
    assert list(reminders.due(6 + INTERVAL_MS)) == []


def test_without_such_consumers_nothing_is_kept():
    reminders = Reminders()
    reminders.moved(ORDERS, 0)
    assert reminders.wakeup_ms() is None


def test_a_consumer_that_wants_nothing_is_not_reminded():
    reminders = Reminders()
    reminders.greeted(ConsumerHello("ST", "CC", ("orders",)), [ORDERS], 0)
    reminders.greeted(ConsumerHello("ST", "CC", ()), [ORDERS], 0)
    assert list(reminders.due(INTERVAL_MS)) == []


def test_topics_are_bounded_too(monkeypatch):
    monkeypatch.setattr("dafka.protocol.reminders.REMINDED_TOPICS_MAX", 3)
    reminders = Reminders()
    for consumer in ("C1", "C2"):
        reminders.greeted(ConsumerHello("ST", consumer, ("orders", "others", "orders")), [], 0)
    reminders.moved(ORDERS, 0)
    assert list(reminders.due(INTERVAL_MS)) == [(ORDERS, "C2")]


def test_the_oldest_of_too_many_is_forgotten(monkeypatch):
    monkeypatch.setattr("dafka.protocol.reminders.REQUESTERS_MAX", 2)
    reminders = Reminders()
    for consumer in ("C1", "C2", "C3"):
        reminders.greeted(ConsumerHello("ST", consumer, ("orders",)), [ORDERS], 0)
    assert list(reminders.due(INTERVAL_MS)) == [(ORDERS, "C2"), (ORDERS, "C3")]
