"""Query ports without a store: one in a thread, one without sockets, and those nobody answers."""

from __future__ import annotations

import threading
from collections import deque

from dafka.groups.writers import Writers
from dafka.limits import READ_BYTES_MAX
from dafka.model import ALL_SLOTS
from dafka.query.service import ANSWER_BOUNDS, answer
from dafka.storage.kept_slots import KeptSlots
from dafka.storage.memory import MemoryLog
from dafka.transport.request import Client, QueryClient, QueryServer


class QueryPort:
    """Answers from `log`, as a store of some slots does, until a test replaces `respond`."""

    def __init__(self, slots=ALL_SLOTS):
        self.log = MemoryLog("AB" * 16)
        self.bounds = ANSWER_BOUNDS
        self.writers = Writers()
        kept = KeptSlots(self.log, slots)
        self.respond = lambda question: answer(
            question, self.log, writers=self.writers, bounds=self.bounds, kept_slots=kept
        )
        self.server = QueryServer("tcp://127.0.0.1:*")
        self.endpoint = self.server.endpoint
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._serve)
        self._thread.start()

    def _serve(self):
        while not self._stopping.is_set():
            self.server.socket.poll(20)
            received = self.server.receive()
            if received is not None:
                client, question = received
                self.server.reply(client, self.respond(question))
        self.server.close()

    def stop(self):
        self._stopping.set()
        self._thread.join()


def unanswered(monkeypatch, *endpoints):
    """Let questions to these be lost, without keeping who asks waiting for them."""
    ask = QueryClient.ask

    def lost(client, question, timeout_ms):
        return ask(client, question, 1 if client.endpoint in endpoints else timeout_ms)

    monkeypatch.setattr(QueryClient, "ask", lost)


class Questions:
    """The port `QueryServerPort`, with these questions and nobody who reads the answers."""

    socket = "query port"

    def __init__(self, *questions):
        self.asked = deque(questions)
        self.answers = []

    def receive(self):
        return (Client(b"", b""), self.asked.popleft()) if self.asked else None

    def room(self, _client):
        return READ_BYTES_MAX

    def reply(self, _client, answer):
        self.answers.append(answer)
        return True

    def close(self):
        self.asked.clear()
