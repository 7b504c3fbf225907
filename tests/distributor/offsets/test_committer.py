import pytest

from dafka.errors import QueryError
from dafka.groups.commit import Commit, CommitKey
from dafka.model import Partition
from dafka.node.tower import Tower
from distributor.offsets.committer import Committer
from topology.model import ClusterSpec

pytestmark = pytest.mark.net

KEY = CommitKey("billing", Partition("orders", "PRODUCER"))


def test_commits_that_no_store_takes_are_an_error_and_the_end_does_not_wait(
    monkeypatch, free_ports
):
    monkeypatch.setattr("distributor.offsets.committer.WRITE_TIMEOUT_S", 0.2)
    with Tower(f"tcp://127.0.0.1:{free_ports(2)}") as tower:
        committer = Committer(ClusterSpec(name="a", id=1, towers=(tower.endpoint,)), "127.0.0.1")
        with pytest.raises(QueryError, match="cluster a has not taken positions"):
            committer.write([(KEY, Commit(5, 1, 2))])
        committer.close()


def test_a_committer_without_commits_opens_nothing():
    Committer(ClusterSpec(name="a", id=1, towers=("tcp://127.0.0.1:1",)), "127.0.0.1").close()
