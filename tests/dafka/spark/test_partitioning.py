from __future__ import annotations

from random import Random

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from kafka.partitioner.default import murmur2

from dafka.spark.partitioning import _LONG, key_numbers


def kafkas(key, partitions):
    """As the client library does."""
    return -1 if key is None else (murmur2(key) & 0x7FFF_FFFF) % partitions


def numbers(keys, partitions):
    return key_numbers(pa.array(keys, pa.binary()), partitions).tolist()


@pytest.mark.parametrize(
    ("key", "hashed"),
    [
        (b"21", -973932308),
        (b"foobar", -790332482),
        (b"a-little-bit-long-string", -985981536),
        (b"a-little-bit-longer-string", -1486304829),
        (b"lkjh234lh9fiuh90y23oiuhsafujhadof229phr9h19h89h8", -58897971),
        (b"abc", 479470107),
    ],
)
def test_hashes_are_those_of_kafkas_own_test(key, hashed):
    """`UtilsTest.testMurmur2` of Kafka's clients."""
    assert numbers([key], 1 << 30) == [(hashed & 0x7FFF_FFFF) % (1 << 30)]


@given(st.lists(st.none() | st.binary(max_size=40), max_size=30), st.integers(1, 4_096))
def test_keys_go_where_a_client_of_kafka_sends_them(keys, partitions):
    assert numbers(keys, partitions) == [kafkas(key, partitions) for key in keys]


@pytest.mark.parametrize("length", [0, 1, 2, 3, _LONG - 1, _LONG, _LONG + 3, 5_001])
def test_keys_of_any_length(length):
    random = Random(length)
    keys = [random.randbytes(length), None, b"short", random.randbytes(length)]
    assert numbers(keys, 97) == [kafkas(key, 97) for key in keys]


@given(st.lists(st.none() | st.binary(max_size=9), max_size=12), st.data())
def test_a_part_of_a_column_is_read_as_that_part(keys, data):
    start = data.draw(st.integers(0, len(keys)))
    count = data.draw(st.integers(0, len(keys) - start))
    part = pa.array(keys, pa.binary()).slice(start, count)
    found = key_numbers(part, 7).tolist()
    assert found == [kafkas(key, 7) for key in keys[start : start + count]]
