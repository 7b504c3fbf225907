"""A small cluster in this process, over real loopback sockets."""

from __future__ import annotations

import time
from contextlib import ExitStack

import pytest

from dafka.cluster import Cluster
from dafka.node.consumer import Consumer
from dafka.node.producer import Producer
from dafka.node.store import Store
from dafka.node.tower import Tower
from dafka.storage.lmdb_log import Durability


class SmallCluster:
    """One tower and as many nodes as a test asks for; all are closed after it."""

    def __init__(self, directory, free_ports, reopened):
        self._reopened = reopened
        self._directory = directory
        first = free_ports(3)
        self.endpoint = f"tcp://127.0.0.1:{first}"
        self.query = f"tcp://127.0.0.1:{first + 2}"
        self._stack = ExitStack()
        self.tower = self._stack.enter_context(Tower(self.endpoint))

    def store(self) -> Store:
        """Its only store; started again, it goes on with the data of the one before."""
        data = self._directory / "store"
        store = self._reopened(
            lambda: Store(data, self.endpoint, query=self.query, durability=Durability.OS)
        )
        return self._stack.enter_context(store)

    def producer(self, **settings) -> Producer:
        place = Cluster(self.endpoint, **_taken(settings))
        producer = Producer(place, **settings)
        # What a test has left unsent is lost: it was not what the test is about.
        self._stack.callback(_abandon, producer)
        return producer

    def consumer(self, *topics: str, **settings) -> Consumer:
        place = Cluster(self.endpoint, **_taken(settings))
        return self._stack.enter_context(Consumer(place, topics, **settings))

    def close(self):
        self._stack.close()


def _taken(settings):
    """Take those out that are the cluster's."""
    names = {"stores", "host", "advertise", "credentials", "insecure", "wire"}
    return {name: settings.pop(name) for name in names & settings.keys()}


def _abandon(producer):
    producer._node.stop()


@pytest.fixture
def cluster(tmp_path, free_ports, reopened):
    """A tower; nothing else yet."""
    cluster = SmallCluster(tmp_path, free_ports, reopened)
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

    def take(consumer, count, seconds=30.0):
        deadline = time.monotonic() + seconds
        found = []
        while len(found) < count:
            record = consumer.poll(max(0.0, deadline - time.monotonic()))
            assert record is not None, f"{len(found)} of {count} records within {seconds} s"
            found.append(record)
        return found

    return take
