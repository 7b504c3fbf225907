"""Two disks are not two where one is a copy of the other, or has taken its place."""

from __future__ import annotations

import shutil

import pytest

from dafka.cluster import Cluster
from dafka.errors import NotStoredError
from dafka.node.tower import Tower
from dafka.transport.access import Access, Rights
from dafka.transport.keys import Credentials, new_keys
from tests.support.small_cluster import SmallCluster

pytestmark = [pytest.mark.net, pytest.mark.slow]


def test_a_copied_disk_counts_once_and_is_noticed(tmp_path, free_ports, reopened, until, caplog):
    cluster = SmallCluster(tmp_path, free_ports, reopened, stores=2)
    try:
        cluster.start_tower()
        cluster.store(0).close()
        shutil.copytree(cluster.data(0), cluster.data(1))
        stores = [cluster.store(number) for number in range(2)]
        assert stores[0].address == stores[1].address
        until(lambda: "another node has the address of this one" in caplog.text)
        producer = cluster.producer(min_acks=2)
        producer.send("orders", b"kept twice")
        with pytest.raises(NotStoredError):
            producer.flush(3)
        stores[1].close()
        shutil.rmtree(cluster.data(1))
        cluster.store(1)
        producer.flush(30)
    finally:
        cluster.close()


@pytest.mark.parametrize("keys", [False, True], ids=["open", "keys"])
def test_a_disk_counts_no_more_once_it_is_lost(tmp_path, free_ports, reopened, until, keys):
    cluster = SmallCluster(tmp_path, free_ports, reopened, stores=2)
    own, theirs = new_keys(), new_keys()
    access = Access(own[0], {own[0]: Rights(), theirs[0]: Rights(("orders",), ("orders",))})
    stores_own = {"credentials": Credentials(access, *own) if keys else None}
    ours = {"credentials": Credentials(access, *theirs) if keys else None}
    try:
        with Tower(Cluster(cluster.endpoint, **stores_own)):
            stores = [cluster.store(0, **stores_own)]
            producer = cluster.producer(min_acks=2, **ours)
            producer.send("orders", b"on one disk, and then on the next")
            for _ in range(3):
                until(lambda: stores[-1]._role.machine.heads)
                stores[-1].close()
                shutil.rmtree(cluster.data(0))
                stores.append(cluster.store(0, **stores_own))
            until(lambda: stores[-1]._role.machine.heads)
            with pytest.raises(NotStoredError):
                producer.flush(2)
            cluster.store(1, **stores_own)
            producer.flush(30)
    finally:
        cluster.close()
