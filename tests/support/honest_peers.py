"""A producer, a consumer and somebody who asks a store, and how long each thing takes them."""

from __future__ import annotations

import threading
import time

from dafka.errors import NotStoredError, QueryError
from dafka.node.consumer import Consumer
from dafka.node.producer import Producer
from dafka.query.client import StoreClient

EVERY_S = 0.01
ASKED_EVERY_S = 0.05
ANSWER_TIMEOUT_MS = 10_000
TOPIC = "orders"
KINDS = "acknowledgement", "record", "query"


class Honest:
    """They go on until they are stopped.

    Args:
        cluster: Where.
        port: The query port of its store.
    """

    def __init__(self, cluster, port):
        self._producer = Producer(cluster, linger_ms=0)
        self._consumer = Consumer(cluster, topics=[TOPIC], start="earliest")
        self._port, self._credentials = port, cluster.credentials
        self._stopping = threading.Event()
        self.sent = 0
        self.unanswered = 0
        self.took = {kind: [] for kind in KINDS}
        """When each was begun, and how many milliseconds it took."""
        self._threads = [
            threading.Thread(target=one, daemon=True) for one in (self._send, self._take, self._ask)
        ]
        for thread in self._threads:
            thread.start()

    def _note(self, kind, begun_s):
        self.took[kind].append((begun_s, (time.monotonic() - begun_s) * 1_000))

    def _send(self):
        while not self._stopping.wait(EVERY_S):
            begun_s = time.monotonic()
            self.sent += 1  # before: who takes ends when it has as many
            future = self._producer.send(TOPIC, str(begun_s).encode())
            future.add_done_callback(
                lambda done, begun_s=begun_s: (
                    done.exception() or self._note("acknowledgement", begun_s)
                )
            )

    def _take(self):
        while not (self._stopping.is_set() and len(self.took["record"]) == self.sent):
            record = self._consumer.poll(0.2)
            if record is not None:
                self._note("record", float(record.value))

    def _ask(self):
        with StoreClient(self._port, ANSWER_TIMEOUT_MS, self._credentials) as client:
            while not self._stopping.wait(ASKED_EVERY_S):
                begun_s = time.monotonic()
                try:
                    client.ranges(TOPIC)
                except QueryError:
                    self.unanswered += 1
                self._note("query", begun_s)

    def percentiles(self, kind, from_s, until_s):
        """Half and 99 of 100 of what was begun in this time took at most so many milliseconds."""
        took = sorted(ms for begun_s, ms in self.took[kind] if from_s <= begun_s < until_s)
        assert took, f"no {kind} in {until_s - from_s:.0f} s"
        return [took[len(took) * percent // 100] for percent in (50, 99)]

    def stop(self, seconds=120):
        """Send no more, and wait until all has come; returns what is wrong then, for people."""
        self._stopping.set()
        for thread in self._threads:
            thread.join(seconds)
        late = self.sent - len(self.took["record"])
        wrong = [f"{late} of {self.sent} records have not arrived"] if late else []
        try:
            self._producer.close(seconds)
        except NotStoredError as error:
            wrong.append(str(error))
        self._consumer.close()
        return wrong
