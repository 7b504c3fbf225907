from __future__ import annotations

import pytest

from dafka.cli.reading import Stretch, at_offset, is_pattern, positions, records_in, topics_like
from dafka.errors import MisuseError
from dafka.groups.reset import to_earliest, to_time
from dafka.model import Batch, Partition
from dafka.records.batch import BatchBuilder, enclosed

A, B, OTHER = Partition("orders.eu", "A"), Partition("orders.us", "B"), Partition("_own.x", "C")


class Kept:
    """A store's answers: for each partition the first sequence and the records' times."""

    endpoint = "tcp://kept:1"

    def __init__(self, kept):
        self._kept = kept

    def topics(self):
        return sorted({partition.topic for partition in self._kept})

    def ranges(self, topic):
        return {
            partition: range(first, first + len(times))
            for partition, (first, times) in self._kept.items()
            if partition.topic == topic
        }

    def find(self, partition, timestamp_ms):
        first, times = self._kept[partition]
        return next((first + at for at, time in enumerate(times) if time >= timestamp_ms), None)

    def scan(self, partition, start, end):
        """One batch for every two records, whole."""
        first, times = self._kept[partition]
        for at in range(0, len(times), 2):
            part = times[at : at + 2]
            if first + at + len(part) > start and first + at < end:
                builder = BatchBuilder(10_000)
                for number, time in enumerate(part):
                    value = b"%s%d" % (partition.address.encode(), first + at + number)
                    assert builder.append(time, None, value, ())
                yield Batch(partition, first + at, len(part), enclosed(builder.build(), first + at))


@pytest.fixture
def store():
    return Kept({A: (2, [10, 20, 30, 40]), B: (0, [15, 5, 35]), OTHER: (0, [1])})


def values(records):
    return [record.value.decode() for record in records]


@pytest.mark.parametrize(
    ("offset", "expected"),
    [(3, {A: 3, B: 3}), (-1, {A: 5, B: 2}), (0, {A: 2, B: 0}), (-9, {A: 2, B: 0})],
)
def test_an_offset_is_within_what_is_kept(store, offset, expected):
    assert positions(store, [A.topic, B.topic], at_offset(offset)) == expected


def test_a_time_is_where_the_store_finds_it(store):
    assert positions(store, [A.topic, B.topic], to_time(36)) == {A: 5, B: 3}


def test_a_stretch_is_read_one_partition_after_the_other(store):
    every = Stretch().records(store, [A.topic, B.topic])
    assert values(every) == ["A2", "A3", "A4", "A5", "B0", "B1", "B2"]
    between = Stretch(to_time(20), to_time(35)).records(store, [A.topic, B.topic])
    assert values(between) == ["A3", "A4"]


def test_the_latest_are_those_of_all_partitions_by_time_each_in_order(store):
    topics = [A.topic, B.topic]
    assert values(Stretch(last=3).records(store, topics)) == ["A4", "B2", "A5"]
    assert values(Stretch(last=5).records(store, topics)) == ["B1", "A3", "A4", "B2", "A5"]
    before = Stretch(to_earliest, to_time(30), last=2)
    assert values(before.records(store, topics)) == ["B1", "A3"]
    assert len(values(Stretch(last=100).records(store, topics))) == 7


def test_a_topic_of_which_there_is_nothing_is_said(store):
    with pytest.raises(MisuseError, match="no partition of topic 'nothing' at tcp://kept:1"):
        Stretch().records(store, ["nothing"])


def test_only_the_records_that_are_asked_for_are_read(store):
    assert values(records_in(store, A, range(3, 5))) == ["A3", "A4"]
    assert values(records_in(store, A, range(6, 9))) == []


@pytest.mark.parametrize(
    ("named", "expected"),
    [
        (["orders.*"], ["orders.eu", "orders.us"]),
        (["orders.us", "orders.*"], ["orders.us", "orders.eu"]),
        (["*"], ["orders.eu", "orders.us"]),
        (["_own*"], ["_own.x"]),
        (["orders.[a-e]?"], ["orders.eu"]),
        (["later"], ["later"]),
    ],
)
def test_a_pattern_stands_for_the_topics_that_there_are(store, named, expected):
    assert topics_like(store, named) == expected


def test_a_topic_may_be_called_as_a_pattern_is():
    store = Kept({Partition("a*", "A"): (0, []), Partition("ab", "A"): (0, [])})
    assert topics_like(store, ["a*"]) == ["a*"]
    assert is_pattern("a*")
    assert not is_pattern("a.b")


@pytest.mark.parametrize("named", ["x*", "_other*"])
def test_a_pattern_that_matches_nothing_is_refused(store, named):
    with pytest.raises(MisuseError, match="no topic matches"):
        topics_like(store, [named])


def test_what_cannot_be_a_topic_is_refused(store):
    with pytest.raises(MisuseError, match="1 to 249 bytes"):
        topics_like(store, ["x" * 250])
