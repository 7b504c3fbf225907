import pytest

from dafka.groups.commit import TOPIC, Commit, CommitKey
from dafka.model import Batch, Partition
from distributor.offsets.reading import WHOLE_INTERVAL_MS, CommitReader, committed, places, times
from distributor.offsets.translation import Absent
from distributor.testing.positions import LogCluster, batch_of

PLACE = Partition("orders", "PRODUCER")
KEY = CommitKey("billing", PLACE)
OTHER = CommitKey("other", PLACE)


@pytest.fixture
def cluster():
    return LogCluster("a", 1)


def test_at_first_everything_that_holds_is_read_and_then_what_comes(cluster):
    cluster.commit(KEY, Commit(1, 1, 1))
    cluster.commit(KEY, Commit(2, 1, 2))
    reader = CommitReader(cluster)
    first = reader.read(0)
    assert first == ([(KEY, Commit(2, 1, 2))], True)
    cluster.commit(OTHER, Commit(3, 1, 3), writer="ANOTHER")
    cluster.commit(KEY, Commit(4, 1, 4))
    news, whole = reader.read(1)
    assert (sorted(news), whole) == ([(KEY, Commit(4, 1, 4)), (OTHER, Commit(3, 1, 3))], False)
    assert reader.read(2) == ([], False)
    _, whole = reader.read(WHOLE_INTERVAL_MS)
    assert whole


def test_more_news_than_are_read_at_once_come_the_next_time(cluster):
    reader = CommitReader(cluster, batches_max=1)
    reader.read(0)
    for position in range(3):
        cluster.commit(KEY, Commit(position, 1, position))
    read = [reader.read(1)[0] for _ in range(4)]
    assert [[commit.position for _, commit in commits] for commits in read] == [[0], [1], [2], []]


def test_records_that_are_no_commits_are_passed_over(cluster):
    reader = CommitReader(cluster)
    reader.read(0)
    place = Partition(TOPIC, "STRANGER")
    cluster.publish(place, [(1, b"no", b"commit"), (1, None, None)])
    cluster.log.append([Batch(place, 2, 1, b"raw")])
    cluster.commit(KEY, Commit(1, 1, 1))
    assert reader.read(1) == ([(KEY, Commit(1, 1, 1))], False)
    assert reader.read(2) == ([], False)


def test_what_a_store_holds_of_some_groups(cluster):
    cluster.commit(KEY, Commit(1, 1, 1))
    cluster.commit(OTHER, Commit(2, 1, 1))
    assert committed(cluster, ["other", "unknown"]) == {OTHER: Commit(2, 1, 1)}


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
