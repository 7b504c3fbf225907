from __future__ import annotations

import json
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dafka.gateway.broker import KafkaPartition, Topic
from dafka.gateway.catalog import (
    CONTROLLED,
    TOPICS,
    Catalog,
    decoded_topic,
    encoded_topic,
    is_public,
)

ORDERS = Topic("orders", 2, UUID(int=7), {"retention.ms": "1000"})


def test_a_topic_is_read_as_it_was_written():
    assert decoded_topic(encoded_topic(ORDERS)) == ORDERS


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
    assert decoded_topic(value) is None


@pytest.mark.parametrize("value", [b"[]", b"{}", b"[" * 100_000, b'"\\ud800"'])
def test_nor_does_what_is_json(value):
    assert decoded_topic(value) is None


def test_the_first_that_is_told_holds():
    catalog = Catalog()
    other = ORDERS._replace(partitions=9)
    assert catalog.add([ORDERS, other]) == [ORDERS]
    assert catalog.add([other]) == []
    assert catalog.numbers("orders") == 2
    assert catalog.numbers(TOPICS) == 1
    assert catalog.numbers("__ledger") == 0
    own = [KafkaPartition("orders", 0), KafkaPartition("orders", 1)]
    assert catalog.partitions() == [CONTROLLED, *own]


def test_names_that_clients_may_have():
    assert [is_public(name) for name in ("a.b_C-1", "x" * 249)] == [True, True]
    assert not any(map(is_public, ("", ".", "_x", "a/b", "é", "x" * 250)))


def test_topics_are_taken_in_as_long_as_there_is_room():
    catalog = Catalog(partitions_max=3)
    large, small = ORDERS._replace(name="large"), ORDERS._replace(name="small", partitions=1)
    assert catalog.add([ORDERS, large, small]) == [ORDERS, small]
    assert not catalog.has_room(small)
