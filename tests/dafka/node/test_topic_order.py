from __future__ import annotations

import time
from uuid import UUID

from dafka.errors import QueryError
from dafka.gateway.broker import KafkaPartition, Topic
from dafka.gateway.catalog import (
    CHANGED,
    CONTROLLED,
    EmptiedPartition,
    TopicState,
    encoded_emptied,
    encoded_state,
    encoded_topic,
)
from dafka.gateway.effects import ChangesOrdered, TopicsOrdered
from dafka.gateway.ledger import LedgerEntry
from dafka.node.topic_order import TopicOrder

ORDERS = Topic("orders", 2, UUID(int=7), {})
EMPTIED = EmptiedPartition(KafkaPartition("orders", 1), 1)
UNREADABLE = object()
"""In place of a value that no store has any more, or nobody can read."""


class Stored:
    """What the ledger says is there, and a store that has it, at the second try."""

    def __init__(self, values):
        self._values = values
        self._tries = 0
        self.epoch = 1

    def ordered(self, _partition, start, end):
        return self.epoch, (LedgerEntry(0, "A", 0, end),) if end > start else ()

    def values(self, _topic, entry):
        self._tries += 1
        if self._tries == 1:
            raise QueryError("away")
        numbered = enumerate(self._values[entry.first : entry.first + entry.records], entry.first)
        return ((number, value) for number, value in numbered if value is not UNREADABLE)


def until(told, count):
    end_s = time.monotonic() + 30
    while len(told) < count:
        assert time.monotonic() < end_s
        time.sleep(0.01)


def followed(partition, stored, *ends):
    told = []
    order = TopicOrder(stored.ordered, lambda: stored, told.append)
    for number, end in enumerate(ends, 1):
        order.grown(partition, end)
        until(told, number)
    order.close()
    return told


def test_topics_are_read_once_in_their_order():
    other = ORDERS._replace(name="other")
    stored = Stored([encoded_topic(ORDERS), b"none", encoded_topic(other)])
    told = followed(CONTROLLED, stored, 2, 3)
    assert told == [TopicsOrdered(1, (ORDERS,)), TopicsOrdered(1, (other,))]


def test_changes_have_their_offset_and_one_as_number():
    state = TopicState(ORDERS, change=3)
    stored = Stored([b"none", encoded_state(state), encoded_emptied(EMPTIED)])
    told = followed(CHANGED, stored, 2, 3)
    assert told == [ChangesOrdered(1, ((2, state),)), ChangesOrdered(1, ((3, EMPTIED),))]


def test_a_new_owner_reads_from_the_beginning():
    stored = Stored([encoded_topic(ORDERS)] * 2)
    told = []
    order = TopicOrder(stored.ordered, lambda: stored, told.append)
    order.grown(CONTROLLED, 1)
    until(told, 1)
    stored.epoch = 2
    order.grown(CONTROLLED, 2)
    until(told, 2)
    order.close()
    assert told[1] == TopicsOrdered(2, (ORDERS, ORDERS))


def test_what_cannot_be_read_keeps_its_place():
    state = TopicState(ORDERS, change=3)
    stored = Stored([UNREADABLE, UNREADABLE, encoded_state(state)])
    assert followed(CHANGED, stored, 3) == [ChangesOrdered(1, ((3, state),))]
    stored = Stored([encoded_topic(ORDERS), UNREADABLE, encoded_topic(ORDERS)])
    told = followed(CONTROLLED, stored, 2, 3)
    assert told == [TopicsOrdered(1, (ORDERS,)), TopicsOrdered(1, (ORDERS,))]


def test_an_error_that_nobody_expects_is_told(caplog):
    class Broken(Stored):
        def values(self, _topic, entry):
            raise ValueError("broken")

    stored = Broken([])
    order = TopicOrder(stored.ordered, lambda: stored, [].append)
    assert order.unwell() == ""
    order.grown(CONTROLLED, 1)
    order.close()
    assert order.unwell() == "topics are not read: broken"
    assert "topics are not read any more" in caplog.text
