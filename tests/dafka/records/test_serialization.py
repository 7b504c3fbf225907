from __future__ import annotations

import json
import pickle

import pytest

from dafka.errors import MisuseError, SerializationError
from dafka.model import Header, Record
from dafka.records.serialization import DeserializationError, Deserializers, Serializers

RECORD = Record("orders", "AB" * 16, 7, 5, b"7", b"[1]", (Header("a", b"x"),), 3, 2)


def as_json(value):
    return json.dumps(value).encode()


def test_without_any_there_is_nothing_to_pay_for():
    assert Serializers.given(None, None) is None


def test_keys_and_values_become_octets():
    serializers = Serializers(str.encode, as_json)
    assert serializers.octets("orders", "k", [1]) == (b"k", b"[1]")
    assert serializers.octets_of_all("orders", [1, "a"]) == [b"1", b'"a"']


def test_who_has_none_gives_octets():
    assert Serializers(None, as_json).octets("orders", b"k", 1) == (b"k", b"1")
    assert Serializers(str.encode, None).octets("orders", "k", b"v") == (b"k", b"v")


def test_none_is_no_value():
    serializers = Serializers(as_json, as_json)
    assert serializers.octets("orders", None, None) == (None, None)
    assert serializers.octets_of_all("orders", [None, 1]) == [None, b"1"]
    bare = RECORD._replace(key=None, value=None)
    assert Deserializers(json.loads, json.loads).deserialized(bare) == bare


@pytest.mark.parametrize("part", ["key", "value"])
def test_what_cannot_be_serialized_is_told_with_its_topic(part):
    serializers = Serializers(as_json, as_json)
    given = {"key": 1, "value": 1} | {part: {1}}
    with pytest.raises(
        SerializationError, match=rf"{part} .* 'orders' .* TypeError: .*set"
    ) as raised:
        serializers.octets("orders", **given)
    assert isinstance(raised.value, MisuseError)
    assert isinstance(raised.value.__cause__, TypeError)


def test_all_but_key_and_value_stays():
    record = Deserializers(int, json.loads).deserialized(RECORD)
    assert record == RECORD._replace(key=7, value=[1])
    assert type(record) is Record
    assert Deserializers(None, json.loads).deserialized(RECORD).key == b"7"
    assert Deserializers(int, None).deserialized(RECORD).value == b"[1]"


@pytest.mark.parametrize(
    ("part", "deserializers"), [("key", (json.loads, None)), ("value", (None, int))]
)
def test_an_error_names_the_record_and_has_it(part, deserializers):
    record = RECORD._replace(key=b"{", value=b"x")
    with pytest.raises(DeserializationError) as raised:
        Deserializers(*deserializers).deserialized(record)
    message = str(raised.value)
    assert message.startswith(
        f"{part} of the record with sequence 7 of topic 'orders' of address AB"
    )
    assert raised.value.record == record
    assert not raised.value.retriable


def test_serializers_travel_to_other_processes():
    assert pickle.loads(pickle.dumps(Serializers(None, as_json))) == Serializers(None, as_json)
