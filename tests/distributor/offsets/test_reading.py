import pytest

from dafka.model import Batch, Partition
from distributor.offsets.reading import places, times
from distributor.offsets.translation import Absent
from distributor.testing.positions import LogCluster, batch_of

PLACE = Partition("orders", "PRODUCER")


@pytest.fixture
def cluster():
    return LogCluster("a", 1)


def test_the_times_of_records_and_why_there_are_none(cluster):
    cluster.publish(PLACE, [(10, None, b"")])
    cluster.publish(PLACE, [(20, None, b""), (30, None, b"")])
    cluster.log.append((), trims={PLACE: 1})
    raw = Partition("raw", "C")
    cluster.log.append([Batch(raw, 0, 1, b"bare")])
    asked = [(PLACE, sequence) for sequence in (0, 1, 2, 3)] + [(raw, 0)]
    assert list(times(cluster, asked).values()) == [
        Absent.GONE,
        20,
        30,
        Absent.AHEAD,
        Absent.TIMELESS,
    ]


def test_a_damaged_record_has_no_time(cluster):
    whole = batch_of(PLACE, 0, [(10, None, b"x" * 40)])
    cluster.log.append([Batch(PLACE, 0, 1, whole.content[:-30] + b"\xff" * 30)])
    assert times(cluster, [(PLACE, 0)]) == {(PLACE, 0): Absent.TIMELESS}


def test_where_records_of_a_time_are(cluster):
    cluster.publish(PLACE, [(10, None, b""), (20, None, b"")])
    unknown = Partition("orders", "NOBODY")
    asked = [(PLACE, 15), (PLACE, 25), (unknown, 0)]
    assert list(places(cluster, asked).values()) == [
        (1, 0),
        (None, 2),
        (None, 0),
    ]


def test_a_forgotten_partition_still_ends_somewhere(cluster):
    cluster.publish(PLACE, [(5, b"k", b"v"), (6, b"k", b"v")])
    cluster.log.append([], trims={PLACE: 2})
    cluster.log.append([], forgets=[PLACE])
    never = Partition("orders", "NOBODY")
    found = places(cluster, [(PLACE, 5), (never, 5)])
    assert found == {(PLACE, 5): (None, 2), (never, 5): (None, 0)}
