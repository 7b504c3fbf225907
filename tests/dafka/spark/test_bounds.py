from __future__ import annotations

import re

import pytest

from dafka.errors import MisuseError
from dafka.model import Partition
from dafka.spark.bounds import Bound, TopicSelection, assigned, bound_of, by_partition, whole

AB, CD = Partition("orders", "AB"), Partition("orders", "CD")


def test_topics_by_name_by_pattern_and_partitions():
    assert [TopicSelection(("a", "b")).takes(Partition(one, "AB")) for one in "abc"] == [1, 1, 0]
    by_pattern = TopicSelection(pattern="a.*")
    assert [by_pattern.wants(one) for one in ("a", "ab", "ba")] == [True, True, False]
    everything, own = TopicSelection(pattern=".*"), TopicSelection(pattern="__.*")
    names = ("a", "_a", "__staged")
    assert [everything.wants(one) for one in names] == [True, True, False]
    assert [own.wants(one) for one in names] == [False, False, True]
    some = TopicSelection(("orders",), partitions=frozenset([AB]))
    assert some.wants("orders")
    assert [some.takes(one) for one in (AB, CD)] == [True, False]


def test_a_partition_has_its_own_time_or_that_of_all():
    bound = Bound(timestamp_ms=5, timestamps={AB: 7})
    assert [bound.time_of(one) for one in (AB, CD)] == [7, 5]
    assert Bound(timestamps={AB: 7}).time_of(CD) is None


def test_words_and_sequences():
    words = ("earliest", "latest")
    assert bound_of("o", "Latest", words, latest=False) == Bound(latest=True)
    bound = bound_of("o", '{"orders": {"AB": -1}}', words, latest=False)
    assert [bound.of(one, range(3, 9)) for one in (AB, CD)] == [9, 3]
    with pytest.raises(MisuseError, match=re.escape("'o' must be 'latest' or '{\"TOPIC\"")):
        bound_of("o", '{"orders": {"AB": -2}}', ("latest",), latest=True)


def test_numbers_by_partition():
    assert by_partition("o", '{"orders": {"AB": 0, "CD": 5}}') == {AB: 0, CD: 5}
    for text in ("5", '{"orders": {"AB": -1}}', '{"orders": ["AB"]}', '{"orders": {"AB": 1e3}}'):
        with pytest.raises(MisuseError, match="option 'o' must be"):
            by_partition("o", text)


def test_numbers_that_spark_has_room_for():
    most = (1 << 63) - 1
    assert [whole(text) for text in ("0", "5", str(most))] == [0, 5, most]
    for text in ("", "-1", "1.5", "²", str(most + 1), "9" * 5_000):
        assert whole(text) is None


def test_partitions_by_topic():
    assert assigned("o", '{"orders": ["AB", "CD", "AB"]}') == {AB, CD}
    for text in ("5", '["AB"]', '{"orders": 5}', '{"orders": [5]}', "[" * 100_000):
        with pytest.raises(MisuseError, match="option 'o' must be"):
            assigned("o", text)
    with pytest.raises(MisuseError, match="option 'o' names no partition"):
        assigned("o", '{"orders": []}')
