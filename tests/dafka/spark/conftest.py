"""Stores to be read by Spark: their query ports, over logs that a test fills by hand."""

from __future__ import annotations

import threading
from contextlib import ExitStack

import pytest

from dafka.model import Batch, Partition
from dafka.query.service import answer
from dafka.records.batch import BatchBuilder, enclosed
from dafka.records.envelope import FRESH
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
