from __future__ import annotations

import pytest

from dafka.cluster import Cluster
from dafka.errors import QueryError
from dafka.groups.commit import Commit, CommitKey
from dafka.model import Partition
from dafka.node.committer import Committer
from dafka.node.tower import Tower

KEY = CommitKey("billing", Partition("orders", "PRODUCER"))


@pytest.mark.net
@pytest.mark.parametrize(("name", "where"), [("a", "cluster a"), ("", "the cluster")])
def test_commits_that_no_store_takes_are_an_error_and_the_end_does_not_wait(
    free_ports, name, where
):
    with Tower(f"tcp://127.0.0.1:{free_ports(2)}") as tower:
        committer = Committer(Cluster(tower.endpoint, name=name), timeout_s=0.2)
        with pytest.raises(QueryError, match=f"^{where} has not taken positions"):
            committer.write([(KEY, Commit(5, 1, 2))])
        committer.close()


def test_a_committer_without_commits_opens_nothing():
    Committer(Cluster("tcp://127.0.0.1:1")).close()
