"""A cluster in which what takes seconds takes less."""

from __future__ import annotations

import pytest
import zmq

from dafka.transport.sockets import SOCKETS_MAX
from tests.support.small_cluster import FAST_PRESENCE, SmallCluster

# Scripted peers make sockets too, and the first of a process settles how many there may be.
zmq.Context.instance().set(zmq.MAX_SOCKETS, SOCKETS_MAX)


@pytest.fixture
def make_cluster(tmp_path, free_ports, reopened):
    """A function that makes a cluster at another host, or with another number of towers."""
    made = []

    def make(**settings):
        settings = {"towers": 2, "presence": FAST_PRESENCE} | settings
        made.append(SmallCluster(tmp_path, free_ports, reopened, **settings))
        return made[-1]

    yield make
    for cluster in made:
        cluster.close()


@pytest.fixture
def cluster(make_cluster):
    """Room for two towers and a store; nothing runs yet."""
    return make_cluster()
