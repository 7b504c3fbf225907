"""Stores to be read by Spark: their query ports, over logs that a test fills by hand."""

from __future__ import annotations

import threading
from contextlib import ExitStack

import pytest

from dafka.model import Batch, Partition
from dafka.node.store import Store
from dafka.node.tower import Tower
from dafka.query.client import StoreClient
from dafka.query.service import answer
from dafka.records.batch import BatchBuilder, enclosed, records_of
from dafka.records.envelope import FRESH
from dafka.spark import task_log
from dafka.storage.lmdb_log import Durability
from dafka.storage.memory import MemoryLog
from dafka.transport.request import QueryServer

ORDERS = Partition("orders", "AB" * 16)


def batch(values, sequence=0, partition=ORDERS, envelope=FRESH, timestamp_ms=5):
    """A batch of records with these values."""
    builder = BatchBuilder(1 << 20)
    for value in values:
        assert builder.append(timestamp_ms, b"key", value, [("h", b"1")])
    content = enclosed(builder.build(), sequence, envelope)
    return Batch(partition, sequence, len(values), content)


@pytest.fixture
def make_batch():
    return batch


class QueryPort:
    """A store's query port in a thread, over a log in memory."""

    def __init__(self):
        self.log = MemoryLog("AB" * 16)
        self._server = QueryServer("tcp://127.0.0.1:*")
        self.endpoint = self._server.endpoint
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._serve)
        self._thread.start()

    def _serve(self):
        while not self._stopping.is_set():
            self._server.socket.poll(20)
            received = self._server.receive()
            if received is not None:
                client, question = received
                self._server.reply(client, answer(question, self.log))
        self._server.close()

    def stop(self):
        self._stopping.set()
        self._thread.join()


@pytest.fixture
def serve():
    """A function that opens a query port over a log with these batches."""
    with ExitStack() as ports:

        def serve(*batches):
            port = QueryPort()
            ports.callback(port.stop)
            port.log.append(batches)
            return port

        yield serve


@pytest.fixture
def silent():
    """An endpoint at which nobody answers."""
    return "tcp://127.0.0.1:9"


class Cluster:
    """A tower and a store, and what the store holds."""

    def __init__(self, directory, free_ports, reopened):
        first = free_ports(3)
        self.towers = f"tcp://127.0.0.1:{first}"
        self.servers = f"tcp://127.0.0.1:{first + 2}"
        self._data = directory / "store"
        self._reopened = reopened
        self._tower = reopened(lambda: Tower(self.towers))
        self.open()

    def open(self):
        self._store = self._reopened(
            lambda: Store(self._data, self.towers, query=self.servers, durability=Durability.OS)
        )

    def close_store(self):
        self._store.close()

    def close(self):
        self._store.close()
        self._tower.close()

    @property
    def options(self):
        return {"servers": self.servers, "towers": self.towers}

    def records(self):
        """Everything it holds, by partition."""
        with StoreClient(self.servers) as client:
            return {
                partition: [
                    record
                    for batch in client.scan(partition, 0, head + 1)
                    for record in records_of(batch)
                ]
                for partition, head in client.heads().items()
            }

    def values(self):
        """Every value it holds, in no order."""
        return sorted(record.value for records in self.records().values() for record in records)


@pytest.fixture
def cluster(tmp_path, free_ports, reopened):
    cluster = Cluster(tmp_path, free_ports, reopened)
    yield cluster
    close_mirrors()
    cluster.close()


def close_mirrors():
    """What a worker's end does."""
    while task_log._mirrors:
        _, mirror = task_log._mirrors.popitem()
        mirror.close()
