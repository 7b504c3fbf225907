"""A store's directory is copied, and both copies run: they are one disk too few, not one more."""

from __future__ import annotations

import shutil

import pytest

from dafka.errors import NotStoredError
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
        until(lambda: "another node has the address of this one" in caplog.text, 20)
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
