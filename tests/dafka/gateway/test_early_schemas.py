from __future__ import annotations

import pytest

from dafka.gateway.broker import ErrorCode
from dafka.gateway.early_schemas import EARLY_REQUESTS, EARLY_RESPONSES
from dafka.gateway.layout import RequestReader, request_layout, response_layout
from dafka.gateway.wire import SERVED, Api

COMMIT = (Api.OFFSET_COMMIT, 1)
DESCRIBE = (Api.DESCRIBE_CONFIGS, 0)


def test_what_kio_lacks_is_the_first_that_is_served():
    assert EARLY_REQUESTS.keys() == EARLY_RESPONSES.keys() == {COMMIT, DESCRIBE}
    assert all(SERVED[Api(api)].start == version for api, version in EARLY_REQUESTS)


def test_a_commit_has_a_time_of_its_own():
    octets = (
        b"\0\1g" + b"\0\0\0\7" + b"\0\2me"  # group, generation, member
        b"\0\0\0\1" + b"\0\6orders" + b"\0\0\0\1"  # one topic, one partition
        b"\0\0\0\3" + b"\0\0\0\0\0\0\1\0" + b"\xff" * 8 + b"\0\4note"  # offset, now, metadata
    )
    read = request_layout(*COMMIT).read(RequestReader(octets, 10))
    assert (read.group_id, read.generation_id_or_member_epoch, read.member_id) == ("g", 7, "me")
    ((topic,), (partition,)) = read.topics, read.topics[0].partitions
    assert topic.name == "orders"
    assert vars(partition) == {
        "partition_index": 3,
        "committed_offset": 256,
        "commit_timestamp": -1,
        "committed_metadata": "note",
    }


def test_what_became_of_a_commit_is_told():
    partitions = [{"partition_index": 3, "error_code": ErrorCode.ILLEGAL_GENERATION}]
    pieces = []
    response_layout(*COMMIT).write(pieces, {"topics": [{"name": "o", "partitions": partitions}]})
    assert b"".join(pieces) == b"\0\0\0\1\0\1o\0\0\0\1\0\0\0\3\0\x16"


@pytest.mark.parametrize(
    ("octets", "keys"), [(b"\xff\xff\xff\xff", None), (b"\0\0\0\1\0\1a", ["a"])]
)
def test_configs_are_asked_for_without_synonyms(octets, keys):
    octets = b"\0\0\0\1" + b"\2" + b"\0\6orders" + octets
    (asked,) = request_layout(*DESCRIBE).read(RequestReader(octets, 10)).resources
    assert (asked.resource_type, asked.resource_name) == (2, "orders")
    assert asked.configuration_keys == keys


def test_of_a_config_it_is_told_whether_it_has_its_default():
    config = {"name": "a", "value": "b", "read_only": False, "is_default": True}
    result = {"resource_type": 2, "resource_name": "o", "configs": [config]}
    pieces = []
    response_layout(*DESCRIBE).write(pieces, {"throttle_time_ms": 9, "results": [result]})
    assert (
        b"".join(pieces)
        == (
            b"\0\0\0\x09" + b"\0\0\0\1"
            b"\0\0" + b"\xff\xff" + b"\2" + b"\0\1o"  # no error and nothing to say about it
            b"\0\0\0\1" + b"\0\1a" + b"\0\1b" + b"\0\1\0"
        )
    )
