from __future__ import annotations

import json
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dafka.gateway.broker import KafkaPartition, Topic
from dafka.gateway.catalog import (
    CHANGED,
    CHANGES,
    CONTROLLED,
    TOPICS,
    Catalog,
    EmptiedPartition,
    TopicStage,
    TopicState,
    decoded_emptied,
    decoded_state,
    decoded_topic,
    encoded_emptied,
    encoded_state,
    encoded_topic,
    is_public,
)

ORDERS = Topic("orders", 2, UUID(int=7), {"retention.ms": "1000"})


def test_a_topic_is_read_as_it_was_written():
    assert decoded_topic(encoded_topic(ORDERS)) == ORDERS


DELETED = TopicState(ORDERS, TopicStage.DELETED, 5)
EMPTIED = EmptiedPartition(KafkaPartition("orders", 1), 5)


def test_what_has_become_of_a_topic_is_read_as_it_was_written():
    assert decoded_state(encoded_state(DELETED)) == DELETED
    assert decoded_state(encoded_topic(ORDERS)) == TopicState(ORDERS)
    assert encoded_state(TopicState(ORDERS)) == encoded_topic(ORDERS)
    assert decoded_emptied(encoded_emptied(EMPTIED)) == EMPTIED
    assert decoded_emptied(encoded_state(DELETED)) is None
    assert decoded_state(encoded_emptied(EMPTIED)) is None


@pytest.mark.parametrize("changed", [{"stage": "gone"}, {"change": -1}, {"change": "1"}])
def test_a_state_that_no_gateway_writes_is_none(changed):
    fields = json.loads(encoded_state(DELETED)) | changed
    assert decoded_state(json.dumps(fields).encode()) is None


@pytest.mark.parametrize(
    "changed", [{"emptied": 4_096}, {"emptied": -1}, {"change": 0}, {"topic": "__x"}]
)
def test_an_emptied_partition_that_no_gateway_writes_is_none(changed):
    fields = json.loads(encoded_emptied(EMPTIED)) | changed
    assert decoded_emptied(json.dumps(fields).encode()) is None


def test_the_last_change_holds_in_whatever_order_it_is_told():
    catalog = Catalog()
    altered = TopicState(ORDERS._replace(configs={}), change=7)
    assert catalog.add([altered, DELETED, TopicState(ORDERS)]) == [altered]
    assert catalog.topics == {"orders": altered.topic}
    gone = DELETED._replace(change=8)
    assert catalog.add([gone]) == [gone]
    assert catalog.topics == {}
    assert catalog.known == {"orders": ORDERS}
    assert catalog.numbers("orders") == 2, "its partitions keep their offsets"
    other = TopicState(ORDERS._replace(partitions=3), change=9)
    assert catalog.add([other]) == []


@pytest.mark.parametrize(
    "changed",
    [
        {"topic": "__ledger"},
        {"topic": "a b"},
        {"topic": 7},
        {"topic": ".."},
        {"partitions": 0},
        {"partitions": 4_097},
        {"partitions": True},
        {"id": "x"},
        {"id": UUID(int=0).hex},
        {"configs": []},
        {"configs": {"max.message.bytes": "many"}},
        {"configs": {"retention.ms": 7}},
    ],
)
def test_what_no_gateway_writes_is_none(changed):
    fields = json.loads(encoded_topic(ORDERS)) | changed
    assert decoded_topic(json.dumps(fields).encode()) is None


@given(st.one_of(st.none(), st.binary(max_size=200)))
def test_no_octets_raise(value):
    assert decoded_topic(value) is decoded_state(value) is decoded_emptied(value) is None


@pytest.mark.parametrize("value", [b"[]", b"{}", b"[" * 100_000, b'"\\ud800"'])
def test_nor_does_what_is_json(value):
    assert decoded_topic(value) is None


def test_the_first_that_is_told_holds():
    catalog = Catalog()
    other = ORDERS._replace(partitions=9)
    assert catalog.add([TopicState(ORDERS), TopicState(other)]) == [TopicState(ORDERS)]
    assert catalog.add([TopicState(other)]) == []
    assert catalog.numbers("orders") == 2
    assert catalog.numbers(TOPICS) == catalog.numbers(CHANGES) == 1
    assert catalog.numbers("__ledger") == 0
    own = [KafkaPartition("orders", 0), KafkaPartition("orders", 1)]
    assert catalog.partitions() == [CONTROLLED, CHANGED, *own]


def test_names_that_clients_may_have():
    assert [is_public(name) for name in ("a.b_C-1", "x" * 249)] == [True, True]
    assert not any(map(is_public, ("", ".", "_x", "a/b", "é", "x" * 250)))


def test_topics_are_taken_in_as_long_as_there_is_room():
    catalog = Catalog(partitions_max=3)
    large, small = ORDERS._replace(name="large"), ORDERS._replace(name="small", partitions=1)
    states = [TopicState(one) for one in (ORDERS, large, small)]
    assert catalog.add(states) == [states[0], states[2]]
    assert not catalog.has_room(small)
