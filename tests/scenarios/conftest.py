"""A cluster in which what takes seconds takes less."""

from __future__ import annotations

import pytest
import zmq
from small_cluster import REUNION_MS, TIMEOUT_MS, SmallCluster

from dafka.protocol.presence import PresenceSettings
from dafka.transport import mesh
from dafka.transport.sockets import SOCKETS_MAX

# Scripted peers make sockets too, and the first of a process settles how many there may be.
zmq.Context.instance().set(zmq.MAX_SOCKETS, SOCKETS_MAX)


@pytest.fixture
def make_cluster(tmp_path, free_ports, reopened, monkeypatch):
    """A function that makes a cluster at another host, or with another number of towers."""
    settings = PresenceSettings(
        beacon_interval_ms=50, peer_timeout_ms=TIMEOUT_MS, reunion_ms=REUNION_MS
    )
    monkeypatch.setattr(mesh, "PRESENCE", settings)
    made = []

    def make(**settings):
        made.append(SmallCluster(tmp_path, free_ports, reopened, **settings))
        return made[-1]

    yield make
    for cluster in made:
        cluster.close()


@pytest.fixture
def cluster(make_cluster):
    """Room for two towers and a store; nothing runs yet."""
    return make_cluster()
