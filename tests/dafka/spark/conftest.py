"""Stores to be read by Spark: their query ports, over logs that a test fills by hand."""

from __future__ import annotations

import threading
from contextlib import ExitStack
from dataclasses import replace

import pytest

from dafka.cluster import Cluster
from dafka.groups.runs import STAGED
from dafka.node.mirror import Mirror
from dafka.query.cluster_client import ClusterClient
from dafka.records.batch import records_of
from dafka.spark import commit as commit_module
from dafka.spark import staging, topic_sinks
from dafka.spark.options import sink_options
from tests.support import batches
from tests.support.query_port import QueryPort, unanswered
from tests.support.small_cluster import SmallCluster


@pytest.fixture
def make_batch():
    return batches.make_batch


@pytest.fixture
def serve():
    """A function that opens a query port over a log with these batches."""
    with ExitStack() as ports:

        def serve(*batches, **settings):
            port = QueryPort(**settings)
            ports.callback(port.stop)
            port.log.append(batches)
            return port

        yield serve


@pytest.fixture
def silent(monkeypatch):
    """An endpoint at which nobody answers."""
    endpoint = "tcp://127.0.0.1:9"
    unanswered(monkeypatch, endpoint)
    return endpoint


class SparkCluster(SmallCluster):
    """A tower and stores, one if it is not said which slots they share, and what they hold."""

    def __init__(self, *given, shares=(), stores=1, **settings):
        super().__init__(*given, stores=len(shares) or stores, **settings)
        self._shares = shares

    def open(self):
        self.running, *_ = self.stores = [self.store(one) for one in range(len(self.queries))]

    def store(self, number=0, **settings):
        slots = {"slots": self._shares[number]} if self._shares else {}
        return super().store(number, **slots, **settings)

    @property
    def options(self):
        return {"servers": ",".join(self.queries), "towers": self.endpoint}

    def records(self):
        """Everything that is held, by partition."""
        with ClusterClient(Cluster(stores=self.queries)) as stores:
            return held_by(stores.store())

    def published(self):
        """The same without what is only staged."""
        return {one: held for one, held in self.records().items() if one.topic != STAGED}

    def values(self):
        """Every value of that, in no order."""
        return sorted(record.value for records in self.published().values() for record in records)


def held_by(store):
    """Everything that a store answers with, by partition."""
    return {
        partition: [
            record for batch in store.scan(partition, 0, head + 1) for record in records_of(batch)
        ]
        for partition, head in store.heads().items()
    }


@pytest.fixture
def cluster(tmp_path, free_ports, reopened, request):
    """With the shares that a test is parametrized by."""
    shares = getattr(request, "param", ())
    cluster = SparkCluster(tmp_path, free_ports, reopened, shares=shares)
    cluster.start_tower()
    cluster.open()
    yield cluster
    close_mirrors()
    cluster.close()


def close_mirrors():
    """What a worker's end does."""
    staging._places.clear()
    topic_sinks._known.clear()
    while staging._mirrors:
        _, mirror = staging._mirrors.popitem()
        mirror.close()


@pytest.fixture
def options(cluster):
    """Batches hold one record, so that a driver can die between any two."""
    given = {**cluster.options, "topic": "out"}
    return replace(sink_options(given, stream=True), batch_bytes=1, silence_s=5.0)


@pytest.fixture
def apart(options, monkeypatch):
    """Each thread is a process: a mirror is used by one thread at a time."""
    mine = threading.local()
    mirrors = []

    def mirror_here(_):
        if not hasattr(mine, "mirror"):
            mine.mirror = Mirror(options.cluster.open())
            mirrors.append(mine.mirror)
        return mine.mirror

    monkeypatch.setattr(commit_module, "mirror_of", mirror_here)
    yield
    for mirror in mirrors:
        mirror.close()
