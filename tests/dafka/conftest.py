"""A small cluster in this process, over real loopback sockets."""

from __future__ import annotations

import pytest

from tests.support.small_cluster import SmallCluster
from tests.support.small_cluster import take as take_records


@pytest.fixture
def cluster(tmp_path, free_ports, reopened):
    """A tower; nothing else yet."""
    cluster = SmallCluster(tmp_path, free_ports, reopened)
    cluster.start_tower()
    yield cluster
    cluster.close()


@pytest.fixture
def stored(cluster):
    """A tower and a store."""
    cluster.store()
    return cluster


@pytest.fixture
def take():
    """A function that returns the next records of a consumer, or fails."""
    return take_records
