import pytest

from dafka.groups.commit import TOPIC, Commit, CommitKey
from dafka.groups.commit_reader import WHOLE_INTERVAL_MS, CommitReader, committed
from dafka.model import Partition
from distributor.testing.positions import LogCluster
from tests.support.batches import make_batch, unreadable_from

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
    cluster.log.append([unreadable_from(make_batch([b"no"], 2, place), 0)])
    cluster.commit(KEY, Commit(1, 1, 1))
    assert reader.read(1) == ([(KEY, Commit(1, 1, 1))], False)
    assert reader.read(2) == ([], False)


def test_what_a_store_holds_of_some_groups(cluster):
    cluster.commit(KEY, Commit(1, 1, 1))
    cluster.commit(OTHER, Commit(2, 1, 1))
    assert committed(cluster, ["other", "unknown"]) == {OTHER: Commit(2, 1, 1)}


def test_all_is_read_again_only_where_that_is_wanted(cluster):
    cluster.commit(KEY, Commit(1, 1, 1))
    reader = CommitReader(cluster, whole_interval_ms=None)
    assert reader.read(0) == ([(KEY, Commit(1, 1, 1))], True)
    assert reader.read(10 * WHOLE_INTERVAL_MS) == ([], False)
    reader.renew()
    assert reader.read(10 * WHOLE_INTERVAL_MS) == ([(KEY, Commit(1, 1, 1))], True)
